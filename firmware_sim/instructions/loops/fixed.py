"""Arithmetic on 8-bit and 16-bit elements; see firmware_sim.instructions.arithmetic_fixed.

Elements are found by their bytes, so that one compiled loop serves all widths and signs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from firmware_sim.isa.codes import Eu

_loop = njit(nogil=True, cache=True, error_model="numpy")

_MUL, _MAC, _ADD, _SUB = int(Eu.MUL), int(Eu.MAC), int(Eu.ADD), int(Eu.SUB)
_MAX, _MIN = int(Eu.MAX), int(Eu.MIN)
_SHIFT, _AND, _OR, _XOR = int(Eu.SHIFT), int(Eu.AND), int(Eu.OR), int(Eu.XOR)


_BLOCK = 512  # elements of a row that are worked on at once


@_loop
def _read(line, memory, at, step, bits, signed, count):  # type: ignore[no-untyped-def]
    if bits == 16:
        for i in range(count):
            line[i] = np.int32(memory[at + i * step]) | np.int32(memory[at + i * step + 1]) << 8
        if signed:
            for i in range(count):
                line[i] = np.int16(line[i])
    elif signed:
        for i in range(count):
            line[i] = np.int8(memory[at + i * step])
    else:
        for i in range(count):
            line[i] = memory[at + i * step]


@_loop
def _write(line, memory, at, step, bits, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        memory[at + i * step] = np.uint8(line[i])
    if bits == 16:
        for i in range(count):
            memory[at + i * step + 1] = np.uint8(line[i] >> 8)


@_loop
def _finish(line, shift, low, high, count):  # type: ignore[no-untyped-def]
    half = np.int32((np.int64(1) << shift) >> 1)
    for i in range(count):
        line[i] = min(max((line[i] + half) >> shift, low), high)


@_loop
def _combine(operation, a, b, count):  # type: ignore[no-untyped-def]
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


@_loop
def arithmetic(out, x, y, at, width, how):  # type: ignore[no-untyped-def]
    """out, x, y: u8 memories; at: i64[3, rows], bytes where rows begin in out, x, y.

    how: i64[13]: the operation (Eu); bits, sign and step in bytes of x, of y, of the result; right shift,
    left shift of the old result, its sign.
    """
    operation, bits, signed, step = how[0], how[7], how[8], how[9]
    shift, left, old_signed = np.int32(how[10]), how[11], how[12]
    low = np.int32(-(1 << (bits - 1)) if signed else 0)
    high = np.int32(low + (1 << bits) - 1)
    a, b, old = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int32)
    for row in range(at.shape[1]):
        for first in range(0, width, _BLOCK):
            m = min(_BLOCK, width - first)
            to = at[0, row] + first * step
            _read(a, x, at[1, row] + first * how[3], how[3], how[1], how[2], m)
            _read(b, y, at[2, row] + first * how[6], how[6], how[4], how[5], m)
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
                _read(old, out, to, step, bits, old_signed, m)
                half = (np.int64(1) << shift) >> 1
                for i in range(m):
                    v = np.int64(a[i]) * np.int64(b[i]) + (np.int64(old[i]) << left)
                    a[i] = min(max((v + half) >> shift, np.int64(low)), np.int64(high))
            else:
                _combine(operation, a, b, m)
            _write(a, out, to, step, bits, m)
