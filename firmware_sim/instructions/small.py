"""Small convolutions, pools and matrix products: tables of indices made once, one compiled loop per command.

For few products the copies and rearrangements of the general way cost more than the products. Here every
operand is found through a table of indices into local memory, made when the command is bound by the same
rearrangements applied to indices instead of numbers. References: the general way, which also takes over
above the limits below, and where the processor does not flush as the chip does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmware_sim.instructions.instruction import Run
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.packed import Packed
from firmware_sim.instructions.rows import Indices
from firmware_sim.instructions.window import Planes
from firmware_sim.isa.footprint import Space, Tensor
from firmware_sim.memory import Memory

PRODUCTS_MAX = 1 << 16  # the general way is faster from about here on
NOTHING = -1
_MOST = 255 * 255  # the largest product of two bytes
_FEW = 16  # with fewer columns than this, and than rows, rows lie side by side


def wanted(products: int, times: int = 1) -> bool:
    """Whether a command with so many products is worked on here; up to `times` the usual limit."""
    return native.ready() and products <= times * PRODUCTS_MAX


def seen(planes: Planes, at: Indices) -> Indices:
    """[lead, h, w], where the elements lie -> [lead, pixels, taps], what each result's taps see."""
    laid = planes.lay(at, NOTHING, np.int64)
    rows, columns = np.arange(planes.rows.result), np.arange(planes.columns.result)
    pixels = (rows[:, None] * planes.pitch + columns[None, :]).reshape(-1)
    found: Indices = laid[..., pixels[:, None] + planes.offsets[None, :]]
    return found


def element_bytes(operand: Packed | Tensor) -> Indices:
    """The first byte of each element of a tensor, [n, c, h, w]."""
    return operand.indices() * operand.itemsize


def _fresh(at: Indices) -> Indices:
    return np.ascontiguousarray(at, np.int64)


def bind_products(
    memory: Memory,
    x_at: Indices,
    w_at: Indices,
    constant: int | None,
    out: Tensor,
    added: list[Indices],
) -> Run:
    """See small_products in small.c, w_at being [halves, rows, taps]; for [groups, taps], separate_products.

    constant: bits of all weights, their indices then being 0 or -1; added: indices that broadcast to out's
    shape.
    """
    local = memory.flat(Space.LOCAL).view(np.float32)
    constants = local if constant is None else np.array([constant], np.uint32).view(np.float32)
    to = out.indices().reshape(-1)
    more = [np.broadcast_to(a, out.shape).reshape(-1) for a in added]
    adding = np.stack(more) if more else np.zeros((0, to.size), np.int64)
    if w_at.ndim == 2:
        where = _fresh(x_at), _fresh(w_at), _fresh(to), adding
        return native.bound("small_separate_products", local, constants, *where)
    w_at = w_at[None]
    if x_at.shape[3] >= min(_FEW, w_at.shape[2]):
        where = _fresh(x_at), _fresh(w_at), _fresh(to), adding
        return native.bound("small_products", local, local, constants, *where)
    turned = np.arange(to.size).reshape(len(x_at), w_at.shape[2], -1).swapaxes(1, 2).reshape(-1)
    where = _fresh(w_at.swapaxes(2, 3)), _fresh(x_at.swapaxes(2, 3)), to[turned], _fresh(adding[:, turned])
    return native.bound("small_products", local, constants, local, *where)


@dataclass(frozen=True)
class Finish:
    """How sums of products of bytes become results: bits and sign of a result, then shifts.

    shift: to the right, rounding half up; left_shift: of the old result before it is added.
    """

    bits: int
    signed: bool
    shift: int
    bias_signed: bool = False
    old_signed: bool = False
    left_shift: int = 0

    def how(self, x_signed: bool, w_signed: bool) -> Indices:
        """The parameters of the compiled loops, see tl_finish in small.h."""
        given = (x_signed, w_signed, self.bits, self.signed, self.shift)
        return np.array([*given, self.bias_signed, self.old_signed, self.left_shift], np.int64)

    def of_words(self) -> Indices:
        """The same for loops that write words of four batches, see fx_finish in words_fixed.h."""
        low = -(1 << (self.bits - 1)) if self.signed else 0
        high = low + (1 << self.bits) - 1
        return np.array([self.bias_signed, self.shift, low, high, self.bits // 8], np.int64)

    def fits(self, products: int) -> bool:
        """Whether sums of so many products of bytes, with a bias, surely fit into 32 bits until they are
        shifted."""
        return products * _MOST + (1 << 16) + (1 << self.shift) < 1 << 31


def bind_fixed_products(
    memory: Memory,
    x: tuple[Indices, bool],
    w: tuple[Indices, bool],
    constant: int | None,
    out: Packed | Tensor,
    bias: Tensor | None,
    finish: Finish,
    *,
    old: Tensor | None = None,
) -> Run:
    """See small_fixed_products in small.c. x, w: byte indices and sign; constant: the byte of all weights."""
    local = memory.flat(Space.LOCAL)
    constants = local if constant is None else np.array([constant & 0xFF], np.uint8)
    return native.bound(
        "small_fixed_products",
        local,
        constants,
        _fresh(x[0]),
        _fresh(w[0]),
        _fresh(element_bytes(out).reshape(-1)),
        _added(out, bias, old),
        finish.how(x[1], w[1]),
    )


def _added(out: Packed | Tensor, *tensors: Tensor | None) -> Indices:
    """Where what is added to each of out's elements lies: bytes, [tensors, elements]."""
    every = [np.array(NOTHING) if t is None else element_bytes(t) for t in tensors]
    return np.stack([np.broadcast_to(at, out.shape).reshape(-1) for at in every])


def bind_maxima(memory: Memory, x_at: Indices, out: Tensor) -> Run:
    """See small_maxima in small.c. x_at: [n, c, pixels, taps]."""
    local = memory.flat(Space.LOCAL).view(np.float32)
    return native.bound("small_maxima", local, _rows(x_at), _fresh(out.indices().reshape(-1)))


def bind_fixed_maxima(memory: Memory, x_at: Indices, out: Packed, *, signed: bool, relu: bool) -> Run:
    """See small_fixed_maxima in small.c. x_at: bytes, [n, c, pixels, taps]."""
    to = _fresh(element_bytes(out).reshape(-1))
    return native.bound("small_fixed_maxima", memory.flat(Space.LOCAL), _rows(x_at), to, signed, relu)


def _rows(x_at: Indices) -> Indices:
    return _fresh(x_at.reshape(-1, x_at.shape[-1]))
