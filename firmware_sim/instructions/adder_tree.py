"""The chip's adder tree: 32 numbers and the running sum are added at once, rounded once.

All of them are first cut to the step of the largest: mantissas are shifted right by the distance to the
largest exponent and keep one bit below the 24 of fp32; what falls off is lost, towards zero. The integers
are added exactly, and the sum is rounded to the nearest fp32, ties to even. An exact zero is +0. So a
small number beside a large one contributes less than in IEEE additions, whatever the order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.instructions import workers
from firmware_sim.instructions.loops import native

F32 = npt.NDArray[np.float32]

INPUTS = 32
_LARGE = 1 << 14  # numbers from which on the compiled loop is worth calling
_SMALLEST = 2.0**-126
_EXPONENT, _FRACTION, _HIDDEN = np.uint32(255), np.int32(0x7F_FFFF), np.int32(0x80_0000)
_INFINITE = 255
STEPS: npt.NDArray[np.float64] = np.ldexp(1.0, np.arange(256) - 151)
"""By largest exponent: what the last bit of the integers is worth."""


def _exponents(x: F32) -> npt.NDArray[np.int32]:
    exponents: npt.NDArray[np.int32] = (x.view(np.uint32) >> np.uint32(23) & _EXPONENT).astype(np.int32)
    return exponents


def _at_once(x: F32) -> F32:
    """[rows, numbers] -> [rows], at most INPUTS + 1 numbers: the integers fit in 32 bits."""
    bits, exponents = x.view(np.int32), _exponents(x)
    top = exponents.max(axis=1)
    mantissas = ((bits & _FRACTION) | _HIDDEN) << np.int32(1)
    mantissas[exponents == 0] = 0  # denormals are zero
    mantissas >>= np.minimum(top[:, None] - exponents, 31)
    total = np.where(bits < 0, -mantissas, mantissas).sum(axis=1, dtype=np.int32)
    values = total.astype(np.float32).astype(np.float64) * STEPS[top]  # the first cast rounds
    values = np.where(np.abs(values) < _SMALLEST, np.copysign(0.0, values), values)
    out: F32 = values.astype(np.float32)
    special = top == _INFINITE
    if special.any():  # infinities and NaN as everywhere
        out[special] = np.where(exponents == _INFINITE, x, np.float32(0))[special].sum(axis=1)
    return out


def total_reference(x: F32, out: F32) -> None:
    """What `total` computes, in numpy: x [rows, numbers], out [rows]."""
    out[...] = 0
    for at in range(0, x.shape[1], INPUTS):
        out[...] = _at_once(np.concatenate([out[:, None], x[:, at : at + INPUTS]], axis=1))


def total(x: npt.NDArray[Any]) -> F32:
    """Sums of rows, [rows, numbers] -> [rows], INPUTS numbers after the other from +0 on."""
    x = np.ascontiguousarray(x, np.float32)
    out: F32 = np.empty(len(x), np.float32)
    if x.size < _LARGE or not native.ready():
        total_reference(x, out)
        return out
    cuts = workers.cut(len(x), 1, workers.threads())
    workers.run([native.bound("adder_tree_total", x, STEPS, out, i, j) for i, j in cuts])
    return out
