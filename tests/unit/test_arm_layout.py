"""firmware_sim/arm/layout.py, chip.py and sdk/arm describe the same memory map and structures."""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from firmware_sim import chip
from firmware_sim.arm import layout
from firmware_sim.processes.process_child import (
    ACTIVITY_BYTES,
    ACTIVITY_OFFSET,
    CODE_PAGE,
    FRAMES,
    FRAMES_OFFSET,
    PAGE_BYTES,
)
from firmware_sim.processes.shared_memory import ARENA_CAPACITY
from tests.support.firmware_harness import SDK, compilers

HEADER = SDK / "arm" / "fw_arm.h"
SCRIPT = SDK / "arm" / "firmware.ld"


def defined() -> dict[str, int]:
    return {
        name: int(value, 0) for name, value in re.findall(r"#define FW_ARM_(\w+) (\w+)", HEADER.read_text())
    }


@pytest.mark.parametrize(
    "name",
    [
        *("GDMA_REGS", "BD_REGS", "LINK", "NEWEST", "ACTIVITY", "WINDOW", "CODE_BYTES", "RING", "LOG"),
        *(
            "MESSAGES",
            "MESSAGES_BYTES",
            "BD_ARENA",
            "GDMA_ARENA",
            "SITES",
            "SCRATCH",
            "SCRATCH_BYTES",
            "ARGUMENTS",
            "ARGUMENTS_BYTES",
            "GUARD_BYTES",
        ),
        *("RING_MAGIC", "RING_SLOTS", "HEADER_TCM", "HEADER_BYTES", "RUN_GROUP"),
    ],
)
def test_numbers_are_those_of_the_header(name: str) -> None:
    assert getattr(layout, name) == defined()[name]


def test_numbers_are_those_of_the_chip() -> None:
    found = defined()
    assert found["ITCM"] == chip.ITCM_BASE and found["ITCM_BYTES"] == chip.ITCM_BYTES
    assert found["DTCM"] == chip.DTCM_BASE
    assert found["WINDOW_BYTES"] == chip.DDR_WINDOW_BYTES
    assert found["ARENA_DESCRIPTORS"] == ARENA_CAPACITY
    page = found["LINK"] & ~0xFFF
    assert found["NEWEST"] == page  # the first word
    assert (
        found["ACTIVITY"] - page == ACTIVITY_OFFSET - CODE_PAGE and found["ACTIVITY_BYTES"] == ACTIVITY_BYTES
    )
    assert found["LINK"] - page >= FRAMES_OFFSET - CODE_PAGE + 8 * FRAMES
    assert found["LINK"] - page + layout.LINK_DTYPE.itemsize <= PAGE_BYTES


def test_areas_in_ddr_follow_one_another_below_the_runtimes() -> None:
    found = defined()
    arena = found["ARENA_DESCRIPTORS"] * chip.DESCRIPTOR_BYTES
    areas = [
        (found["WINDOW"], found["CODE_BYTES"]),
        (found["RING"], layout.RING_DTYPE.itemsize),
        (found["LOG"], found["LOG_BYTES"]),
        (found["MESSAGES"], found["MESSAGES_BYTES"]),
        (found["BD_ARENA"], arena),
        (found["GDMA_ARENA"], arena),
        (found["SITES"], 4 * 8 * ARENA_CAPACITY),
        (found["SCRATCH"], found["SCRATCH_BYTES"]),
        (found["HEAP"], found["HEAP_BYTES"]),
        (found["ARGUMENTS"], found["ARGUMENTS_BYTES"] + found["GUARD_BYTES"]),
        (found["WINDOW"] + chip.STATIC_CONTEXT_OFFSET, 0),
    ]
    for (start, size), (following, _) in itertools.pairwise(areas):
        assert start + size <= following


def test_the_linker_script_keeps_to_the_map() -> None:
    text = SCRIPT.read_text()
    regions = {
        name: (int(start, 16), int(size) << {"K": 10, "M": 20}[unit])
        for name, start, size, unit in re.findall(
            r"(\w+)\s+\(\w+\)\s*: ORIGIN = (0x\w+), LENGTH = (\d+)([KM])", text
        )
    }
    assert regions["ITCM"] == (chip.ITCM_BASE, chip.ITCM_BYTES)
    assert regions["DDR"] == (layout.WINDOW, layout.CODE_BYTES)
    start, size = regions["DTCM"]
    assert start + size == chip.DTCM_BASE + chip.DTCM_USER_OFFSET  # what follows belongs to kernels
    stacks = [int(value, 16) for value in re.findall(r"__stack_\w+ = (0x\w+);", text)]
    assert len(stacks) == 2 and all(chip.DTCM_BASE < at <= start for at in stacks)


STRUCTS = {
    "fw_engine_regs": layout.ENGINE_DTYPE,
    "fw_link": layout.LINK_DTYPE,
    "fw_ring_slot": layout.SLOT_DTYPE,
    "fw_ring": layout.RING_DTYPE,
}


def test_structures_are_those_of_the_header(tmp_path: Path) -> None:
    rows = []
    for struct, dtype in STRUCTS.items():
        assert dtype.names is not None
        rows += [f"offsetof({struct}, {name})" for name in dtype.names] + [f"sizeof({struct})"]
    (tmp_path / "places.c").write_text(
        f'#include <stddef.h>\n#include "{HEADER}"\nconst unsigned places[] = {{{", ".join(rows)}}};\n'
    )
    library = tmp_path / "places.so"
    command = [*next(iter(compilers().values())), "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*command, str(tmp_path / "places.c")], check=True, timeout=120)
    found = (ctypes.c_uint * len(rows)).in_dll(ctypes.CDLL(str(library)), "places")
    expected: list[int] = []
    for dtype in STRUCTS.values():
        fields = dtype.fields
        assert fields is not None
        expected += [fields[name][1] for name in dtype.names or ()] + [dtype.itemsize]
    assert list(found) == expected
    assert np.dtype("<u4") == layout.LINK_DTYPE["command"]
