"""The core's C by itself: copies of any order of axes and any type, beside numpy; damaged programs."""

from __future__ import annotations

import ctypes
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import ModelError
from tests.support.core_copies import core_copies, read_program
from tests.support.examples import examples
from tests.unit.test_delegate_program import SAMPLE
from user_layers.delegates.program import CODES, LayerTime, pack, unpack
from user_layers.onnx.types import held_as


class _Tensor(ctypes.Structure):
    """core_tensor of sdk/delegate/core/core.h."""

    _fields_ = [
        ("name", ctypes.c_char * 128),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 8),
        ("bytes", ctypes.c_uint64),
        ("most", ctypes.c_int64 * 8),
        ("order", ctypes.c_int32 * 8),
        ("held", ctypes.c_int32),
        ("place", ctypes.c_int32),
    ]


@pytest.fixture(scope="module")
def copies() -> ctypes.CDLL:
    """copy.c and what it needs, with all its names."""
    return core_copies()


def _tensor(shape: tuple[int, ...], order: tuple[int, ...], dtype: np.dtype[Any]) -> _Tensor:
    held = held_as(dtype)
    assert held is not None
    made = _Tensor(b"t", CODES[dtype], len(shape), held=CODES[held])
    made.shape[: len(shape)], made.order[: len(shape)] = shape, order
    made.bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return made


def _pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@examples(80)
@given(st.data())
def test_any_order_and_type_comes_and_goes_as_in_numpy(copies: ctypes.CDLL, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 6))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 33]), min_size=rank, max_size=rank)))
    if np.prod(shape, dtype=np.int64) > 50_000:
        shape = shape[:3] + (1,) * (rank - 3)
    order = tuple(data.draw(st.permutations(range(rank))))
    dtype = data.draw(st.sampled_from([np.dtype(name) for name in CODES]))
    one, held = _tensor(shape, order, dtype), held_as(dtype)
    assert held is not None
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    low = 0 if dtype.kind in "ub" else -99
    theirs = random.integers(low, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    ours = np.full(theirs.size + 1, 7, held)
    assert copies.core_copy_in(ctypes.byref(one), _pointer(np.ascontiguousarray(theirs)), _pointer(ours))
    want = theirs.transpose(order).astype(held).reshape(-1)
    np.testing.assert_array_equal(ours[:-1], want)
    assert ours[-1] == 7, "it wrote behind the end"
    back = np.full(theirs.size + 1, 1, dtype)
    copies.core_copy_out(ctypes.byref(one), _pointer(ours), _pointer(back))
    np.testing.assert_array_equal(back[:-1].reshape(shape), theirs)
    assert back[-1] == 1


def test_a_whole_number_beyond_32_bits_is_found_wherever_it_is(copies: ctypes.CDLL) -> None:
    one = _tensor((40, 3, 50), (0, 2, 1), np.dtype(np.int64))
    ours = np.zeros(6000, np.int32)
    for value, good in ((2**31 - 1, True), (-(2**31), True), (2**31, False), (-(2**31) - 1, False)):
        theirs = np.zeros((40, 3, 50), np.int64)
        theirs[39, 1, 37] = value
        assert copies.core_copy_in(ctypes.byref(one), _pointer(theirs), _pointer(ours)) == good


@examples(120)
@given(st.data())
def test_a_damaged_program_with_a_right_sum_is_read_or_refused(
    copies: ctypes.CDLL, data: st.DataObject
) -> None:
    """The reader in C, which no sum protects here from what lies in the program."""
    program = bytearray(pack(SAMPLE))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(32, len(program) - 9))
        value = data.draw(st.sampled_from([0, 1, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 8]))
        size = data.draw(st.sampled_from([1, 4, 8]))
        program[at : at + size] = struct.pack("<Q", value)[:size]
    struct.pack_into("<I", program, 24, zlib.crc32(program[32:]))
    status, _ = read_program(copies, bytes(program), data.draw(st.sampled_from(["first", "second"])))
    assert status in (0, 1, 2)  # 1: the name is another one now


def test_orders_that_move_only_axes_of_one_element_are_plain(copies: ctypes.CDLL) -> None:
    f32 = np.dtype(np.float32)
    for shape, order, plain in (
        ((1, 7, 9, 1), (0, 3, 1, 2), True),
        ((2, 1, 1, 5), (0, 3, 1, 2), True),
        ((1, 7, 9, 2), (0, 3, 1, 2), False),
        ((), (), True),
    ):
        assert copies.core_is_plain(ctypes.byref(_tensor(shape, order, f32))) == plain
    assert not copies.core_is_plain(ctypes.byref(_tensor((4,), (0,), np.dtype(np.bool_))))


def test_layers_that_share_their_operations_are_no_way_to_take_all_memory(copies: ctypes.CDLL) -> None:
    """Each of many records pointing to one long piece: what is copied would be far more than the program."""
    count = 2000
    layers = tuple(LayerTime(f"l{i}", (), 1) for i in range(count - 1))
    partition = replace(SAMPLE[0], layers=(LayerTime("long", tuple(range(count)), 1), *layers))
    program = bytearray(pack([partition]))
    (layers_at,) = struct.unpack_from("<Q", program, 32 + 24 + 16)
    long = program[layers_at : layers_at + 32]
    assert unpack(bytes(program)) == (partition,)
    for i in range(count):
        program[layers_at + 32 * i : layers_at + 32 * (i + 1)] = long
    struct.pack_into("<I", program, 24, zlib.crc32(program[32:]))
    status, why = read_program(copies, bytes(program), None)
    assert (status, why) == (2, "damaged partitions: layers share what they have")
    with pytest.raises(ModelError, match="layers share what they have"):
        unpack(bytes(program))


def test_how_many_partitions_there_are_and_names_of_the_longest(copies: ctypes.CDLL) -> None:
    program, number = pack(SAMPLE), ctypes.c_int(-1)
    assert copies.tpld_program_num(program, ctypes.c_size_t(len(program)), ctypes.byref(number)) == 0
    assert number.value == len(SAMPLE)
    assert copies.tpld_program_num(program, ctypes.c_size_t(9), ctypes.byref(number)) == 2
    assert number.value == len(SAMPLE)
    for length, good in ((4096, True), (4097, False)):
        named = pack([replace(SAMPLE[0], name="n" * length)])
        assert (read_program(copies, named, None)[0] == 0) == good
        if good:
            assert unpack(named)[0].name == "n" * length
        else:
            with pytest.raises(ModelError, match="a name of 4097 bytes"):
                unpack(named)
