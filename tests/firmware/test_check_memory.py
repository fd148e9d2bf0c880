"""Free kernels beside the host's allocations, on both firmwares: what is found, and at which line."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firmware_sim import chip
from firmware_sim.checks.finding import Finding
from firmware_sim.checks.records import READS
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash, DeviceError
from firmware_sim.firmware.controller_log import MOST_ACCESSES
from firmware_sim.firmware.image import KINDS, Kind
from tests.paths import SOURCES
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = SOURCES / "memory_kernels.c"
ROW = 64 * 4


class Checked:
    """A device, and what its checks found."""

    def __init__(self, kind: Kind) -> None:
        self.findings: list[Finding] = []
        self.logged: list[str] = []
        image = kernel_firmware([SOURCE], kind=kind)
        self.device = Device(
            image,
            check="memory,init",
            on_findings=self.findings.extend,
            on_log=self.logged.append,
            warnings="ignore",
        )

    def launch(self, kernel: str, x: int, y: int, n: int) -> list[tuple[str, str, int]]:
        """What is found: rule, sentence, line."""
        self.device.launch(kernel, struct.pack("<QQi", x, y, n))
        return self.found()

    def found(self) -> list[tuple[str, str, int]]:
        found = [
            (one.rule, one.what, one.by.frames[0].line if one.by is not None and one.by.frames else 0)
            for one in self.findings
        ]
        assert all(
            Path(frame.file).name == SOURCE.name for one in self.findings if one.by for frame in one.by.frames
        )
        self.findings.clear()
        return found

    def filled(self, nbytes: int, name: str, rights: int = 3) -> int:
        address = self.device.malloc(nbytes, name, rights)
        self.device.write(address, bytes(nbytes))
        return address


def line_of(mark: str) -> int:
    [line] = [i for i, text in enumerate(SOURCE.read_text().splitlines(), 1) if text.endswith(f"// {mark}")]
    return line


@pytest.fixture(scope="module", params=KINDS)
def checked(request: pytest.FixtureRequest) -> Iterator[Checked]:
    made = Checked(request.param)
    with made.device:
        yield made


def test_exactly_the_bytes_that_were_asked_for(checked: Checked) -> None:
    x, y = checked.filled(5 * ROW, "x"), checked.filled(4 * ROW, "y")
    assert checked.launch("copy_rows", x, y, 4) == []
    assert checked.launch("copy_rows", x, y, 5) == [
        ("memory.beyond", "writes 256 bytes beyond the end of y (1024 bytes)", line_of("WRITES"))
    ]
    checked.device.free(x)
    [(rule, what, line)] = checked.launch("copy_rows", x, y, 4)[:1]
    assert (rule, what, line) == ("memory.freed", "reads x, which was freed", line_of("READS"))
    checked.device.free(y)


def test_memory_of_nobody_and_memory_for_reading(checked: Checked) -> None:
    x, y = checked.filled(ROW, "x"), checked.filled(ROW, "y", READS)
    far = chip.DDR_BASE + chip.DDR_BYTES - ROW
    assert ("memory.outside", "writes memory that nobody allocated", line_of("WRITES")) in checked.launch(
        "copy_rows", x, far, 1
    )
    assert checked.launch("copy_rows", x, y, 1) == [
        ("memory.read_only", "writes y, which is for reading only", line_of("WRITES"))
    ]
    table = chip.L2_BASE + chip.L2_TABLE_OFFSET
    assert [rule for rule, _, _ in checked.launch("copy_rows", x, table, 1)] == ["memory.read_only"]
    assert checked.launch("copy_rows", x, chip.L2_BASE + chip.L2_USER_OFFSET, 1) == []
    checked.device.free(x)
    checked.device.free(y)


def test_what_the_host_reads_and_nothing_wrote(checked: Checked) -> None:
    x = checked.filled(4 * ROW, "x")
    y = checked.device.malloc(4 * ROW, "y")
    z = checked.device.malloc(ROW, "z")
    assert checked.launch("copy_rows", x, y, 3) == []
    checked.device.read(y, 3 * ROW)
    assert checked.found() == []
    checked.device.read(y, 4 * ROW)
    checked.device.read(z, ROW)
    assert checked.found() == [
        (
            "memory.not_written",
            "y is not written in part: 256 of 1024 bytes, and the host reads it",
            line_of("WRITES"),
        ),
        ("memory.not_written", "z is never written, and the host reads it", line_of("NEVER")),
    ]
    for address in (x, y, z):
        checked.device.free(address)


def test_pointers_of_the_controller(checked: Checked) -> None:
    x, y = checked.filled(40, "x"), checked.device.malloc(4, "y")
    assert checked.launch("sum_words", x, y, 10) == []
    checked.device.read(y, 4)
    assert checked.found() == []
    assert ("memory.beyond", "reads 4 bytes beyond the end of x (40 bytes)", line_of("POINTER")) in (
        checked.launch("sum_words", x, y, 11)
    )
    checked.device.free(x)
    checked.device.free(y)


def test_more_accesses_than_are_kept(checked: Checked) -> None:
    """What the others did is not known: nothing is said of it, and that it is so is."""
    n = 2 * (MOST_ACCESSES + 8)
    if checked.device.firmware.kind == "arm":
        n //= 8  # slow there, and within what is kept
    y = checked.device.malloc(4 * n, "y")
    checked.logged.clear()
    assert checked.launch("write_apart", 0, y, n) == []
    assert checked.device.read(y, 4 * n) == np.arange(n, dtype=np.int32).tobytes()
    assert checked.found() == []
    told = "".join(checked.logged).count(f"more than {MOST_ACCESSES} accesses")
    assert told == (checked.device.firmware.kind == "native")
    z = checked.device.malloc(64, "z")
    assert checked.launch("write_apart", 0, z, 15) == []  # checked again
    checked.device.read(z, 64)
    assert [what for _, what, _ in checked.found()] == [
        "z is not written in part: 4 of 64 bytes, and the host reads it"
    ]
    checked.device.free(y)
    checked.device.free(z)


def test_what_a_kernel_that_failed_left_out_is_no_finding(checked: Checked) -> None:
    x, y = checked.filled(2 * ROW, "x"), checked.device.malloc(ROW, "y")
    with pytest.raises(DeviceError, match="but DDR ends at"):
        checked.launch("copy_rows", x, chip.DDR_BASE + chip.DDR_BYTES - ROW, 2)
    checked.device.read(y, ROW)
    assert "memory.not_written" not in [rule for rule, _, _ in checked.found()]
    checked.device.free(x)
    checked.device.free(y)


def test_after_a_reset_all_counts_as_written(checked: Checked) -> None:
    """A new process does not know what kernels wrote before; what comes later it does."""
    x, y = checked.filled(ROW, "x"), checked.device.malloc(ROW, "y")
    assert checked.launch("copy_rows", x, y, 1) == []
    with pytest.raises(DeviceCrash):
        checked.launch("crash", x, y, 1)
    z = checked.device.malloc(ROW, "z")
    checked.found()
    assert checked.launch("copy_rows", x, x, 1) == []
    checked.device.read(y, ROW)
    assert checked.found() == []
    w = checked.device.malloc(ROW, "w")
    assert checked.launch("copy_rows", x, x, 1) == []
    checked.device.read(w, ROW)
    assert [rule for rule, _, _ in checked.found()] == ["memory.not_written"]
    for address in (x, y, z, w):
        checked.device.free(address)
