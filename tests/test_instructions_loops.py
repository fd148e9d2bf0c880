"""Compiled element-wise loops against the numpy functions that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_sim.flush import flushing
from firmware_sim.instructions import fp32, sfu
from firmware_sim.instructions.loops import elementwise as loops
from firmware_sim.instructions.loops import sums
from firmware_sim.isa.codes import Task
from firmware_sim.isa.layout import BD
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.isa_cases import LOCAL

_SPECIAL = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x4F000000, 0x4EFFFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000],
    np.uint32,
)


def noise(seed: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, size, dtype=np.uint32)
    special = rng.choice(_SPECIAL, size) | (bits & np.uint32(0x80000000))
    return np.where(rng.integers(0, 3, size) == 0, special, bits)


_BINARY = {"maximum": fp32.maximum, "minimum": fp32.minimum}


@pytest.mark.parametrize("name", _BINARY)
@given(seed=st.integers(0, 999), rows=st.integers(1, 4), width=st.sampled_from([1, 7, 64, 1000]))
@settings(max_examples=25, deadline=None)
def test_two_operands(name: str, seed: int, rows: int, width: int) -> None:
    words = noise(seed, 3 * rows * width)
    out, a, b = (np.arange(rows) * width + i * rows * width for i in range(3))
    x, y = (words[i * rows * width : (i + 1) * rows * width].view(np.float32).copy() for i in (1, 2))
    with np.errstate(all="ignore"), flushing():
        want = _BINARY[name](x, y).view(np.uint32)
        getattr(loops, name)(words, words.view(np.float32), out, a, b, width)
    got = words[: rows * width]
    nan = np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32))
    assert np.all((got == want) | nan)


@given(seed=st.integers(0, 999), width=st.sampled_from([1, 9, 1000]))
@settings(max_examples=25, deadline=None)
def test_fp32_to_int(seed: int, width: int) -> None:
    words = noise(seed, 2 * width)
    with np.errstate(all="ignore"), flushing():
        want = sfu.fp32_to_int(words[width:].copy())
        at = np.array([0]), np.array([width])
        loops.fp32_to_int(words, words.view(np.float32), at[0], at[1], at[1], width)
    assert np.array_equal(words[:width], want)


@pytest.mark.parametrize("opd0", [0x10000, 0])
def test_a_large_lookup_equals_small_ones(opd0: int) -> None:
    """The compiled loop and the plain path, also in place."""
    tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
    local = tpu.memory.local
    local[:, :0x20000] = noise(5, 64 * 0x8000).view(np.uint8).reshape(64, -1)
    before = local[:, :0x20000].copy()
    sizes = {"res0_n": 1, "res0_c": 64, "res0_h": 16, "res0_w": 32}
    fields = {"tsk_typ": Task.TABLE_LOOKUP, "opd1_h": 8, "opd1_addr": 0x301300, **sizes}
    fields.update(cmd_id_tpu=1, res0_addr=LOCAL, opd0_addr=LOCAL + opd0)
    words = np.frombuffer(BD.encode(**{**BD.defaults, **fields}), np.uint32).reshape(1, 32)
    tpu.execute(words, np.zeros((0, 32), np.uint32))
    index = before[:, opd0 : opd0 + 2048].view(np.uint32) & 0xFF
    table = tpu.memory.l2[0x301300 : 0x301300 + 1024].view(np.uint32)
    assert np.array_equal(local[:, :2048].view(np.uint32), table[index])
    assert np.array_equal(local[:, 2048:0x20000], before[:, 2048:])


@given(seed=st.integers(0, 999), rows=st.integers(1, 4), taps=st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_maxima(seed: int, rows: int, taps: int) -> None:
    """The compiled pool against the plain one, which compares and flushes tap by tap."""
    rng = np.random.default_rng(seed)
    x = noise(seed, rows * 200).view(np.float32).reshape(rows, 200)
    base, lowest = rng.integers(0, 100, taps), np.finfo(np.float32).min
    got, want = (np.full((rows, 100), lowest, np.float32) for _ in range(2))
    with np.errstate(all="ignore"), flushing():
        sums.maxima(x, base, got, 0, rows)
        got = fp32.flush(got)
        for at in base.tolist():
            one = x[:, at : at + 100]
            np.copyto(want, fp32.flush(one), where=fp32.greater(one, want))
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))
