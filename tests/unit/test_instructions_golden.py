"""Every golden execution, exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest.mock import patch

import numpy as np
import pytest

from firmware_sim import flush
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.golden_vectors import Execution, executions, l2_tables, same_bits

_LAYOUTS = {Engine.BD: BD, Engine.GDMA: GDMA}
_CASES = list(executions())


def run(tpu: Tpu, case: Execution) -> None:
    """One descriptor after the other, as they are stored; their ids count per capture, not per case."""
    none = np.zeros((0, 32), np.uint32)
    for engine, data in case.descriptors:
        layout = _LAYOUTS[engine]
        fields = layout.decode(data)
        ids = ("cmd_id_tpu", "cmd_id_gdma") if engine is Engine.BD else ("cmd_id", "eng0_sync_id")
        fields.update(zip(ids, (1, 0), strict=True))
        words = np.frombuffer(layout.encode(**fields), np.uint32).reshape(1, 32)
        tpu.restart()
        tpu.execute(*((words, none) if engine is Engine.BD else (none, words)))


@pytest.fixture(scope="module", params=["compiled", "plain"])
def chip(request: pytest.FixtureRequest) -> Iterator[Tpu]:
    """As it is, and by the references that stand beside the compiled loops."""
    with patch.object(flush, "HARDWARE", new=flush.HARDWARE and request.param == "compiled"):
        yield Tpu(Memory.create(ddr_bytes=2 << 20))


def test_the_golden_set_is_whole() -> None:
    assert len(_CASES) == 1207


@pytest.mark.parametrize("cls", sorted({case.cls for case in _CASES}))
def test_executions(cls: str, chip: Tpu) -> None:
    for case in _CASES:
        if case.cls != cls:
            continue
        memory = chip.memory
        for region in case.before:
            memory.flat(region.space)[region.offset : region.offset + len(region.data)] = region.data
        try:
            run(chip, case)
            for region in case.after:
                got = memory.flat(region.space)[region.offset : region.offset + len(region.data)]
                assert same_bits(got, region.data), f"{case.name} {case.note}: {region.space.name} differs"
        finally:
            for region in (*case.before, *case.after):
                memory.flat(region.space)[region.offset : region.offset + len(region.data)] = 0


def test_modelled_cycles(golden: Callable[[str, str], None]) -> None:
    """Of each descriptor: for the chip, and the vendor's model's own. Reports and choices rest on them."""
    lines = []
    for case in _CASES:
        found = []
        for engine, data in case.descriptors:
            row = _LAYOUTS[engine].columns(np.frombuffer(data, np.uint32).reshape(1, 32)).row(0)
            semantics = lookup(engine, row).semantics
            assert semantics is not None
            cycles = semantics.cycles(row)
            found.append(f"{cycles.chip:.6g} {cycles.model:.6g}")
        lines.append(f"{case.cls} {case.name}: {', '.join(found)}")
    golden("cycles.txt", "\n".join(dict.fromkeys(lines)) + "\n")


def test_l2_tables() -> None:
    memory = Memory.create(ddr_bytes=1 << 20)
    tables = l2_tables()
    assert np.array_equal(memory.l2[0x300000 : 0x300000 + len(tables)], tables)
    assert not memory.l2[:0x300000].any()
    assert not memory.l2[0x300000 + len(tables) :].any()
