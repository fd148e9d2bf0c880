"""Every range that the firmware checks, at its limit: the last value is taken and the next one refused.

The kernel API's are those of tests/support/api_limits.py; messages are changed by the names of the wire
structs. Programs: test_program_limits.py.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from firmware_sim import chip, wire
from firmware_sim.wire import (
    Program,
    ProgramTensor,
    RunMode,
    Status,
    TensorKind,
    TensorRecord,
)
from tests.support import firmware_harness as fh
from tests.support.api_limits import LOCAL_END, calls, usual_calls
from tests.support.wire_limits import changed, check, run_bytes
from user_layers.encode.calls import Calls
from user_layers.kernel_api.prototypes import functions

DDR_BYTES = 1 << 20
DDR_END = chip.DDR_BASE + DDR_BYTES
DIMS, DTYPE, VALUES = 12, 13, 14  # of the fixture's probe layer
PROBE = 2


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, ddr_bytes=DDR_BYTES)


# ---- the kernel API ----


def test_arguments_of_the_kernel_api(firmware: fh.Harness) -> None:
    commands = ("okk_bdc", "okk_gdma", "bm_atomic", "bm_local")
    issuing = {name for name in functions() if name.startswith(commands)}
    assert issuing == set(usual_calls())
    count = {True: 0, False: 0}
    for call in calls():
        reply = firmware.okk(call.function, call.args)
        check(reply, call.says, call)
        assert re.search(call.warns, reply.warnings), (call, reply.warnings)
        assert call.says == "" or reply.text.startswith(f"{call.function}: "), call
        count[call.says == ""] += 1
    assert min(count.values()) > 2000


@pytest.mark.parametrize(
    ("function", "argument", "first", "last"),
    [
        ("okk_local_mem_addr", "idx", 0, chip.NPU_NUM - 1),
        ("okk_local_mem_addr", "addr", 0, chip.LOCAL_BYTES - 1),
        ("okk_l2_sram_addr", "addr", chip.L2_BASE, chip.L2_BASE + chip.L2_BYTES - 1),
        (
            "okk_dtcm_addr",
            "addr",
            chip.DTCM_BASE + chip.DTCM_USER_OFFSET,
            chip.DTCM_BASE + chip.DTCM_USER_OFFSET + chip.DTCM_USER_BYTES - 1,
        ),
        ("okk_global_mem_addr", "addr", chip.DDR_BASE, DDR_END - 1),
    ],
)
def test_pointers_into_the_memories(
    firmware: fh.Harness, function: str, argument: str, first: int, last: int
) -> None:
    others = {name: 0 for _, name in functions()[function].parameters}
    starts = {}
    for value in (first - 1, first, first + 1, last - 1, last, last + 1):
        if value < 0:
            continue
        reply = firmware.okk(function, {**others, argument: value})
        check(reply, "" if first <= value <= last else f"0x{value:x}|NPU {value}|over the", value)
        if reply.status == 0:
            starts[value] = firmware.result()
    step = chip.LOCAL_BYTES if argument == "idx" else 1
    assert {pointer - value * step for value, pointer in starts.items()} == {starts[first] - first * step}


@pytest.mark.parametrize("which", [0, 1])
def test_command_ids(firmware: fh.Harness, which: int) -> None:
    def node(number: int, other: int = 0) -> dict[str, Any]:
        return {"node": [number, other, 0] if which == 0 else [other, number, 0]}

    for number in (65519, 65520):
        check(firmware.okk("okk_set_id_node", node(number)), "", number)
    check(firmware.okk("okk_set_id_node", node(65521)), "65521", which)
    for number, says in ((8, ""), (7, ""), (6, "go back behind")):
        both = Calls().call("okk_set_id_node", node(7, 7)).call("okk_set_id_node", node(number, 7))
        check(firmware.call_api(both), says, number)


@pytest.mark.parametrize(
    ("function", "args", "address"),
    [
        (
            "okk_bdc_32bit_cpy",
            {"shape": [65520, 1, 1, 1], "dst_stride": [1] * 4, "src_stride": [0] * 4, "src_addr": -4096},
            "dst_addr",
        ),
        (
            "okk_bdc_32bit_cpy",
            {"shape": [65520, 1, 1, 1], "dst_stride": [0] * 4, "src_stride": [1] * 4, "dst_addr": -4096},
            "src_addr",
        ),
        (
            "okk_gdma_32bit_cpy_S2L",
            {"shape": [65536, 1, 1, 1], "dst_stride": [1] * 4, "src_stride": [1] * 4, "src_addr": 1 << 32},
            "dst_addr",
        ),
    ],
)
def test_pieces_begin_inside_local_memory(
    firmware: fh.Harness, function: str, args: dict[str, Any], address: str
) -> None:
    """The second of two commands begins with the last word, or behind it."""
    args = {k: v + LOCAL_END if k.endswith("_addr") and v < 0 else v for k, v in args.items()}
    first = args["shape"][0] - 1
    names = [name for _, name in functions()[function].parameters]
    for begin, says in ((LOCAL_END - 4, ""), (LOCAL_END, "0x2000000")):
        given = {**args, address: begin - 4 * first}
        check(firmware.okk(function, {name: given[name] for name in names}), says, begin)
        assert len(firmware.bd) + len(firmware.gdma) == (2 if says == "" else 0)


def test_padded_rows_and_columns(firmware: fh.Harness) -> None:
    usual = usual_calls()["okk_bdc_max_pool2d"]
    for shape, padding, taken in (
        ([1, 1, 2047, 2], [0] * 4, True),
        ([1, 1, 2048, 2], [0] * 4, False),
        ([1, 1, 2, 2047], [0] * 4, True),
        ([1, 1, 2, 2048], [0] * 4, False),
        ([1, 1, 2017, 2], [15, 15, 0, 0], True),
        ([1, 1, 2018, 2], [15, 15, 0, 0], False),
        ([1, 1, 2, 2017], [0, 0, 15, 15], True),
        ([1, 1, 2, 2018], [0, 0, 15, 15], False),
        ([1, 1, (1 << 31) - 1, 2], [15, 15, 0, 0], False),
    ):
        args = {**usual, "input_shape": shape, "padding": padding}
        reply = firmware.okk("okk_bdc_max_pool2d", args)
        assert ("more than 2047" in reply.warnings) is not taken, shape


def test_pixels_of_converted_bytes(firmware: fh.Harness) -> None:
    for pixels, says in ((131_071, ""), (131_072, ""), (131_073, "131073 pixels of a channel")):
        addresses = {"dst_addr": 0, "src_addr": 4096, "work_addr": 8192, "shape": [1, 1, 1, pixels]}
        args = {**addresses, "is_signed": False, "is_aligned_layout": False}
        check(firmware.okk("okk_bdc_int8_to_fp32", args), says, pixels)


# ---- messages ----


def test_request_headers(firmware: fh.Harness) -> None:
    query = wire.REQUEST.pack(wire.Op.QUERY, 0, 0, 0)
    for op in (0, max(wire.Op) + 1):
        check(firmware.raw(changed(query, 0, "fw_request", "op", op)), "unknown request", op)
    for flags, says in ((0, ""), (3, ""), (4, "unknown request flags 0x4")):
        check(firmware.raw(changed(query, 0, "fw_request", "flags", flags)), says, flags)
    for size, says in ((0, ""), (1, "announces 1 bytes and has 0")):
        check(firmware.raw(changed(query, 0, "fw_request", "bytes", size)), says, size)
    needed = len(firmware.raw(query).payload) + wire.REPLY.size
    assert firmware.raw(query, needed).status == 0
    assert firmware.raw(query, needed - 1).status == Status.NO_MEMORY


def test_names_of_kernels(firmware: fh.Harness) -> None:
    for length, says in ((63, "has no kernel x{63};"), (64, "has no kernel x{64};"), (65, "more than 64")):
        reply = firmware.request(wire.Op.LAUNCH, [struct.pack("<65s3xI", b"x" * length, 0)])
        check(reply, says, length)


def test_tensors_of_a_layer_call(firmware: fh.Harness) -> None:
    tensor = TensorRecord((3, 4)).encode()

    def ask(ins: int, outs: int) -> fh.Reply:
        head = wire.LAYER_CALL.pack(PROBE, 4, ins, outs, 0, 0)
        return firmware.request(wire.Op.SHAPE, [head, tensor * ins, bytes(4)])

    # The probe fills its first output only: what is asked of the second is an empty shape.
    for ins, says in ((15, ""), (16, ""), (17, "17 inputs and 1 outputs; at most 16")):
        check(ask(ins, 1), says, ins)
    for outs, says in ((16, ""), (17, "1 inputs and 17 outputs; at most 16")):
        check(ask(1, outs), says, outs)


def test_tensors_of_a_run(firmware: fh.Harness) -> None:
    program = Program().encode()
    for ins, outs, says in (
        (16, 0, ""),
        (0, 16, ""),
        (17, 0, "17 inputs and 0 outputs|at most 16"),
        (0, 17, "0 inputs and 17 outputs|at most 16"),
    ):
        head = wire.RUN.pack(RunMode.FIXED, ins, outs, len(program), 0, chip.DDR_BASE, 0, 0)
        tensors = TensorRecord((1,)).encode() * (ins + outs)
        check(firmware.request(wire.Op.PROGRAM, [head, tensors, program]), says, (ins, outs))


def test_boot(firmware: fh.Harness) -> None:
    platform = firmware.platform
    for name, good, bad in (
        ("abi_version", (wire.ABI_VERSION,), (wire.ABI_VERSION - 1, wire.ABI_VERSION + 1)),
        ("capacity", (1, firmware.capacity), (0,)),
    ):
        usual = getattr(platform, name)
        try:
            for value, status in (*((v, 0) for v in good), *((v, -1) for v in bad)):
                setattr(platform, name, value)
                assert firmware.boot() == status, (name, value)
        finally:
            setattr(platform, name, usual)
    assert firmware.boot() == 0


# ---- tensors ----


def tensor_limits() -> Iterator[tuple[str, int, int, str]]:
    """(member, index, number, what the refusal says)."""
    for dims, says in ((0, ""), (7, ""), (8, ""), (9, "has 9 dimensions; at most 8")):
        yield "dims", 0, dims, says
    for dtype, says in ((0, ""), (6, ""), (7, ""), (8, "unknown data type 8")):
        yield "dtype", 0, dtype, says
    for size, says in ((-1, r"the shape \[-1"), (0, r"the shape \[0"), (1, ""), (2, "")):
        yield "shape", 0, size, says
    most = (1 << 31) - 1
    for size, says in ((most // 2 - 1, ""), (most // 2, ""), (most // 2 + 1, "elements at most 2147483647")):
        yield "shape", 1, size, says  # beside 2
    for offset, says in ((0, ""), (4, ""), (5, "host data"), (8, ""), (12, "host data"), (16, "host data")):
        yield "host_offset", 0, offset, says


@pytest.mark.parametrize("where", ["message", "program"])
def test_numbers_of_a_tensor(firmware: fh.Harness, where: str) -> None:
    for name, index, number, says in tensor_limits():
        shape = (2, 1) if name in ("shape", "host_offset") else (1, 1, 1, 1)
        record = TensorRecord(shape).encode()
        record = changed(record, 0, "fw_tensor", name, number, index)
        if where == "message":
            head = wire.LAYER_CALL.pack(PROBE, 4, 1, 1, 16, 0)
            reply = firmware.request(wire.Op.SHAPE, [head, record, bytes(4), bytes(16)])
        else:
            program = Program()
            program.add(ProgramTensor(TensorKind.NEURON, TensorRecord(shape, host_data=(1, 2, 3, 4)[:2])))
            data = program.encode() + bytes(8)
            data = changed(data, 0, "fw_program", "data_bytes", 16)
            at = wire.PROGRAM.size + wire.PROGRAM_TENSOR.size
            reply = run_bytes(firmware, data[:at] + record + data[at + wire.TENSOR.size :])
        check(reply, says, (name, number))


@pytest.mark.parametrize(
    ("what", "values"),
    [
        (DIMS, ((7, ""), (8, ""), (9, "9 dimensions; at most 8"))),
        (DTYPE, ((6, ""), (7, ""), (8, "unknown data type 8"))),
        (VALUES, ((63, ""), (64, ""), (65, "holds 65 shape values; at most 64"))),
    ],
)
def test_what_a_shape_function_gives(
    firmware: fh.Harness, what: int, values: Sequence[tuple[int, str]]
) -> None:
    head = wire.LAYER_CALL.pack(PROBE, 4, 1, 1, 0, 0)
    for number, says in values:
        tensor = TensorRecord((1,)).encode()
        reply = firmware.request(wire.Op.SHAPE, [head, tensor, struct.pack("<i", what | number << 8)])
        check(reply, says, number)
