"""Compiled element-wise loops against the numpy functions that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.flush import flushing
from firmware_sim.instructions import fp32, sfu, sums
from firmware_sim.instructions.function import of_words
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.loops.source import name_of
from firmware_sim.instructions.rows import rows_of
from firmware_sim.instructions.table import TABLE
from firmware_sim.isa.codes import Task
from firmware_sim.isa.footprint import Access, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import BD
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.examples import examples
from tests.support.isa_cases import LOCAL

_SPECIAL = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x4F000000, 0x4EFFFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000],
    np.uint32,
)


def noise(seed: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, size, dtype=np.uint32)
    special = rng.choice(_SPECIAL, size) | (bits & np.uint32(0x80000000))
    return np.where(rng.integers(0, 3, size) == 0, special, bits)


_FUNCTIONS = {
    str(function.expression): function
    for instruction in TABLE
    if instruction.semantics
    for function in instruction.semantics.functions
}


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> bool:
    """Bit for bit, NaN payloads aside."""
    nan = np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32))
    return bool(np.all((got == want) | nan))


@pytest.mark.parametrize("expression", _FUNCTIONS)
@given(seed=st.integers(0, 999), rows=st.integers(1, 4), width=st.sampled_from([1, 7, 64, 1000]))
@examples(25)
def test_each_loop_equals_its_reference(expression: str, seed: int, rows: int, width: int) -> None:
    function = _FUNCTIONS[expression]
    operands = function.expression.operands
    inputs = len(operands)
    words = noise(seed, (1 + inputs) * rows * width)
    at = np.arange((1 + inputs) * rows).reshape(1 + inputs, rows) * width
    values = words.reshape(1 + inputs, -1)[1:].copy()
    for operand in function.expression.each:
        k = operands.index(operand)
        values[k] = np.repeat(words[at[1 + k]], width)
    if "old" in operands:
        at[-1], values[-1] = at[0], words[: rows * width]
    with np.errstate(all="ignore"), flushing():
        want = function.reference(*values)
        function.expression.loop().bound(words, *[words] * inputs, at, width)()
    assert same(words[: rows * width], want)


def test_loops_of_different_expressions_have_different_names() -> None:
    names = {name_of(f.expression) for f in _FUNCTIONS.values()}
    assert len(names) == len(_FUNCTIONS)


def test_only_numbers_are_added_to_the_old_result() -> None:
    with pytest.raises(ValueError, match="only fp32 numbers"):
        of_words(np.bitwise_and, "opd0 & opd1").plus_old()


def test_normalizing_rounds_up_behind_four_thirds() -> None:
    """As the vendor's functional model does; the fp32 number next to 4/3 is not yet rounded up."""
    words = np.array([0x3FAA_AAAA, 0x3FAA_AAAB, 0x3FAA_AAAC, 0x3F2A_AAAB, 0x3F2A_AAAC], np.uint32)
    rounded = (
        (sfu.int_normalize, np.int32, [127, 127, 128, 126, 127]),
        (sfu.fp32_normalize, np.float32, [1, 1, 2, 0.5, 1]),
    )
    for plain, kind, want in rounded:
        loop = next(f for f in _FUNCTIONS.values() if f.reference is plain).expression.loop()
        both = np.concatenate([np.zeros_like(words), words])
        loop.bound(both, both, np.array([[0], [len(words)]]), len(words))()
        for found in (plain(words), both[: len(words)]):
            assert found.view(kind).tolist() == want


@given(seed=st.integers(0, 999), terms=st.integers(1, 9), width=st.sampled_from([1, 9, 1000]))
@examples(25)
def test_taylor(seed: int, terms: int, width: int) -> None:
    """In place, as kernels use it."""
    words, coefficients = noise(seed, width), noise(seed + 1, terms).view(np.float32)
    with np.errstate(all="ignore"), flushing():
        want = sfu.taylor(words.view(np.float32).copy(), coefficients).view(np.uint32)
        at = np.zeros((2, 1), np.int64)
        native.bound("tables_taylor", coefficients, words, words, at, width)()
    assert same(words, want)


_tensors = st.tuples(
    st.tuples(*[st.integers(1, n) for n in (3, 70, 3, 5)]),
    st.lists(
        st.tuples(st.integers(0, 9), st.tuples(*[st.integers(0, 40)] * 4), st.integers(0, 2)),
        min_size=1,
        max_size=3,
    ),
)


@given(_tensors, st.booleans())
@examples(100)
def test_rows_are_the_tensors_elements_in_order(given: Any, aligned: bool) -> None:
    shape, places = given
    tensors = []
    for lane, strides, shift in places:
        if aligned:
            strides, shift = aligned_strides(lane, shape, 4), 0
        at = lane * 0x80000 + 128
        tensors.append(Tensor("x", Access.READ, Space.LOCAL, at, shape, strides, 4, w_shift=shift))
    rows = rows_of(tensors)
    assert rows is not None and (not aligned or rows.width % shape[3] == 0)
    for at, tensor in zip(rows.at, tensors, strict=True):
        every = at[:, None] + np.arange(rows.width)
        assert np.array_equal(every.reshape(-1), tensor.indices().reshape(-1))


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
@examples(25)
def test_maxima(seed: int, rows: int, taps: int) -> None:
    """The compiled pool against the plain one, which compares and flushes tap by tap."""
    rng = np.random.default_rng(seed)
    x = noise(seed, rows * 200).view(np.float32).reshape(rows, 200)
    base, lowest = rng.integers(0, 100, taps), np.finfo(np.float32).min
    got, want = (np.full((rows, 100), lowest, np.float32) for _ in range(2))
    words = np.concatenate([x.reshape(-1), got.reshape(-1)])
    x_at, out_at = np.arange(rows) * 200, (2 * rows + np.arange(rows)) * 100
    how, first, every = np.array([200, 1, 1, 1, 200, 100, 100, 100]), np.zeros(1, np.int64), np.arange(200)
    with np.errstate(all="ignore"), flushing():
        places = first, first, every, every
        native.bound("windows_maxima", words, x_at, how, *places, base, out_at, 0, rows)()
        got = words[200 * rows :].reshape(rows, 100)
        for at in base.tolist():
            one = x[:, at : at + 100]
            np.copyto(want, fp32.flush(one), where=fp32.greater(one, want))
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@given(seed=st.integers(0, 999), rows=st.integers(1, 4), taps=st.integers(2, 9))
@examples(25)
def test_depthwise_with_weights_elsewhere(seed: int, rows: int, taps: int) -> None:
    """Weights of a constant do not lie in the memory of the operands."""
    x, w = noise(seed, rows * 200).view(np.float32), noise(seed + 1, rows * taps).view(np.float32)
    base = np.random.default_rng(seed).integers(0, 100, taps)
    words, want = np.concatenate([x, np.zeros(rows * 100, np.float32)]), np.zeros((rows, 100), np.float32)
    x_at, out_at = np.arange(rows) * 200, (2 * rows + np.arange(rows)) * 100
    how, first, every = np.array([200, 1, 1, 1, 200, 100, 100, 100]), np.zeros(1, np.int64), np.arange(200)
    with np.errstate(all="ignore"), flushing():
        places = x_at, how, first, first, every, every, base, np.arange(rows) * taps, first[:0], out_at
        native.bound("windows_depthwise", words, w, *places, 0, rows)()
        sums.separate_reference(x.reshape(rows, 200), w.reshape(rows, taps), base, want)
    assert same(words[200 * rows :].view(np.uint32), want.reshape(-1).view(np.uint32))
