"""Which elements of a command's results depend on which elements of its operands.

Exact for copies, element-wise operations, sums, windows and matrix products. Of the few others every result
depends on every operand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.records import I64
from firmware_sim.instructions.dma import moves_of
from firmware_sim.instructions.window import Window, window_of
from firmware_sim.isa.codes import Precision
from firmware_sim.isa.footprint import Access, Constant, Operand, Tensor
from firmware_sim.isa.layout import Row

Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Marked:
    """Some elements of an operand: bool[n * parts, c, h, w]. parts: of each word, where batches share words
    or bytes are looked at one by one, see `parts_of`; those of a word are neighbours on the first axis."""

    tensor: Tensor
    marks: Marks

    def places(self) -> tuple[I64, int]:
        """Where the marked elements begin, or their parts, and how many bytes each has."""
        tensor = self.tensor
        words = tensor.indices() * tensor.itemsize
        if self.marks.all():
            return words.reshape(-1), tensor.itemsize
        parts = len(self.marks) // tensor.shape[0]
        size = tensor.itemsize // parts
        first = words[:, None] + np.arange(parts)[:, None, None, None] * size
        at: I64 = first.reshape(self.marks.shape)[self.marks]
        return at, size


_BYTEWISE = ("ar.and", "ar.or", "ar.xor", "ar.copy", "ar.shift")
_PLAIN_MOVES = ("gdma.copy", "gdma.transpose")
_PACKED = ("conv.int8", "depthwise.int8", "max_pool.int8")


def parts_of(name: str, row: Row, tensor: Tensor) -> int:
    """How many parts of an operand's words are followed apart: elements of several batches, or bytes.

    name: of the instruction.
    """
    if name in _BYTEWISE or (name.startswith(_PLAIN_MOVES) and not row["acc_write_enable"]):
        return tensor.itemsize
    if name == "table_lookup" and tensor.name == "opd0":
        return tensor.itemsize
    if name.startswith("ar.fixed"):
        return tensor.itemsize // (2 if row[f"opt_{tensor.name}_prec"] == Precision.INT16 else 1)
    if name.startswith(_PACKED) and tensor.name in ("opd0", "res0"):
        return tensor.itemsize // (2 if tensor.name == "res0" and name.endswith("int16") else 1)
    return 1


def _results(operands: tuple[Operand, ...]) -> list[Tensor]:
    return [o for o in operands if isinstance(o, Tensor) and Access.WRITE in o.access]


def _fitted(marks: Marks, shape: tuple[int, ...]) -> Marks:
    """To the result's shape: an axis of another extent counts as a whole."""
    for axis, extent in enumerate(shape):
        if marks.shape[axis] not in (1, extent):
            marks = np.asarray(marks.any(axis, keepdims=True))
    return np.broadcast_to(marks, shape)


def _taps(marks: Marks, window: Window, axis: int) -> Marks:
    """Along one axis: a result depends on the elements under its window."""
    moved = np.moveaxis(marks, axis, 0)
    out = np.zeros((window.result, *moved.shape[1:]), bool)
    for y in range(window.result):
        at = y * window.stride - window.before + np.arange(window.kernel) * window.dilation
        at = at[at % (window.insert + 1) == 0] // (window.insert + 1)
        at = at[(at >= 0) & (at < len(moved))]
        out[y] = moved[at].any(0)
    return np.moveaxis(out, 0, axis)


def _windowed(row: Row, marks: Marks) -> Marks:
    return _taps(_taps(marks, window_of(row, "h"), 2), window_of(row, "w"), 3)


def _of_convolution(row: Row, one: Marked, shape: tuple[int, ...]) -> Marks:
    if one.tensor.name == "opd0":
        return _fitted(_windowed(row, np.asarray(one.marks.any(1, keepdims=True))), shape)
    if one.tensor.name == "opd1":  # [words of input channels, output channels, h, w]
        return _fitted(np.asarray(one.marks.any((0, 2, 3), keepdims=True)), shape)
    return _fitted(one.marks, shape)


def _of_depthwise(row: Row, one: Marked, shape: tuple[int, ...]) -> Marks:
    if one.tensor.name == "opd0":
        return _fitted(_windowed(row, one.marks), shape)
    return _fitted(np.asarray(one.marks.any((0, 2, 3), keepdims=True)), shape)  # a kernel or bias per channel


def _of_product(row: Row, one: Marked, shape: tuple[int, ...]) -> Marks:
    marks, (m, *_) = one.marks, shape
    if one.tensor.name == "opd0":
        if row["opt_left_tran"]:  # its columns are the result's rows
            columns = np.asarray(marks.any(0)).reshape(-1)
            first = 0 if len(columns) == m or one.tensor.shape[1] > 1 else m - len(columns)
            rows = np.zeros(m, bool)
            rows[first : first + len(columns)] = columns
        else:
            rows = np.asarray(marks.any((1, 2, 3)))
        return np.broadcast_to(rows[:, None, None, None], shape)
    if one.tensor.name == "opd1":
        return _fitted(np.asarray(marks.any(0, keepdims=True)), shape)
    return _fitted(marks, shape)


def _of_vector_correlation(row: Row, one: Marked, shape: tuple[int, ...]) -> Marks:
    if one.tensor.name != "opd0":
        return _fitted(one.marks, shape)
    return np.broadcast_to(np.full((1, 1, 1, 1), bool(one.marks.any())), shape)


def _of_lookup(row: Row, one: Marked, shape: tuple[int, ...]) -> Marks:
    """The low byte of an index counts."""
    parts = len(one.marks) // one.tensor.shape[0] if one.tensor.name == "opd0" else 1
    return _fitted(one.marks[::parts], shape)


def _of_move(row: Row, marked: list[Marked]) -> list[Marked]:
    by_place = {
        (one.tensor.offset, one.tensor.shape): one.marks for one in marked if one.tensor.name == "src"
    }
    old = [one for one in marked if one.tensor.name == "dst"]
    found = list(old)
    for move in moves_of(row):
        marks = by_place.get((move.src.offset, move.src.shape))
        if marks is None:
            continue
        shape = move.src.shape
        last = np.moveaxis(marks.reshape(shape[0], -1, *shape[1:]), 1, -1)  # parts of words stay together
        moved = last.transpose(1, 0, 2, 3, 4) if move.transpose else last
        moved = np.moveaxis(moved.reshape(*move.dst.shape, -1), -1, 1)
        found.append(Marked(move.dst, moved.reshape(-1, *move.dst.shape[1:])))
    return found


_OF_BD = {
    "conv.winograd": None,
    "conv.": _of_convolution,
    "depthwise.": _of_depthwise,
    "max_pool.": _of_depthwise,
    "matmul.": _of_product,
    "vector_correlation.": _of_vector_correlation,
    "ar.": lambda row, one, shape: _fitted(one.marks, shape),
    "md_": lambda row, one, shape: _fitted(one.marks, shape),
    "gather": lambda row, one, shape: _fitted(one.marks, shape),  # of the data the elements that are read
    "table_lookup": _of_lookup,
}
_MOVES = ("gdma.copy", "gdma.transpose_nc", "gdma.convert")


def _of_bytes(name: str, operands: tuple[Operand, ...], marks: Marks) -> Marks:
    """The bytes of the results of an operation on words, [words, bytes, ...] of its operands' marked."""
    constant = next((o.bits for o in operands if isinstance(o, Constant)), None)
    if name == "ar.and" and constant is not None:
        kept = np.array([constant >> 8 * k & 0xFF != 0 for k in range(marks.shape[1])])
        return np.asarray(marks & kept[:, None, None, None])
    if name != "ar.shift":
        return marks
    places = 0 if constant is None else (constant ^ 1 << 31) - (1 << 31)
    if constant is None or places % 8:
        return np.broadcast_to(np.asarray(marks.any(1, keepdims=True)), marks.shape)
    moved = np.zeros_like(marks)
    for k in range(marks.shape[1]):
        if 0 <= k - places // 8 < marks.shape[1]:
            moved[:, k] = marks[:, k - places // 8]
        elif places < 0:  # an arithmetic shift repeats the sign
            moved[:, k] = marks[:, -1]
    return moved


def _of_packed(name: str, row: Row, operands: tuple[Operand, ...], marked: list[Marked]) -> list[Marked]:
    """Of operands whose batches share words, and come in pieces: full words, then the batches of the last."""
    by_tensor = {id(one.tensor): one.marks for one in marked}
    names = dict.fromkeys(one.tensor.name for one in marked)
    results = _results(operands)
    lengths = [t.shape[0] * parts_of(name, row, t) for t in results]
    shape = (sum(lengths), *results[0].shape[1:])
    out: Marks = np.zeros(shape, bool)
    for operand in names:
        pieces = [o for o in operands if isinstance(o, Tensor) and o.name == operand]
        marks = np.concatenate(
            [
                by_tensor.get(id(o), np.zeros((o.shape[0] * parts_of(name, row, o), *o.shape[1:]), bool))
                for o in pieces
            ]
        )
        if operand == results[0].name or name.startswith(("ar.", "table")):
            out |= _fitted(marks, shape)
        elif name.startswith("conv."):
            out |= _of_convolution(row, Marked(pieces[0], marks), shape)
        else:
            out |= _of_depthwise(row, Marked(pieces[0], marks), shape)
    if name in _BYTEWISE:
        words, size = results[0].shape[0], results[0].itemsize
        split = out.reshape(words, size, *shape[1:])
        out = _of_bytes(name, operands, split).reshape(shape)
    cuts = np.cumsum(lengths)[:-1]
    return [Marked(t, part) for t, part in zip(results, np.split(out, cuts), strict=True)]


def influenced(name: str, row: Row, operands: tuple[Operand, ...], marked: list[Marked]) -> list[Marked]:
    """The elements of the results that depend on the marked elements of operands that the command reads.

    name: of its instruction. A result that comes in several pieces has one entry for each.
    """
    if name.startswith(_MOVES):
        return _of_move(row, marked)
    if name == "gdma.transpose_cw":
        [dst] = _results(operands)
        return [Marked(dst, marked[0].marks.transpose(0, 3, 2, 1).copy())]
    if name.startswith(("ar.fixed", *_PACKED)) or name in _BYTEWISE:
        return _of_packed(name, row, operands, marked)
    rule = next((rule for prefix, rule in _OF_BD.items() if name.startswith(prefix)), None)
    found = []
    for result in _results(operands):
        marks = np.zeros(result.shape, bool)
        for one in marked:
            if one.tensor is result:
                marks |= one.marks
            elif rule is None:
                marks[...] = True
            else:
                marks |= rule(row, one, result.shape)
        found.append(Marked(result, marks))
    return found
