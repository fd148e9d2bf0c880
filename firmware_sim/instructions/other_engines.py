"""Sort and gather (tsk_typ 15): commands of engines whose own descriptors nobody documents.

The form is this project's: they travel in the BD queue with a task number that the chip does not use, so
they keep their place among the other commands. See docs/isa.md for the fields.
"""

from __future__ import annotations

import math

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.isa.bursts import straight
from firmware_sim.isa.codes import OtherEngine, Task
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor, locate
from firmware_sim.isa.layout import Row
from firmware_sim.isa.timing import Cycles, system_to_system
from firmware_sim.memory import Memory, View

_ELEMENT_BYTES = {0: 1, 2: 4, 4: 16}  # BmGDType
_LIMIT = 1 << 30  # elements; more cannot be meant


def _vector(name: str, access: Access, address: int, count: int, itemsize: int) -> Tensor:
    """Raises DeviceError unless it starts on an element of system memory."""
    space, offset = locate(address, name)
    if space is Space.LOCAL:
        raise DeviceError(
            f"{name}: address 0x{address:x} is in local memory", hint="give a DDR or L2 address"
        )
    if offset % itemsize:
        raise DeviceError(f"{name}: address 0x{address:x} is not a multiple of {itemsize}")
    if not 0 < count < _LIMIT:
        raise DeviceError(f"{name}: {count} elements", hint="lengths start at 1")
    return Tensor(name, access, space, offset, (1, 1, 1, count), (0, 0, 0, 1), itemsize)


def _view(memory: Memory, tensor: Tensor, dtype: type[np.generic]) -> View:
    return memory.view(tensor, tensor.parts()[0], dtype).reshape(-1)


# --- sort ----------------------------------------------------------------------------------------


def _sort_operands(row: Row) -> tuple[Tensor, ...]:
    """res0 = sorted numbers, opd0 = numbers; with indices also res1 and, unless counted, opd1."""
    n, kept = row["opd0_h_str"], row["res0_h_str"]
    if kept > n:
        raise DeviceError(f"res0: {kept} of {n} elements", hint="the result is at most as long as the input")

    def place(name: str, high: str, access: Access, count: int) -> Tensor:
        return _vector(name, access, row[high] << 32 | row[f"{name}_addr"], count, 4)

    found = [
        place("res0", "res0_n", Access.WRITE, kept),
        place("opd0", "opd0_n", Access.READ, n),
    ]
    if row["opt_res_add"]:
        found.append(place("res1", "opd0_c", Access.WRITE, kept))
        if not row["opt_left_tran"]:
            found.append(place("opd1", "opd1_n", Access.READ, n))
    return tuple(found)


def sorted_order(values: View, *, descending: bool) -> View:
    """Positions in sorted order: equal numbers keep their order, NaN comes last in either direction."""
    keys = -values if descending else values
    order: View = np.argsort(keys, kind="stable")
    return order


def _sort_bind(row: Row, memory: Memory) -> Run:
    tensors = {t.name: t for t in _sort_operands(row)}
    values, target = _view(memory, tensors["opd0"], np.float32), _view(memory, tensors["res0"], np.float32)
    indices = _view(memory, tensors["res1"], np.uint32) if "res1" in tensors else None
    given = _view(memory, tensors["opd1"], np.uint32) if "opd1" in tensors else None
    descending = bool(row["opt_shift_typ"])

    def run() -> None:
        order = sorted_order(values, descending=descending)[: len(target)]
        numbers = values.view(np.uint32)[order]
        chosen = order.astype(np.uint32) if given is None else given[order]
        target.view(np.uint32)[...] = numbers
        if indices is not None:
            indices[...] = chosen

    return run


def _sort_cycles(row: Row) -> Cycles:
    """No figure is known: each of log2(n) passes moves all numbers once."""
    n = row["opd0_h_str"]
    one = system_to_system(straight(8 * n), straight(8 * n))
    passes = max(1, math.ceil(math.log2(max(n, 2))))
    return Cycles(one.chip * passes, one.model * passes)


# --- gather --------------------------------------------------------------------------------------


def _gather_operands(row: Row) -> tuple[Tensor, ...]:
    """res0, opd1 = indices, opd0 = all of L2 from the data on: which elements are read the indices say."""
    size = _ELEMENT_BYTES.get(row["opt_res0_prec"])
    if size is None:
        raise DeviceError(f"opt_res0_prec: {row['opt_res0_prec']}", hint="0: 8 bits, 2: 32 bits, 4: 128 bits")
    length = row["res0_h_str"]
    space, offset = locate(row["opd0_addr"], "opd0")
    if space is not Space.L2:
        raise DeviceError(
            f"opd0: address 0x{row['opd0_addr']:x} is in {space.name}", hint="gather works on L2"
        )
    data = _vector("opd0", Access.READ, row["opd0_addr"], (chip.L2_BYTES - offset) // size, size)
    found = (
        _vector("res0", Access.WRITE, row["res0_addr"], length, size),
        data,
        _vector("opd1", Access.READ, row["opd1_addr"], length, 4),
    )
    for t in found:
        if t.space is not Space.L2:
            raise DeviceError(f"{t.name}: not in L2", hint="data, indices and output of gather lie in L2")
    return found


def _gather_bind(row: Row, memory: Memory) -> Run:
    res0, opd0, opd1 = _gather_operands(row)
    size = res0.itemsize
    kind = {1: np.uint8, 4: np.uint32, 16: np.complex128}[size]  # complex: 16 bytes that are only moved
    target, data = _view(memory, res0, kind), _view(memory, opd0, kind)
    indices = _view(memory, opd1, np.uint32)

    def run() -> None:
        largest = int(indices.max())
        if largest >= len(data):
            raise DeviceError(
                f"opd1: index {largest} reaches beyond L2, which holds {len(data)} elements from opd0 on",
                hint="indices count elements of the data",
            )
        target[...] = data[indices]

    return run


def _gather_cycles(row: Row) -> Cycles:
    """No figure is known: one access per element."""
    cycles = float(row["res0_h_str"])
    return Cycles(cycles, cycles)


def _instruction(eu: OtherEngine, summary: str, semantics: Semantics, example: dict[str, int]) -> Instruction:
    match = {"tsk_typ": frozenset({int(Task.OTHER_ENGINE)}), "tsk_eu_typ": frozenset({int(eu)})}
    return Instruction(eu.name.lower(), Engine.BD, match, summary, semantics, example=example)


def _all_sort(row: Row) -> tuple[Operand, ...]:
    return _sort_operands(row)


def _all_gather(row: Row) -> tuple[Operand, ...]:
    return _gather_operands(row)


INSTRUCTIONS = (
    _instruction(
        OtherEngine.SORT,
        "fp32 numbers of DDR or L2 in order, with their indices (a form of this project's own)",
        Semantics(_all_sort, _sort_cycles, _sort_bind),
        {"res0_addr": 0, "opd0_addr": 0x4000, "res0_h_str": 1024, "opd0_h_str": 1024},
    ),
    _instruction(
        OtherEngine.GATHER,
        "res0[i] = opd0[opd1[i]], 8, 32 or 128 bits, in L2 (a form of this project's own)",
        Semantics(_all_gather, _gather_cycles, _gather_bind),
        {
            **{f"{name}_addr": chip.L2_BASE + i * 0x4000 for i, name in enumerate(("res0", "opd0", "opd1"))},
            "res0_h_str": 1024,
        },
    ),
)
