"""The message loop: requests, what damaged ones get, and how failures are reported."""

from __future__ import annotations

import ctypes
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmware_sim import wire
from firmware_sim.firmware.image import FirmwareLayer
from firmware_sim.wire import Op, Status, TensorRecord
from tests.paths import SOURCES
from tests.support import firmware_harness as fh
from tests.support.examples import examples

KERNELS = ["many_commands", "leaves_parallel_open", "asserts", "reads_memory", "call_api"]
PROBE = 2


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def shape_request(what: int = 0, inputs: tuple[TensorRecord, ...] = (), outputs: int = 1) -> list[bytes]:
    host = b"".join(struct.pack(f"<{len(t.host_data)}i", *t.host_data) for t in inputs if t.host_data)
    tensors = b"".join(t.encode(0 if t.host_data else wire.NONE) for t in inputs)
    head = wire.LAYER_CALL.pack(PROBE, 4, len(inputs), outputs, len(host), 0)
    return [head, tensors, struct.pack("<i", what), host]


def test_query(firmware: fh.Harness) -> None:
    reply = firmware.request(Op.QUERY)
    assert reply.status == 0
    assert wire.INFO.unpack_from(reply.payload) == (wire.ABI_VERSION, 3, len(KERNELS), 0)
    names_at = wire.INFO.size + 3 * wire.LAYER_INFO.size
    layers = wire.LAYER_INFO.iter_unpack(reply.payload[wire.INFO.size : names_at])
    assert [FirmwareLayer(x[3].rstrip(b"\0").decode(), *x[:3]) for x in layers] == list(fh.USER_LAYERS)
    names = reply.payload[names_at:].decode().split("\0")
    assert names == [*KERNELS, "", ""]


def test_assertion_names_file_and_line(firmware: fh.Harness) -> None:
    assert firmware.launch("asserts", struct.pack("<i", 7)).status == 0
    assert firmware.log == "value 7\n"
    reply = firmware.launch("asserts", struct.pack("<i", 8))
    assert reply.status == Status.ASSERT
    source = SOURCES / "firmware_fixture.c"
    line = 1 + source.read_text()[: source.read_text().index("OKKERNEL_ASSERT(")].count("\n")
    assert reply.text == f'{source}:{line}: asserts: assertion "*p == 7" failed'
    assert firmware.activity.value == b"kernel asserts"


def test_unknown_kernel(firmware: fh.Harness) -> None:
    reply = firmware.launch("nobody")
    assert reply.status == Status.NO_KERNEL
    assert reply.text.startswith("this firmware has no kernel nobody;")


def test_pointers_work_when_running_and_are_refused_when_recording(firmware: fh.Harness) -> None:
    firmware.ddr[5] = 42
    args = struct.pack("<Q", fh.DDR + 5)
    assert firmware.launch("reads_memory", args).status == 0
    assert firmware.log == "42\n"
    reply = firmware.launch("reads_memory", args, record=True)
    assert reply.status == Status.NOT_RECORDABLE
    assert reply.text.startswith("okk_global_mem_addr: kernel reads device memory while")
    assert "Return true from must_dynamic_run()" in reply.text


def test_shape_request(firmware: fh.Harness) -> None:
    tensor = TensorRecord((3, 4, 5), wire.DType.INT16)
    reply = firmware.request(Op.SHAPE, shape_request(inputs=(tensor,)))
    assert reply.status == 0, reply.payload
    out = TensorRecord.decode(reply.payload)
    assert (out.shape, out.dtype, out.ttype) == ((3, 4, 5), wire.DType.INT16, wire.TType.NEURON)


def test_shape_values_reach_the_layer(firmware: fh.Harness) -> None:
    values = TensorRecord((2,), wire.DType.INT32, wire.TType.NEURON_SHAPE, host_data=(17, 4))
    assert firmware.request(Op.SHAPE, shape_request(inputs=(values,))).status == 0
    assert _int(firmware, "test_host_value") == 17


def _int(firmware: fh.Harness, name: str) -> int:
    return ctypes.c_int32.in_dll(firmware.lib, name).value


def test_wrong_shapes_from_layers_are_refused(firmware: fh.Harness) -> None:
    tensor = TensorRecord((3, 4))
    reply = firmware.request(Op.SHAPE, shape_request(10, (tensor,)))
    assert reply.status == Status.SHAPE
    assert "gave output 0 the shape [-3, 4]; extents are at least 1" in reply.text
    reply = firmware.request(Op.SHAPE, shape_request(7, (tensor,)))
    assert reply.status == Status.ASSERT
    assert "the shape function of layer TPU_PROBE issues a command" in reply.text


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (
            wire.TENSOR.pack(0, 9, 1, *[1] * 32, wire.NONE, 0, 0, 0, 0, 0, 0),
            "input 0 has 9 dimensions; at most 8",
        ),
        (
            wire.TENSOR.pack(0, 1, 1, *[0] * 32, wire.NONE, 0, 0, 0, 0, 0, 0),
            "input 0 has the shape [0]; extents",
        ),
        (
            wire.TENSOR.pack(0, 2, 1, *[65536] * 32, wire.NONE, 0, 0, 0, 0, 0, 0),
            "the shape [65536, 65536]; extents",
        ),
        (
            wire.TENSOR.pack(0, 1, 1, *[1] * 32, wire.NONE, 0, 8, 0, 0, 0, 0),
            "input 0 has the unknown data type 8",
        ),
        (
            wire.TENSOR.pack(0, 1, 1, *[4] * 32, 0, 0, 0, 0, 0, 0, 0),
            "host data of input 0 is not inside the 0 bytes",
        ),
        (
            wire.TENSOR.pack(0, 1, 1, *[1] * 32, 4, 0, 0, 0, 0, 0, 0),
            "host data of input 0 is not inside the 0 bytes",
        ),
    ],
)
def test_damaged_tensors(firmware: fh.Harness, tensor: bytes, text: str) -> None:
    head = wire.LAYER_CALL.pack(PROBE, 4, 1, 1, 0, 0)
    reply = firmware.request(Op.SHAPE, [head, tensor, bytes(4)])
    assert reply.status == Status.BAD_MESSAGE
    assert text in reply.text


def test_scales_that_the_net_wants_are_of_all_outputs(firmware: fh.Harness) -> None:
    record = TensorRecord((2, 3)).encode()
    for scales, text in ((2, "a layer call with 1 outputs and scales of 2"), (1, "")):
        head = wire.LAYER_CALL.pack(PROBE, 4, 1, 1, 0, scales)
        reply = firmware.request(
            Op.SHAPE, [head, record, bytes(4), struct.pack(f"<{scales}f", *[0.5] * scales)]
        )
        if text:
            assert reply.status == Status.BAD_MESSAGE and text in reply.text
        else:
            assert reply.status == 0


def test_streams_run_group_by_group(firmware: fh.Harness) -> None:
    groups = [wire.GROUP.pack(fh.DDR + 128 * i, fh.DDR, i, 2) for i in range(3)]
    reply = firmware.request(Op.STREAMS, [wire.STREAMS.pack(3, 0), b"".join(groups)])
    assert (reply.status, reply.payload) == (0, b"")
    assert firmware.groups == groups
    reply = firmware.request(Op.STREAMS, [wire.STREAMS.pack(4, 0), b"".join(groups)])
    assert reply.status == Status.BAD_MESSAGE
    assert "ends inside its groups" in reply.text
    assert not firmware.groups
    assert firmware.request(Op.STREAMS, [wire.STREAMS.pack(0, 0)], record=True).status == Status.BAD_MESSAGE


def valid_requests() -> list[tuple[int, list[bytes]]]:
    program = wire.Program(in_num=1, out_num=1)
    a = program.add(wire.ProgramTensor(wire.TensorKind.INPUT, TensorRecord((2, 3))))
    b = program.add(wire.ProgramTensor(wire.TensorKind.OUTPUT, TensorRecord((2, 3), addr=fh.DDR)))
    step = wire.Step(wire.StepOp.GLOBAL, (a,), (b,), PROBE, "probe", struct.pack("<i", 0))
    program.steps.append(replace(step, param_check=fh.param_check(PROBE)))
    run = wire.RUN.pack(0, 0, 0, len(program.encode()), 0, fh.DDR, 1024, fh.DDR)
    return [
        (Op.QUERY, []),
        (Op.LAUNCH, [wire.LAUNCH.pack(b"asserts", 4), struct.pack("<i", 7)]),
        (Op.SHAPE, shape_request(inputs=(TensorRecord((3, 4)),))),
        (Op.PROGRAM, [run, program.encode()]),
        (Op.STREAMS, [wire.STREAMS.pack(1, 0), wire.GROUP.pack(fh.DDR, fh.DDR, 1, 1)]),
    ]


def whole(op: int, parts: list[bytes]) -> bytes:
    payload = b""
    for part in filter(None, parts):
        payload += b"\0" * (-len(payload) % 8) + part
    return wire.REQUEST.pack(op, len(payload), 0, 0) + payload


@pytest.mark.parametrize("index", range(5))
def test_cut_requests_are_bad_messages(firmware: fh.Harness, index: int) -> None:
    request = whole(*valid_requests()[index])
    assert firmware.raw(request).status == 0
    for size in range(len(request)):
        assert firmware.raw(request[:size]).status == Status.BAD_MESSAGE, size
        if size < wire.REQUEST.size:
            continue
        head = wire.REQUEST.pack(request[0], size - wire.REQUEST.size, 0, 0)
        cut = firmware.raw(head + request[wire.REQUEST.size : size])
        assert cut.status == Status.BAD_MESSAGE, size  # also with the header made to fit
    longer = whole(*valid_requests()[index])
    head = wire.REQUEST.pack(longer[0], len(longer) - wire.REQUEST.size + 8, 0, 0)
    assert firmware.raw(head + longer[wire.REQUEST.size :] + bytes(8)).status == Status.BAD_MESSAGE


def test_unknown_requests_and_flags(firmware: fh.Harness) -> None:
    assert firmware.request(77).text == "unknown request 77"
    reply = firmware.raw(wire.REQUEST.pack(Op.QUERY, 0, 4, 0))
    assert reply.text == "unknown request flags 0x4"


def test_a_name_without_end_is_refused(firmware: fh.Harness) -> None:
    reply = firmware.request(Op.LAUNCH, [struct.pack("<65s3xI", b"x" * 65, 0)])
    assert reply.status == Status.BAD_MESSAGE
    assert "more than 64 characters" in reply.text


def test_replies_never_outgrow_their_room(firmware: fh.Harness) -> None:
    request = whole(Op.QUERY, [])
    for capacity in (8, 16, 40, 90):
        reply = firmware.raw(request, capacity)
        assert reply.status == Status.NO_MEMORY
        assert reply.text == f"the reply does not fit into its {capacity - 8} bytes"[: capacity - 8]


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    index=st.integers(2, 4),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4),
)
def test_changed_bytes_end_in_a_status(
    firmware: fh.Harness, index: int, changes: list[tuple[int, int]]
) -> None:
    request = bytearray(whole(*valid_requests()[index]))
    for at, value in changes:
        request[at % len(request)] = value
    reply = firmware.raw(bytes(request))
    assert reply.status in set(Status)
    if reply.status:
        assert reply.text


def test_kernels_registered_twice_stop_the_boot(firmware_library: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.so"  # a library of its own: registrations stay
    shutil.copy(firmware_library, own)
    firmware = fh.Harness(own)
    firmware.lib.okk_register_kernel_func(b"asserts", None)
    assert firmware.boot() < 0
    assert firmware.log == "kernel asserts is registered twice; kernel names are unique\n"


def test_a_firmware_that_never_booted_says_so(firmware_library: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.so"
    shutil.copy(firmware_library, own)
    lib = ctypes.CDLL(str(own))
    assert lib.fw_boot(None) < 0
    reply = ctypes.create_string_buffer(256)
    request = wire.REQUEST.pack(Op.QUERY, 0, 0, 0)
    lib.fw_handle(request, ctypes.c_uint32(len(request)), reply, ctypes.c_uint32(256))
    status, size = wire.REPLY.unpack_from(reply.raw)
    assert (status, reply.raw[8 : 8 + size]) == (Status.BAD_MESSAGE, b"the firmware has not booted")
