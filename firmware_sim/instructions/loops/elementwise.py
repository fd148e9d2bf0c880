"""Element-wise operations in one pass each, compiled from the expressions of the instructions' rows.

Operands are rows of `width` neighbouring 32-bit elements (firmware_sim.instructions.rows): `at` holds
the index of each row's first element in the result and in each input. What an expression may use stands
first; choices are made with masks there, and the loop collects results before it writes them: branches, and
rows that the compiler thinks may overlap, would keep it from using vector instructions.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np

from firmware_sim.instructions.elementwise import CompiledLoop
from firmware_sim.instructions.function import Expression
from firmware_sim.instructions.loops import loop, moves
from firmware_sim.instructions.loops.vectors import copy as write  # noqa: F401  the skeleton's

SIGN = np.uint32(0x80000000)
MAGNITUDE = np.uint32(0x7FFFFFFF)
EXPONENT = np.uint32(0x7F800000)
_SMALLEST = np.uint32(0x00800000)  # the least magnitude that is not denormal
_MAGIC = np.uint32(0x5F3759DF)
ZERO = np.uint32(0)
_TOO_LARGE = np.float32(2147483648.0)
BLOCK = 512  # elements of a row that are worked on at once


# --- what expressions are made of -----------------------------------------------------------------


@loop
def word(value: Any) -> Any:
    """An integer's low 32 bits."""
    return np.uint32(value)


@loop
def number(bits: Any) -> Any:
    """A word's bits as an fp32 number."""
    return np.uint32(bits).view(np.float32)


@loop
def bits(value: Any) -> Any:
    """An fp32 number's bits."""
    return np.float32(value).view(np.uint32)


@loop
def _mask(condition: Any) -> Any:
    return np.uint32(ZERO - np.uint32(condition))


@loop
def chosen(condition: Any, a: Any, b: Any) -> Any:
    """condition ? a : b, of words."""
    first = _mask(condition)
    return (a & first) | (b & ~first)


@loop
def flushed(a: Any) -> Any:
    """The bits of a number, those of a denormal as zero of its sign."""
    return a & (_mask((a & MAGNITUDE) >= _SMALLEST) | SIGN)


@loop
def square(value: Any) -> Any:
    """value * value."""
    return value * value


@loop
def reciprocal_root(a: Any) -> Any:
    """1 / sqrt(x) of a number's bits by the bit trick and three Newton steps, a number. See fp32.rsqrt."""
    r = number(_MAGIC - np.uint32(np.int32(a) >> np.int32(1)))
    h = number(a) * np.float32(0.5)
    r = r * (np.float32(1.5) - (h * r) * r)
    r = r * (np.float32(1.5) - (h * r) * r)
    return r * (np.float32(1.5) - (h * r) * r)


@loop
def quotient(x: Any, y: Any) -> Any:
    """x / y in fp32 as (1 / sqrt(|y|))**2 * x, not correctly rounded. See fp32.div."""
    a, b = bits(x), bits(y)
    r = reciprocal_root(np.uint32(b & MAGNITUDE))
    return (r * r) * number((a & MAGNITUDE) | ((a ^ b) & SIGN))


@loop
def shifted(a: Any, count: Any, arithmetic: Any) -> Any:
    """a by the signed low 6 bits of count, left when positive; arithmetic: to the right with a's sign."""
    signed = np.int32(np.uint32(count << np.uint32(26))) >> np.int32(26)
    amount = np.uint32(abs(signed)) & np.uint32(31)
    filled = np.uint32(np.int32(a) >> np.int32(amount)) if arithmetic else np.uint32(a >> amount)
    return np.uint32(a << amount) if signed > 0 else filled


@loop
def truncated(a: Any) -> Any:
    """A number's bits as an int32, cut towards zero and saturated; NaN as an infinity of its sign."""
    v = number(a)
    inside = (v < _TOO_LARGE) & (v > -_TOO_LARGE)
    kept = v if inside else np.float32(0)
    limit = SIGN if a & SIGN else MAGNITUDE
    return np.uint32(np.int32(kept)) if inside else limit


# --- the loop of an expression --------------------------------------------------------------------


@loop
def _row(memory: Any, at: Any, width: Any) -> Any:
    return memory[at : at + width]


_SKELETON = """
def {name}(out, {arguments}, at, width):
    results = np.empty(BLOCK, np.uint32)
    for row in range(at.shape[1]):
        {each}
        for s in range(0, width, BLOCK):
            m = min(BLOCK, width - s)
            {rows}
            for i in range(m):
                {elements}
                results[i] = {result}
            write(out, at[0, row] + s, results, 0, m)
"""


def _source(expression: Expression, name: str) -> str:
    """The loop as Python: all operands are read from memories of words."""
    given = expression.operands
    read = "number" if expression.floats else ""
    single = [(k, name) for k, name in enumerate(given, 1) if name in expression.each]
    along = [(k, name) for k, name in enumerate(given, 1) if name not in expression.each]
    return _SKELETON.format(
        name=name,
        arguments=", ".join(f"{name}_words" for name in given),
        each="; ".join(f"{name} = {read}({name}_words[at[{k}, row]])" for k, name in single) or "pass",
        rows="; ".join(f"{name}_row = _row({name}_words, at[{k}, row] + s, m)" for k, name in along),
        elements="; ".join(f"{name} = {read}({name}_row[i])" for _, name in along),
        result=f"bits({expression.text})" if expression.floats else f"({expression.text})",
    )


@cache
def compiled(expression: Expression) -> CompiledLoop:
    """The loop: out, one memory of words per operand, at (i64[1 + operands, rows]) and width.

    The cache on disk knows a function by its name and by this file, so the name has the source in it: a row
    that changes its expression gets a loop of its own.
    """
    if expression.text == "opd0":
        return moves.copy
    digest = hashlib.sha256(_source(expression, "").encode()).hexdigest()[:16]
    name = f"elementwise_{digest}"
    made: dict[str, CompiledLoop] = {}
    exec(compile(_source(expression, name), __file__, "exec"), globals(), made)
    return loop(made[name])


# --- loops of another form ------------------------------------------------------------------------


@loop
def taylor(coefficients: Any, out: Any, x: Any, at: Any, width: Any) -> None:
    """The sum of coefficients[k] * x**(k + 1), see sfu.taylor. coefficients: f32[terms]."""
    total, values = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for row in range(at.shape[1]):
        for first in range(0, width, BLOCK):
            m = min(BLOCK, width - first)
            r, a = _row(out, at[0, row] + first, m), _row(x, at[1, row] + first, m)
            for i in range(m):
                total[i] = 0
                values[i] = number(a[i])
            for k in range(coefficients.shape[0] - 1, -1, -1):
                c = coefficients[k]
                for i in range(m):
                    total[i] = (total[i] + c) * values[i]
            for i in range(m):
                r[i] = bits(total[i])


@loop
def largest_index(x: Any, at: Any, width: Any) -> Any:
    """The largest low byte of the indices, which are at[1]."""
    largest = 0
    for row in range(at.shape[1]):
        for index in _row(x, at[1, row], width):
            largest = max(largest, index & 255)
    return largest


@loop
def lookup(out: Any, x: Any, table: Any, at: Any, width: Any) -> None:
    """Each result the entry at the low byte of an index; none is beyond the table. x: words or bytes."""
    for row in range(at.shape[1]):
        r, a = _row(out, at[0, row], width), _row(x, at[1, row], width)
        for i in range(width):
            r[i] = table[np.uint32(a[i]) & np.uint32(255)]
