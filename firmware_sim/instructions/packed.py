"""Tensors whose batches share words: 8-bit elements four to a word ("4N"), 16-bit ones two ("2N").

Batch n lies in word group n // per_word, at element n % per_word of each word. Sizes and strides of the
descriptors count words. Only the elements of existing batches are read and written: the words of whole
groups, and single elements of the last group when it is not full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.dense import Dense
from firmware_sim.instructions.rows import ROWS_MAX, Rows
from firmware_sim.isa.footprint import Access, Dims4, Space, Tensor, address_text, aligned_strides
from firmware_sim.memory import Memory

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Packed:
    """One operand in local memory; shape in batches, strides in words of per_word * itemsize bytes."""

    name: str
    access: Access
    offset: int
    shape: Dims4
    strides: Dims4
    itemsize: int
    per_word: int
    h_shift: int = 0
    w_shift: int = 0

    @property
    def word(self) -> int:
        """Bytes of a word, in which the same element of per_word batches lies."""
        return self.itemsize * self.per_word

    @property
    def shifted(self) -> bool:
        """Whether an index shift applies to rows or columns; see footprint.Tensor."""
        return bool(self.h_shift or self.w_shift)

    def words(self, groups: int) -> Tensor:
        """The first `groups` word groups."""
        return Tensor(
            self.name,
            self.access,
            Space.LOCAL,
            self.offset,
            (groups, *self.shape[1:]),
            self.strides,
            self.word,
            self.h_shift,
            self.w_shift,
        )

    def indices(self) -> npt.NDArray[np.int64]:
        """The index of every element, [n, c, h, w], in local memory counted in elements."""
        batch = np.arange(self.shape[0])
        words = self.words(-(-self.shape[0] // self.per_word)).indices()[batch // self.per_word]
        at: npt.NDArray[np.int64] = words * self.per_word + (batch % self.per_word)[:, None, None, None]
        return at

    def tensors(self) -> tuple[Tensor, ...]:
        """The exact bytes: full groups as words, the batches of a last group as elements. Shifts count
        words, so with shifts the last group is stated whole. Raises DeviceError when that group begins beyond
        the lane's memory, where another lane's is."""
        full, rest = divmod(self.shape[0], self.per_word)
        if self.shifted:
            return (self.words(full + bool(rest)),)
        found = [self.words(full)] if full else []
        if rest:
            n_str, c_str, h_str, w_str = (s * self.per_word for s in self.strides)
            behind = self.offset % chip.LOCAL_BYTES + full * n_str * self.itemsize
            if behind >= chip.LOCAL_BYTES:
                raise DeviceError(
                    f"{self.name} at {address_text(Space.LOCAL, self.offset)}: its last batches begin at "
                    f"offset 0x{behind:x}, but each lane's memory ends at 0x{chip.LOCAL_BYTES:x}",
                    hint="make the tensor smaller or split it, or place it at a lower address",
                )
            last = replace(
                self.words(rest),
                offset=self.offset + full * n_str * self.itemsize,
                strides=(1, c_str, h_str, w_str),
                itemsize=self.itemsize,
            )
            found.append(last)
        return tuple(found)


def group_strides(offset: int, shape: Dims4, per_word: int, word: int = 4) -> Dims4:
    """The aligned layout, in words, of a packed tensor of this shape (in batches)."""
    n, c, h, w = shape
    return aligned_strides(offset // chip.LOCAL_BYTES, (-(-n // per_word), c, h, w), word)


def _steps(operands: list[Packed]) -> tuple[tuple[int, int], list[int]]:
    """(h, w) of the first elements of rows, and the words from one element of a row to the next."""
    _, _, h, w = operands[0].shape
    if any(operand.shifted for operand in operands):
        return (h, w), [0] * len(operands)
    strides = [operand.strides[2:] for operand in operands]
    if w == 1:
        return (1, 1), [rows for rows, _ in strides]
    if h == 1 or all(rows == w * columns for rows, columns in strides):
        return (1, 1), [columns for _, columns in strides]
    return (h, 1), [columns for _, columns in strides]


def packed_rows(operands: list[Packed]) -> tuple[Rows, list[int]] | None:
    """Rows of elements and each operand's step from one to the next, both in bytes. The operands have one
    shape, or a single batch for all. None where there are too many rows."""
    n, channels, height, width = operands[0].shape
    (h, w), steps = _steps(operands)
    if _whole_words(operands, steps):
        groups = n // operands[0].per_word
        if groups * channels * h * w <= ROWS_MAX:
            firsts = [replace(one.words(groups), shape=(groups, channels, h, w)) for one in operands]
            at = [(t.indices() * one.word).reshape(-1) for t, one in zip(firsts, operands, strict=True)]
            width = height * width // (h * w) * operands[0].per_word
            return Rows(np.stack(at), width), [one.itemsize for one in operands]
    if n * channels * h * w > ROWS_MAX:
        return None
    starts = []
    for operand in operands:
        batch = np.arange(n) if operand.shape[0] == n else np.zeros(n, np.int64)
        words = operand.words(-(-operand.shape[0] // operand.per_word))
        first = replace(words, shape=(words.shape[0], channels, h, w)).indices() * operand.word
        beside = batch % operand.per_word * operand.itemsize
        starts.append((first[batch // operand.per_word] + beside[:, None, None, None]).reshape(-1))
    rows = Rows(np.stack(starts), height * width // (h * w))
    return rows, [step * operand.word for step, operand in zip(steps, operands, strict=True)]


def _whole_words(operands: list[Packed], steps: list[int]) -> bool:
    """Whether rows are words side by side, of the same batches in all operands: elements are, too, then."""
    first = operands[0]
    return (
        all(
            step == 1 and one.shape[0] == first.shape[0] and one.per_word == first.per_word
            for one, step in zip(operands, steps, strict=True)
        )
        and first.shape[0] % first.per_word == 0
    )


class DensePacked:
    """A packed tensor prepared for copying to and from dense [n, c, h, w] elements."""

    def __init__(self, memory: Memory, operand: Packed, dtype: type[np.generic]) -> None:
        """dtype: of one element. Raises DeviceError when the tensor reaches out of its memory."""
        self._dtype = np.dtype(dtype)
        self._per_word = operand.per_word
        self._word = np.dtype(f"u{operand.word}")
        self._full = operand.shape[0] // operand.per_word
        self._flat: Array | None = None
        parts = operand.tensors()
        self._parts = [
            Dense(memory, t, self._word.type if t.itemsize == operand.word else dtype) for t in parts
        ]
        if operand.shifted or (Access.WRITE in operand.access and any(t.may_overlap_itself() for t in parts)):
            self._at = operand.indices()
            self._flat = memory.flat(Space.LOCAL).view(dtype)

    def load(self) -> Array:
        """A copy of the elements, [n, c, h, w]."""
        if self._flat is not None:
            picked: Array = self._flat[self._at]
            return picked
        loaded = [part.load() for part in self._parts]
        if self._full:
            words = loaded[0]
            groups, c, h, w = words.shape
            elements = words.view(self._dtype).reshape(groups, c, h, w, self._per_word)
            loaded[0] = elements.transpose(0, 4, 1, 2, 3).reshape(-1, c, h, w)
        return loaded[0] if len(loaded) == 1 else np.concatenate(loaded)

    def store(self, values: Array) -> None:
        """Write [n, c, h, w] elements of the dtype's size."""
        if self._flat is not None:
            self._flat[self._at.reshape(-1)] = values.reshape(-1).view(self._dtype)
            return
        parts = list(self._parts)
        whole = self._full * self._per_word
        if self._full:
            _, c, h, w = values.shape
            split = values[:whole].reshape(self._full, self._per_word, c, h, w)
            beside = np.ascontiguousarray(split.transpose(0, 2, 3, 4, 1))
            parts.pop(0).store(beside.view(self._word)[..., 0])
        if parts:
            parts[0].store(values[whole:].view(self._dtype))
