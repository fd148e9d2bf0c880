"""Kernels that do what no kernel should: on both builds of the firmware each is told where and why, in time,
and the device works again."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firmware_sim.chip import DDR_BASE
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceError, TpulayerError
from firmware_sim.firmware.image import KINDS, Kind
from tests.paths import SOURCES
from user_layers.toolchain.kernel import kernel_firmware

HOSTILE = SOURCES / "hostile_kernels.c"
NATIVE = SOURCES / "native_kernels.c"
TIME_LIMIT = 1.0  # s
LATEST = 60.0  # s until the answer, on a machine that does other things too

RAN = rf"ran for {TIME_LIMIT:g} s and was stopped (in a \w+ command issued at|at|after its call at) PLACE"
# a stream of commands comes to the limit by either clock: this machine's, or the chip's modelled one
STREAM = rf"({RAN}|PLACE in \w+: \w+ command \d+: with it this takes more than {TIME_LIMIT:g} s on the chip)"
OWN = "where the firmware's own memory is"
OVERRUN = "a local array was written beyond its end"
NO_BLOCK = "the pointer did not come from malloc, or was freed before"
BEYOND = "memory was written beyond the end of what malloc gave"
_slow = pytest.mark.slow


def both(kernel: str, said: str, *marks: pytest.MarkDecorator) -> object:
    return pytest.param(kernel, said, said, id=kernel, marks=marks)


def each(kernel: str, native: str, arm: str) -> object:
    return pytest.param(kernel, native, arm, id=kernel)


CASES = [
    both("spins", RAN),
    both("spins_on_memory", RAN, _slow),
    both("issues", STREAM),
    both("polls", STREAM),
    both("polls_nothing", STREAM, _slow),
    both("issues_large", STREAM, _slow),
    both("copies", STREAM, _slow),
    both("sections", STREAM, _slow),
    both("initializes", STREAM, _slow),
    both("logs", RAN),
    both("prints", rf"({RAN}|printed more than 16 MiB and was stopped at PLACE)"),
    both("formats", RAN),
    both("allocates", RAN, _slow),
    both("waits", STREAM, _slow),
    each("recurses", r"needs more than 95 KiB of stack.* at PLACE", "stack overflow at PLACE"),
    each("large_frame", r"needs more than 95 KiB of stack.* at PLACE", "stack overflow at PLACE"),
    both("fits_the_stack", ""),
    both("heap_is_limited", ""),
    both("many_blocks", ""),
    both("engine_over_firmware", rf"PLACE in engine_over_firmware: GDMA command 1 .*dst writes to .*{OWN}"),
    both("engine_over_its_end", rf"PLACE in engine_over_its_end: GDMA command 1 .*dst writes to .*{OWN}"),
    both(
        "pointer_over_firmware",
        rf"writes? to 0x\w+1234, {OWN}.* at PLACE",
    ),
    each(
        "runs_down_into_firmware",
        f"writes to 0x1050fffff, {OWN}, .*at PLACE",
        "write to 0x850fffff.*at PLACE",
    ),
    each(
        "over_the_code", f"writes to 0x100000100, {OWN}, .*at PLACE", f"write to 0x80000100, {OWN} at PLACE"
    ),
    each(
        "over_the_streams",
        f"writes to 0x102000100, {OWN}, .*at PLACE",
        f"write to 0x82000100, {OWN} at PLACE",
    ),
    each("null_pointer", "SIGSEGV .*at PLACE", "data abort: write to 0x0, a NULL pointer at PLACE"),
    each("wild_pointer", "SIGSEGV .*at PLACE", "data abort: write to 0x30000000.* at PLACE"),
    each("wild_call", "SIGSEGV .*at PLACE", "prefetch abort: jump to 0xdead0000 at PLACE"),
    each("heap_by_one", f"at PLACE in heap_by_one: {BEYOND}", f"{BEYOND} at PLACE in heap_by_one"),
    each("heap_by_many", f"at PLACE in heap_by_many: {BEYOND}", f"{BEYOND} at PLACE in heap_by_many"),
    both("heap_unnoticed", f"kernel heap_unnoticed .*{BEYOND}"),
    both("after_free", f"kernel after_free .*{BEYOND}"),
    both("frees_twice", r"^free: the block was freed before \[called at PLACE in frees_twice\]"),
    both("frees_nothing", rf"^free: {NO_BLOCK} \[called at PLACE in frees_nothing\]"),
    both("resizes_nothing", rf"^realloc: {NO_BLOCK} \[called at PLACE in resizes_nothing\]"),
    each(
        "array_of_a_large_frame",
        f"SIGABRT .* at PLACE in array_of_a_large_frame: {OVERRUN}",
        f"crashed: {OVERRUN} at PLACE in array_of_a_large_frame",
    ),
    each(
        "array_to_the_end_of_the_stack",
        "which uses a local array beyond its end, crashed: SIGSEGV .* at PLACE",
        f"crashed: {OVERRUN}",
    ),
    both("far_below_its_array", "far below (its|the) local variables, as by a negative index.* at PLACE"),
    both("local_array", "(kernel local_array .*)a local array was written beyond its end"),
    each("divides", "SIGFPE .*at PLACE", "integer division by zero at PLACE"),
    both("aborts", "abort or failed assertion.* at PLACE"),
    both("asserts", r"hostile_kernels\.c:\d+: asserts: assertion"),
]


@pytest.fixture(scope="module", params=KINDS)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    kind: Kind = request.param
    with Device(
        kernel_firmware([HOSTILE], kind=kind), time_limit=TIME_LIMIT, on_log=lambda text: None
    ) as device:
        yield device


def places(source: Path, kernel: str) -> str:
    """A pattern for the lines that end with the kernel's name in a comment."""
    lines = [i for i, text in enumerate(source.read_text().splitlines(), 1) if f"/* {kernel} */" in text]
    return rf"\S*{source.name}:({'|'.join(map(str, lines)) or '0'})\b"


def launched(device: Device, kernel: str) -> str:
    """What a launch says, empty when it is content; then the device works."""
    said = ""
    begin = time.monotonic()
    try:
        device.launch(kernel, struct.pack("<Q", DDR_BASE + 0x600_0000))
    except TpulayerError as error:
        said = error.message
    assert time.monotonic() - begin < LATEST
    addr = device.malloc(4)
    device.launch("fine", struct.pack("<Q", addr))
    assert device.read(addr, 4) == b"\7\0\0\0"
    return said


@pytest.mark.parametrize(("kernel", "native", "arm"), CASES)
def test_it_is_told_where_and_why(
    device: Device, kernel: str, native: str, arm: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pattern = arm if device.firmware.kind == "arm" else native
    said = launched(device, kernel)
    assert re.search(pattern.replace("PLACE", places(HOSTILE, kernel)), said, re.S) and bool(said) == bool(
        pattern
    ), said
    capfd.readouterr()


def test_every_hostile_kernel_has_its_case() -> None:
    kernels = set(re.findall(r"^KERNEL\((\w+)\)", HOSTILE.read_text(), re.M))
    assert kernels - {"fine"} == {case.values[0] for case in CASES}  # type: ignore[attr-defined]


def test_recording_has_the_limit_too(device: Device) -> None:
    """As compiling does."""
    for kernel in ("spins", "issues"):
        with pytest.raises(DeviceError, match=rf"ran for {TIME_LIMIT:g} s|instructions to record") as caught:
            device.record_launch(kernel)
        assert re.search(places(HOSTILE, kernel), str(caught.value)), str(caught.value)


# ---- what a native kernel leaves in its process ----

MODES = "left rounding or another mode of the processor changed; this was cleared"


@pytest.fixture(scope="module")
def native() -> Iterator[tuple[Device, list[str]]]:
    warned: list[str] = []
    image = kernel_firmware([NATIVE], kind="native")
    with Device(
        image, time_limit=TIME_LIMIT, on_warning=lambda warning: warned.append(str(warning))
    ) as device:
        yield device, warned


@pytest.mark.parametrize(
    ("kernel", "said", "warned"),
    [
        ("leaves_a_thread", "left 1 thread running; device 0 was reset", ""),
        ("leaves_a_thread_that_crashes", "left 1 thread running; device 0 was reset", ""),
        ("joins_a_thread", "", ""),
        ("leaves_files", "", "left 2 files open; this was cleared"),
        ("opens_and_closes", "", ""),
        ("closes_files", "closed files of its process that are not its own", ""),
        ("closes_all_files", "closed files of its process that are not its own", ""),
        ("closes_standard_files", "closed 3 files of the device's", ""),
        ("forks", "", "left 1 program running; this was cleared"),
        ("forks_and_waits", "", ""),
        ("starts_a_program", "", "left 1 program running; this was cleared"),
        ("leaves_a_timer", "", "left a timer running; this was cleared"),
        ("leaves_another_timer", "", "left a timer running; this was cleared"),
        ("rounds_up", "", MODES),
        ("traps", "", MODES),
        ("flushes", "", MODES),
        ("turns_copies_round", "", MODES),
        ("blocks_signals", "", "left signals blocked or unblocked; this was cleared"),
        ("handles_a_signal", "", "left handlers of signals changed; this was cleared"),
        ("goes_elsewhere", "", "left another working folder and left another umask; this was cleared"),
        ("speaks_otherwise", "", "left another locale; this was cleared"),
        ("sets_variables", "", "left the environment changed; this was cleared"),
        ("removes_variables", "", "left the environment changed; this was cleared"),
        ("limits_its_files", "", "left other limits of the process; this was cleared"),
        ("turns_its_output_away", "", "left the standard files replaced; this was cleared"),
        ("closes_its_input", "closed 1 file of the device's; device 0 was reset", ""),
        ("writes_into_files", "wrote into the connection of its process", ""),
        ("reads_from_files", "", ""),
        ("unmaps", "crashed: SIGSEGV", ""),
        ("over_globals", "crashed: SIG", ""),
        ("exits", "ended its process with exit code 0", ""),
        ("kills_itself", "crashed: SIGKILL", ""),
        ("stops_itself", "ran for", ""),
        ("many_processes", "ran for", ""),
    ],
)
def test_what_a_kernel_leaves_is_cleared_or_its_own_fault(
    native: tuple[Device, list[str]],
    kernel: str,
    said: str,
    warned: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    device, warnings = native
    warnings.clear()
    told = launched(device, kernel)
    assert re.match(rf"kernel {kernel}(, which .*,)? {said}", told) if said else not told, told
    assert warnings == ([f"kernel {kernel} {warned}"] if warned else [])
    addr = device.malloc(4)
    device.launch("computes", struct.pack("<Q", addr))
    assert device.read(addr, 4) == struct.pack("<f", 1 / 3)
    capfd.readouterr()


def test_crashes_are_noticed_also_when_a_kernel_took_their_signals(native: tuple[Device, list[str]]) -> None:
    device, _ = native
    assert not launched(device, "ignores_crashes")
    assert re.search(f"SIGSEGV .* at {places(NATIVE, 'null_pointer')}", launched(device, "null_pointer"))
