"""The device with the real firmware and the emulated chip: free kernels, a recorded program, crashes."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from firmware_sim.chip import DDR_BASE, STATIC_CONTEXT_OFFSET
from firmware_sim.device.client import Device, FirmwareError, StreamGroup
from firmware_sim.errors import DeviceCrash, DeviceError, UsageError
from firmware_sim.firmware.image import FirmwareImage, FirmwareLayer, Kind, find_firmware
from firmware_sim.wire import (
    MAX_ARGUMENTS,
    NONE,
    Program,
    ProgramTensor,
    Status,
    Step,
    StepOp,
    TensorKind,
    TensorRecord,
)
from tests.paths import SOURCES
from user_layers.toolchain.kernel import kernel_firmware

KERNELS = SOURCES / "device_kernels.c"
F32 = npt.NDArray[np.float32]


@pytest.fixture(scope="module", params=["native", "arm"])
def image(request: pytest.FixtureRequest) -> FirmwareImage:
    """device_kernels.c with the kernel API: a library for this machine, and images for the controller."""
    kind: Kind = request.param
    return find_firmware(kernel_firmware([KERNELS], kind=kind))


@pytest.fixture
def device(image: FirmwareImage) -> Iterator[Device]:
    with Device(image) as d:
        yield d


def kernel_args(out: int, into: int, shape: tuple[int, int, int, int]) -> bytes:
    return struct.pack("<QQ4i", out, into, *shape)


def run_kernel(device: Device, name: str, x: F32) -> F32:
    """Launch a kernel that maps one 4-d tensor to one of the same shape."""
    a, b = device.malloc(x.nbytes), device.malloc(x.nbytes)
    device.write(a, x)
    n, c, h, w = x.shape
    device.launch(name, kernel_args(b, a, (n, c, h, w)))
    out = device.read_array(b, x.shape, np.float32)
    device.free(a)
    device.free(b)
    return out.astype(np.float32)


def test_the_most_arguments(device: Device) -> None:
    x = np.arange(6, dtype=np.float32)
    a = device.malloc(x.nbytes)
    device.write(a, x)
    args = kernel_args(a, a, (1, 6, 1, 1)).ljust(MAX_ARGUMENTS, b"\0")
    device.launch("plus_one", args)
    assert np.array_equal(device.read_array(a, (6,), np.float32), x + 1)
    with pytest.raises(UsageError, match=f"{MAX_ARGUMENTS + 1} bytes of arguments; {MAX_ARGUMENTS} at most"):
        device.launch("plus_one", args + b"\0")


def line_of(mark: str) -> int:
    """The line of device_kernels.c that has this comment."""
    return next(i for i, line in enumerate(KERNELS.read_text().splitlines(), 1) if f"/* {mark} */" in line)


def random(*shape: int) -> F32:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kernel", ["plus_one", "plus_one_ping_pong"])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (5, 70, 9, 7), (3, 3, 64, 64)])
def test_plus_one(device: Device, kernel: str, shape: tuple[int, ...]) -> None:
    x = random(*shape)
    assert np.array_equal(run_kernel(device, kernel, x), x + np.float32(1))


def test_kernel_with_more_instructions_than_ids(device: Device) -> None:
    n = 70_000
    a = device.malloc(4)
    device.write(a, np.zeros(1, np.float32))
    device.launch("plus_n", kernel_args(a, a, (n, 0, 0, 0)))
    assert device.read_array(a, (1,), np.float32)[0] == n


def test_kernel_reads_and_writes_ddr_by_pointer(device: Device) -> None:
    a = device.malloc(8)
    device.write(a, np.array([1.5, 0], np.float32))
    device.launch("by_pointer", kernel_args(a + 4, a, (0, 0, 0, 0)))
    assert device.read_array(a, (2,), np.float32).tolist() == [1.5, 2.5]


def test_query_lists_layers_and_kernels(device: Device) -> None:
    info = device.query()
    assert info.layers == (FirmwareLayer("TPU_ADD", 0, 4, 0x1234), FirmwareLayer("TPU_BOOM", 1, 4, 0x1234))
    assert {"plus_one", "never_returns"} <= set(info.kernels)
    assert len(info.kernels) == 20


def test_log(image: FirmwareImage) -> None:
    lines: list[str] = []
    with Device(image, on_log=lines.append) as device:
        device.launch("says")
        assert lines == ["I am kernel 7\n"]
        lines.clear()
        device.launch("says_much", struct.pack("<i", 100_000))
    assert "".join(lines) == f"<{'7':>100000}>\n"


def test_what_c_prints_comes_out(image: FirmwareImage, capfd: pytest.CaptureFixture[str]) -> None:
    """Through the log from the controller, which has no streams; as it is from a library."""
    with Device(image) as device:
        device.launch("prints", kernel_args(0, 0, (3, 0, 0, 0)))
    out = capfd.readouterr()
    assert "n is 3\n1.50 of texttext!\n" in out.err


def test_unknown_kernel(device: Device) -> None:
    with pytest.raises(FirmwareError, match="no kernel plus_two") as caught:
        device.launch("plus_two")
    assert caught.value.status == Status.NO_KERNEL


def test_assertion_and_broken_rule_name_the_place(device: Device) -> None:
    with pytest.raises(FirmwareError, match=r"device_kernels\.c:\d+: asserts: .*a->n > 1000"):
        device.launch("asserts", kernel_args(0, 0, (1, 1, 1, 1)))
    with pytest.raises(
        FirmwareError, match=r"okk_parallel_end: .* \[called at .*device_kernels.c:\d+ in breaks_a_rule\]"
    ):
        device.launch("breaks_a_rule")


def test_reading_the_line_table_is_not_the_kernels_time(image: FirmwareImage) -> None:
    """That takes some tenths of a second, once."""
    with Device(image, time_limit=0.3) as device:
        device.launch("says")
        with pytest.raises(FirmwareError, match=r"called at .*device_kernels.c:\d+ in breaks_a_rule"):
            device.launch("breaks_a_rule")


def test_illegal_instruction_names_kernel_and_operand(device: Device) -> None:
    a = device.malloc(64**4 * 4)
    with pytest.raises(DeviceError, match=r"^kernel leaves_local_memory: (?s:.)*0x80000") as caught:
        device.launch("leaves_local_memory", kernel_args(0, a, (0, 0, 0, 0)))
    assert (
        f"device_kernels.c:{line_of('leaves_local_memory')} in leaves_local_memory: GDMA command 1 "
        in str(caught.value)
    )
    assert not isinstance(caught.value, DeviceCrash)
    x = random(1, 4, 4, 4)
    assert np.array_equal(run_kernel(device, "plus_one", x), x + np.float32(1))


_SEGV = r"crashed: SIGSEGV \(invalid memory access\)"


@pytest.mark.parametrize(
    ("kernel", "native", "arm"),
    [
        ("never_returns", r"ran for 1 s and was stopped", ""),
        ("null_pointer", _SEGV, "data abort: write to 0x0, a NULL pointer"),
        ("wild_call", _SEGV, "prefetch abort: jump to 0x0"),
        ("wild_string", _SEGV, "data abort: read of 0x0, a NULL pointer"),
        ("wild_shape", _SEGV, "data abort: read of 0x8, a NULL pointer"),
        ("endless_recursion", _SEGV, r"data abort: write to 0x1\w+, below the stack: stack overflow"),
        ("aborts", r"crashed: SIGABRT \(abort or failed assertion\)", "abort or failed assertion"),
        ("divides", r"crashed: SIGFPE \(integer division by zero\)", "integer division by zero"),
    ],
)
def test_crashes_name_the_kernel_and_leave_the_device_usable(
    image: FirmwareImage, kernel: str, native: str, arm: str
) -> None:
    what = f"crashed: {arm}" if arm and image.kind == "arm" else native
    with Device(image, time_limit=1) as device:
        with pytest.raises(DeviceCrash) as caught:
            device.launch(kernel)
        place = rf"{what} at \S*device_kernels\.c:(\d+) in {kernel}; device 0 was reset$"
        which = "(?:, which needs more than 95 KiB of stack,)?"
        found = re.match(f"^kernel {kernel}{which} {place}", caught.value.message)
        assert found, caught.value.message
        assert f"/* {kernel} */" in KERNELS.read_text().splitlines()[int(found[1]) - 1]
        x = random(2, 3, 4, 5)
        assert np.array_equal(run_kernel(device, "plus_one", x), x + np.float32(1))


def test_a_kernel_that_leaves(device: Device) -> None:
    arm = device.firmware.kind == "arm"
    with pytest.raises(DeviceCrash) as caught:
        device.launch("leaves")
    place = rf"\S*device_kernels\.c:{line_of('leaves')} in leaves"
    said = rf"crashed: exit was called, .* at {place}" if arm else "ended its process with exit code 3"
    assert re.match(f"kernel leaves {said}; device 0 was reset$", caught.value.message)


def test_arguments_that_are_shorter_than_the_kernels_struct(device: Device) -> None:
    with pytest.raises(DeviceCrash, match=r"device_kernels\.c:\d+ in plus_one") as caught:
        device.launch("plus_one", b"\0" * 16)
    said = "behind the arguments that were sent" if device.firmware.kind == "arm" else "sent 16 bytes of"
    assert said in caught.value.message


def test_endless_stream_is_stopped_at_the_limit(image: FirmwareImage) -> None:
    with Device(image, time_limit=2) as device:
        # by this machine's clock, or by the chip's modelled one: whichever comes there first
        said = "kernel never_stops_issuing( ran for 2 s|: .*takes more than 2 s on the chip)"
        with pytest.raises(DeviceError, match=said) as caught:
            device.launch("never_stops_issuing")
        assert f"device_kernels.c:{line_of('never_stops_issuing')} in never_stops_issuing" in str(
            caught.value
        )
        device.query()


def test_crash_in_a_layer_names_the_layer(device: Device) -> None:
    shape = TensorRecord((1, 2, 3, 4))
    arm = device.firmware.kind == "arm"
    how = "data abort: write to 0x0" if arm else "SIGSEGV"
    with pytest.raises(DeviceCrash, match=f"layer TPU_BOOM, shape function crashed: {how}"):
        device.infer_shape(1, b"", [shape], 1)
    assert device.infer_shape(0, b"\1", [shape], 1)[0].shape == (1, 2, 3, 4)
    how = "abort" if arm else "SIGABRT"
    with pytest.raises(DeviceCrash, match=rf"layer boom \(TPU_BOOM\), global function crashed: {how}"):
        device.record(layer_program((1, 2, 3, 4), 0, 0, op_type=1, name="boom"))


def test_an_illegal_command_of_a_net_is_found_when_it_is_recorded(device: Device) -> None:
    """With the layer and its line, which the stored streams do not know."""
    program = layer_program((1, 2, 3, 4), DDR_BASE + STATIC_CONTEXT_OFFSET, DDR_BASE)
    says = r"layer add \(TPU_ADD\), .*device_kernels\.c:\d+ in plus_one: GDMA command 2 .* firmware's own mem"
    with pytest.raises(DeviceError, match=says):
        device.record(program)
    device.query()


def layer_program(
    shape: tuple[int, ...], into: int, out: int, *, op_type: int = 0, name: str = "add"
) -> Program:
    program = Program(in_num=1, out_num=1)
    x = program.add(ProgramTensor(TensorKind.INPUT, TensorRecord(shape, addr=into)))
    y = program.add(ProgramTensor(TensorKind.OUTPUT, TensorRecord(shape, addr=out)))
    program.steps.append(Step(StepOp.GLOBAL, (x,), (y,), op_type, name, b"\0" * 4, param_check=0x1234))
    return program


def test_recorded_program_runs_from_ddr(device: Device) -> None:
    x = random(2, 65, 6, 7)
    a, b = device.malloc(x.nbytes), device.malloc(x.nbytes)
    recorded = device.record(layer_program(x.shape, a, b))
    [group] = recorded.groups
    assert (group.bd_num, group.gdma_num) == (1, 2) == recorded.steps[0]
    assert not np.frombuffer(device.read(b, x.nbytes), np.uint8).any()  # recording executes nothing
    streams = device.malloc(len(group.bd) + len(group.gdma))
    device.write(streams, group.bd + group.gdma)
    device.write(a, x)
    assert device.cycles == 0
    device.run_streams([StreamGroup(streams, streams + len(group.bd), group.bd_num, group.gdma_num)])
    assert device.cycles > 100
    assert np.array_equal(device.read_array(b, x.shape, np.float32), x + np.float32(1))


def test_damaged_stream_names_group_and_command(device: Device) -> None:
    a = device.malloc(4096)
    [group] = device.record(layer_program((1, 2, 3, 4), a, a)).groups
    words = np.frombuffer(group.bd, "<u4").copy()
    words[:] = 0xFFFF_FFFF
    streams = device.malloc(8192)
    device.write(streams, group.bd + group.gdma)
    good = StreamGroup(streams, streams + 128, 1, 2)
    device.write(streams + 4096, words)
    with pytest.raises(DeviceError, match=r"^the static network, command group 2: BD command"):
        device.run_streams([good, StreamGroup(streams + 4096, streams + 128, 1, 2)])
    device.run_streams([good])


def run_dynamic(device: Device, name: str, most: tuple[int, ...], x: F32) -> F32:
    """Run a net of one layer, compiled for inputs up to `most`."""
    program = layer_program(most, 0, 0, name=name)
    limit = 4 * math.prod(most)
    program.tensors = [
        ProgramTensor(t.kind, t.tensor, last_step=0 if t.kind is TensorKind.INPUT else NONE, max_bytes=limit)
        for t in program.tensors
    ]
    data = program.encode()
    at, a, b, heap = (device.malloc(n) for n in (len(data), limit, limit, 1 << 20))
    device.write(at, data)
    device.write(a, x)
    ins, outs = [TensorRecord(x.shape, addr=a)], [TensorRecord(most, addr=b)]
    [y] = device.run_program(at, len(data), ins, outs, heap, 1 << 20, 0)
    assert y.shape == x.shape
    return device.read_array(b, x.shape, np.float32).astype(np.float32)


def test_dynamic_program(device: Device) -> None:
    x = random(2, 5, 6, 7)
    assert np.array_equal(run_dynamic(device, "add", (4, 5, 8, 8), x), x + np.float32(1))


def test_illegal_instruction_of_a_net_names_layer_and_line(device: Device) -> None:
    place = rf"layer big \(TPU_ADD\), \S*device_kernels.c:{line_of('load of plus_one')} in plus_one"
    with pytest.raises(DeviceError, match=rf"^the dynamic network: {place}: GDMA command 1 \("):
        run_dynamic(device, "big", (64, 64, 64, 64), np.zeros((64, 64, 64, 64), np.float32))
