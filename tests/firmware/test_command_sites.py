"""Commands and refused calls name the line that called the kernel API, not one inside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from firmware_sim.firmware.source_lines import SourceLines
from tests.support import firmware_harness as fh
from tests.support.golden_vectors import lines

Place = Callable[[int], str]


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


@pytest.fixture(scope="module")
def file_of(firmware: fh.Harness, firmware_library: Path) -> Place:
    """The file of the call that returns to a code address."""
    source = SourceLines(firmware_library)
    with open("/proc/self/maps") as maps:
        base = min(int(row.split("-")[0], 16) for row in maps if row.rstrip().endswith(str(firmware_library)))

    def place(address: int) -> str:
        line = source.at(address - base - 1)
        return Path(line.file).name if line is not None else "nowhere"

    return place


@pytest.mark.parametrize("name", ["okk_encode", "bm_atomic"])
def test_commands(name: str, firmware: fh.Harness, file_of: Place) -> None:
    found = set()
    for entry in lines(name):
        assert firmware.okk(entry["fn"], entry["args"]).status == 0, entry
        for batch in firmware.batches:
            found |= {(entry["fn"], file_of(site)) for site in (*batch.bd_site, *batch.gdma_site)}
    assert found == {(entry["fn"], "dispatch.c") for entry in lines(name) if entry["bd"] or entry["gdma"]}


@pytest.mark.parametrize("name", ["okk_encode_rejected", "bm_atomic_rejected"])
def test_refused_calls(name: str, firmware: fh.Harness, file_of: Place) -> None:
    seen = 0
    for entry in lines(name):
        reply = firmware.okk(entry["fn"], entry["args"])
        if reply.status < 0:
            called = re.search(r"\[called at (0x[0-9a-f]+)\]$", reply.text)
            assert called is not None, reply.text
            assert file_of(int(called[1], 16)) == "dispatch.c", reply.text
            seen += 1
    assert seen > 0


def test_commands_outside_nets_have_no_layer(firmware: fh.Harness) -> None:
    entry = next(e for e in lines("okk_encode") if e["bd"])
    firmware.layers["bd"][:] = 1
    assert firmware.okk(entry["fn"], entry["args"]).status == 0
    assert firmware.layers["bd"][0] == 0
