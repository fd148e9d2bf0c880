"""Convolution correlation (tsk_typ 5): every input channel with every kernel, sums by the adder tree.

res0[i, o] is opd0's channel i seen through kernel o, opd1[o]: res0_n counts input channels, and there is
one batch. Input and kernels are in the aligned layout, the result is compact. Products are rounded; taps
go through the tree row by row, those in the padding as zeros.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firmware_sim import chip
from firmware_sim.instructions import adder_tree, fp32, small
from firmware_sim.instructions.conv import kernel_of
from firmware_sim.instructions.dense import Array, Dense
from firmware_sim.instructions.elementwise import check_aligned, check_lanes
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import WORD, local_offset, result_shape
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.window import EXAMPLE, Planes, Window, window_of
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Task
from firmware_sim.isa.footprint import Access, Dims4, Operand, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_PIECE = 1 << 20  # products worked on at once


def _window(row: Row, axis: str) -> Window:
    """No dilation and no inserted zeros: the functional model does not read these fields."""
    return replace(window_of(row, axis), dilation=1, insert=0)


def _aligned(row: Row, name: str, shape: Dims4) -> Tensor:
    offset = local_offset(row[f"{name}_addr"], name)
    strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, WORD)
    return Tensor(name, Access.READ, Space.LOCAL, offset, shape, strides, WORD)


def _tensors(row: Row) -> tuple[Tensor, Tensor, Tensor]:
    """res0, opd0, opd1."""
    shape = n, c, h, w = result_shape(row)
    offset = local_offset(row["res0_addr"], "res0")
    slots = -(-(offset // chip.LOCAL_BYTES + c) // chip.NPU_NUM)
    return (
        Tensor("res0", Access.WRITE, Space.LOCAL, offset, shape, (slots * h * w, h * w, w, 1), WORD),
        _aligned(row, "opd0", (1, n, _window(row, "h").size, _window(row, "w").size)),
        _aligned(row, "opd1", (1, c, *kernel_of(row))),
    )


def _operands(row: Row) -> tuple[Operand, ...]:
    return _tensors(row)


def _sums(seen: Array, kernels: Array) -> Array:
    """seen [pixels, taps], kernels [channels, taps] -> [channels, pixels]."""
    out = np.empty((len(kernels), len(seen)), np.float32)
    step = max(_PIECE // seen.size, 1)
    for at in range(0, len(kernels), step):
        products = fp32.mul(kernels[at : at + step, None, :], seen[None, :, :])
        out[at : at + step] = adder_tree.total(products.reshape(-1, seen.shape[1])).reshape(-1, len(seen))
    return out


def _bind(row: Row, memory: Memory) -> Run:
    out, x, weight = _tensors(row)
    check_lanes(out, (weight,))
    check_aligned(out, WORD)
    for tensor in (x, weight):
        check_aligned(tensor, chip.ALIGN_BYTES)
    planes = Planes(_window(row, "h"), _window(row, "w"), whole=False)
    source, kernels = Dense(memory, x, np.float32), Dense(memory, weight, np.float32)
    target = Dense(memory, out, np.float32)
    n, c, h, w = out.shape
    pixels = (np.arange(h)[:, None] * planes.pitch + np.arange(w)[None, :]).reshape(-1)
    at = pixels[:, None] + planes.offsets[None, :]
    if small.wanted(math.prod(out.shape) * len(planes.offsets)):
        x_at = np.ascontiguousarray(small.seen(planes, x.indices()[0]))
        w_at = weight.indices().reshape(c, -1)
        local, to = memory.flat(Space.LOCAL).view(np.float32), out.indices().reshape(n, c, h * w)
        return native.bound("adder_tree_correlated", local, adder_tree.STEPS, x_at, w_at, to)

    def run() -> None:
        laid = planes.lay(source.load()[0], 0, np.float32)
        every = kernels.load().reshape(c, -1)
        target.store(np.stack([_sums(one[at], every) for one in laid]).reshape(n, c, h, w))

    return run


def _cycles(row: Row) -> timing.Cycles:
    """No source gives them; the tree's steps, one per cycle and lane, as for sums per channel."""
    out, taps = _tensors(row)[0], kernel_of(row)
    n, c, h, w = out.shape
    return timing.adder_tree((n * h * w, c, *taps), out.lane, adder_tree.INPUTS)


INSTRUCTIONS = (
    Instruction(
        "correlation",
        Engine.BD,
        {"tsk_typ": frozenset({int(Task.CORRELATION)}), "tsk_eu_typ": frozenset(range(32))},
        "every channel of the input with every kernel, fp32, compact result",
        Semantics(_operands, _cycles, _bind),
        example=EXAMPLE,
    ),
)
