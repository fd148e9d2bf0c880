"""The instruction table: every instruction of both engines, and the way from a descriptor to its row."""

from __future__ import annotations

from firmware_sim.errors import DeviceError
from firmware_sim.instructions import (
    arithmetic,
    arithmetic_fixed,
    conv,
    correlation,
    depthwise,
    dma,
    dma_lrn,
    dma_special,
    dma_winograd,
    matmul,
    matmul2,
    md,
    md_sum,
    other_engines,
    sfu,
    table_lookup,
    vector,
    winograd,
)
from firmware_sim.instructions.instruction import Engine, Instruction, Status
from firmware_sim.isa.codes import Task
from firmware_sim.isa.layout import Row

_ANY_EU = frozenset(range(32))


def _refused(name: str, task: Task, summary: str, reason: str) -> Instruction:
    match = {"tsk_typ": frozenset({int(task)}), "tsk_eu_typ": _ANY_EU}
    return Instruction(name, Engine.BD, match, summary, status=Status.UNVERIFIED, reason=reason)


_REFUSED = (
    _refused("local_arrange", Task.LOCAL_ARRANGE, "rearranging local memory", "no source tells what it does"),
    _refused("decompress", Task.DECOMPRESS, "decompression", "no source tells what it does"),
)

TABLE: tuple[Instruction, ...] = (
    *arithmetic.INSTRUCTIONS,
    *arithmetic_fixed.INSTRUCTIONS,
    *md.INSTRUCTIONS,
    *md_sum.INSTRUCTIONS,
    *conv.INSTRUCTIONS,
    *winograd.INSTRUCTIONS,
    *depthwise.INSTRUCTIONS,
    *matmul.INSTRUCTIONS,
    *matmul2.INSTRUCTIONS,
    *correlation.INSTRUCTIONS,
    *sfu.INSTRUCTIONS,
    *table_lookup.INSTRUCTIONS,
    *vector.INSTRUCTIONS,
    *other_engines.INSTRUCTIONS,
    *dma.INSTRUCTIONS,
    *dma_special.INSTRUCTIONS,
    *dma_lrn.INSTRUCTIONS,
    *dma_winograd.INSTRUCTIONS,
    *_REFUSED,
)
"""In order of preference: the first row that matches a descriptor is its instruction."""

BY_NAME: dict[str, Instruction] = {i.name: i for i in TABLE}

_KEYS = {Engine.BD: ("tsk_typ", "tsk_eu_typ"), Engine.GDMA: ("special_func", "direction")}


def _index() -> dict[
    tuple[Engine, int, int], list[tuple[Instruction, tuple[tuple[str, frozenset[int]], ...]]]
]:
    """Rows by engine and its two selecting fields, with the conditions left to test."""
    out: dict[tuple[Engine, int, int], list[tuple[Instruction, tuple[tuple[str, frozenset[int]], ...]]]] = {}
    for row in TABLE:
        first, second = _KEYS[row.engine]
        rest = tuple((name, values) for name, values in row.match.items() if name not in (first, second))
        for a in row.match[first]:
            for b in row.match[second]:
                out.setdefault((row.engine, a, b), []).append((row, rest))
    return out


_INDEX = _index()


def lookup(engine: Engine, row: Row) -> Instruction:
    """The instruction of a descriptor. Raises DeviceError for codes that do not exist."""
    first, second = _KEYS[engine]
    a, b = row[first], row[second]
    for instruction, conditions in _INDEX.get((engine, a, b), ()):
        if all(row[name] in values for name, values in conditions):
            return instruction
    raise DeviceError(
        f"unknown {engine.value} instruction: {first} {a}, {second} {b}",
        hint="firmware_sim.instructions.table.TABLE lists the instructions that exist",
    )
