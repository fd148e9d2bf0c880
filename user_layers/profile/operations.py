"""How much one command computes, in the classes of the roofline."""

from __future__ import annotations

import math

from firmware_sim.instructions.conv import kernel_of
from firmware_sim.instructions.instruction import Engine, Instruction
from firmware_sim.instructions.matmul import product_of
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor
from firmware_sim.isa.layout import Row
from user_layers.report.roofline import Kind

_WORD = 4  # bytes; also packed 8-bit elements in one
_FUNCTIONS = (".div", "md_sfu.taylor", "md_sfu.rsqrt", "table_lookup")
_COPIES = ("ar.copy", "ar.fixed.copy", "sort", "gather")


def computed(instruction: Instruction, row: Row, operands: tuple[Operand, ...]) -> tuple[Kind, int]:
    """The class of a command and its operations there, as the peaks of report/roofline.py count them.

    What works element by element counts 32-bit words of its result, which hold up to four packed elements.
    Windows of pooling count like taps of depthwise convolutions, which the same unit does, packed batches as
    one. What the DMA engine does counts none: its bytes are what it costs.
    """
    if instruction.engine is Engine.GDMA:
        return Kind.COPY, 0
    family, _, rest = instruction.name.partition(".")
    if family == "conv":
        taps = math.prod(kernel_of(row)) if not rest.startswith("winograd") else 9
        kind = Kind.PRODUCT if rest.endswith("fp32") else Kind.PRODUCT8
        return kind, row["res0_n"] * _plane(row) * taps * row["opd0_c"]
    if family in ("depthwise", "max_pool"):
        batches = row["res0_n"] if rest == "fp32" else -(-row["res0_n"] // _WORD)
        return Kind.DEPTHWISE, batches * _plane(row) * math.prod(kernel_of(row))
    if family == "matmul":
        product = product_of(row)
        kind = Kind.PRODUCT if rest == "fp32" else Kind.PRODUCT8
        return kind, product.m * product.k * product.channels * product.width
    tensors = [one for one in operands if isinstance(one, Tensor)]
    if family == "matmul2":
        return Kind.PRODUCT8, math.prod(tensors[1].shape) * tensors[0].shape[3]
    if family == "correlation":
        return Kind.POOL, math.prod(tensors[0].shape) * math.prod(kernel_of(row))
    if family == "md_sum":
        return Kind.POOL, math.prod(next(one for one in tensors if one.name == "opd0").shape)
    words = max(one.nbytes for one in tensors if one.name.startswith("res")) // _WORD
    if any(part in instruction.name for part in _FUNCTIONS):
        return Kind.FUNCTION, words
    return (Kind.COPY if instruction.name in _COPIES else Kind.ELEMENTWISE), words


def _plane(row: Row) -> int:
    return row["res0_c"] * row["res0_h"] * row["res0_w"]


def moved(operands: tuple[Operand, ...], space: Space, *, written: bool) -> int:
    """Bytes of one memory that a command reads, or writes; elements that it reads again count again."""
    access = Access.WRITE if written else Access.READ
    return sum(
        one.nbytes
        for one in operands
        if isinstance(one, Tensor) and one.space is space and access in one.access
    )
