"""Arithmetic on 8-bit and 16-bit elements; see firmware_sim.instructions.arithmetic_fixed.

Elements are found by their bytes, so that one compiled loop serves all widths and signs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import loop
from firmware_sim.isa.codes import Eu

_MUL, _MAC, _ADD, _SUB = int(Eu.MUL), int(Eu.MAC), int(Eu.ADD), int(Eu.SUB)
_MAX, _MIN = int(Eu.MAX), int(Eu.MIN)
_SHIFT, _AND, _OR, _XOR = int(Eu.SHIFT), int(Eu.AND), int(Eu.OR), int(Eu.XOR)


BLOCK = 512  # elements that are worked on at once: all of them are read before any is written


@loop
def _read(
    line: Any, memory: Any, rows: Any, offset: Any, step: Any, bits: Any, signed: Any, width: Any
) -> None:
    """`width` elements of each row into the line, one row after the other."""
    for row in range(rows.shape[0]):
        at, first = rows[row] + offset, row * width
        if bits == 16:
            for i in range(width):
                line[first + i] = np.int32(memory[at + i * step]) | np.int32(memory[at + i * step + 1]) << 8
        else:
            for i in range(width):
                line[first + i] = memory[at + i * step]
    if signed and bits == 16:
        for i in range(rows.shape[0] * width):
            line[i] = np.int16(line[i])
    elif signed:
        for i in range(rows.shape[0] * width):
            line[i] = np.int8(line[i])


@loop
def _write(line: Any, memory: Any, rows: Any, offset: Any, step: Any, bits: Any, width: Any) -> None:
    for row in range(rows.shape[0]):
        at, first = rows[row] + offset, row * width
        for i in range(width):
            memory[at + i * step] = np.uint8(line[first + i])
        if bits == 16:
            for i in range(width):
                memory[at + i * step + 1] = np.uint8(line[first + i] >> 8)


@loop
def _finish(line: Any, shift: Any, low: Any, high: Any, count: Any) -> None:
    half = np.int32((np.int64(1) << shift) >> 1)
    for i in range(count):
        line[i] = min(max((line[i] + half) >> shift, low), high)


@loop
def _combine(operation: Any, a: Any, b: Any, count: Any) -> None:
    """a = a operation b, for those whose results are not finished."""
    if operation == _MAX:
        for i in range(count):
            a[i] = max(a[i], b[i])
    elif operation == _MIN:
        for i in range(count):
            a[i] = min(a[i], b[i])
    elif operation == _AND:
        for i in range(count):
            a[i] &= b[i]
    elif operation == _OR:
        for i in range(count):
            a[i] |= b[i]
    elif operation == _XOR:
        for i in range(count):
            a[i] ^= b[i]
    elif operation == _SHIFT:
        for i in range(count):
            amount = np.int32(np.int8(b[i]))
            a[i] = a[i] << min(amount, 31) if amount > 0 else a[i] >> min(-amount, 31)


@loop
def arithmetic(out: Any, x: Any, y: Any, at: Any, width: Any, how: Any) -> None:
    """out, x, y: u8 memories; at: i64[3, rows], bytes where rows begin in out, x, y.

    how: i64[13]: the operation (Eu); bits, sign and step in bytes of x, of y, of the result; right shift,
    left shift of the old result, its sign.
    """
    operation, bits, signed, step = how[0], how[7], how[8], how[9]
    shift, left, old_signed = np.int32(how[10]), how[11], how[12]
    low = np.int32(-(1 << (bits - 1)) if signed else 0)
    high = np.int32(low + (1 << bits) - 1)
    a, b, old = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    part = min(width, BLOCK)
    together = BLOCK // part
    for row in range(0, at.shape[1], together):
        to, of_x, of_y = at[0, row : row + together], at[1, row : row + together], at[2, row : row + together]
        for first in range(0, width, part):
            w = min(part, width - first)
            m = to.shape[0] * w
            _read(a, x, of_x, first * how[3], how[3], how[1], how[2], w)
            _read(b, y, of_y, first * how[6], how[6], how[4], how[5], w)
            if operation == _ADD:
                for i in range(m):
                    a[i] += b[i]
                _finish(a, shift, low, high, m)
            elif operation == _SUB:
                for i in range(m):
                    a[i] -= b[i]
                _finish(a, shift, low, high, m)
            elif operation == _MUL:
                for i in range(m):
                    a[i] *= b[i]
                _finish(a, shift, low, high, m)
            elif operation == _MAC:
                _read(old, out, to, first * step, step, bits, old_signed, w)
                half = (np.int64(1) << shift) >> 1
                for i in range(m):
                    v = np.int64(a[i]) * np.int64(b[i]) + (np.int64(old[i]) << left)
                    a[i] = min(max((v + half) >> shift, np.int64(low)), np.int64(high))
            else:
                _combine(operation, a, b, m)
            _write(a, out, to, first * step, step, bits, w)
