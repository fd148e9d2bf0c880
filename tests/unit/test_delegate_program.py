"""Compiled partitions as bytes: what was packed comes back, and damage is an error."""

from __future__ import annotations

import contextlib
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import CompileError, ModelError
from tests.support.examples import examples
from user_layers.delegates.program import LayerTime, Partition, pack, unpack
from user_layers.spelling.spell import Border


def _border(name: str, shape: tuple[int, ...], dtype: str, order: tuple[int, ...] | None = None) -> Border:
    return Border(name, shape, np.dtype(dtype), order or tuple(range(len(shape))))


SAMPLE = (
    Partition(
        "first",
        b"not really a bmodel",
        (_border("x", (1, 4, 5, 3), "float32", (0, 3, 1, 2)), _border("größe", (), "int64")),
        (_border("y", (2, 0), "bool"), _border("z" * 300, (7,), "uint8")),
        (0, -1),
        (-1, 0),
        (LayerTime("conv", (0, 3), 1234), LayerTime("", (), 0)),
        dynamic=True,
    ),
    Partition("second", b"", (), (_border("y", (1,) * 8, "float16"),), (), (0,)),
)


def test_what_was_packed_comes_back() -> None:
    assert unpack(pack(SAMPLE)) == SAMPLE
    assert unpack(pack([])) == ()
    assert SAMPLE[0].cycles == 1234


def test_names_are_different_and_types_are_the_devices() -> None:
    with pytest.raises(CompileError, match="same name"):
        pack([SAMPLE[0], SAMPLE[0]])
    odd = Partition("n", b"", (_border("x", (1,), "float64"),), (), (0,), ())
    with pytest.raises(CompileError, match="float64"):
        pack([odd])


@pytest.mark.parametrize("cut", [0, 7, 8, 31, 32, 100, -1])
def test_a_part_of_the_bytes_is_refused(cut: int) -> None:
    with pytest.raises(ModelError, match="partition"):
        unpack(pack(SAMPLE)[:cut])


def test_another_version_says_what_to_do() -> None:
    data = bytearray(pack(SAMPLE))
    data[8] = 99
    with pytest.raises(ModelError, match="version 99") as caught:
        unpack(bytes(data))
    assert "again" in caught.value.hint


@examples(200)
@given(st.data())
def test_damage_is_an_error_whatever_it_is(data: st.DataObject) -> None:
    whole = bytearray(pack(SAMPLE))
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[at] ^= data.draw(st.integers(1, 255))
    if flipped[28:32] == whole[28:32]:  # what the head leaves free
        with pytest.raises(ModelError):
            unpack(bytes(flipped))
    struct.pack_into("<I", flipped, 24, zlib.crc32(flipped[32:]))  # and past the sum
    with contextlib.suppress(ModelError):
        unpack(bytes(flipped))
