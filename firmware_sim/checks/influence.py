"""Which elements of a command's results depend on which elements of its operands.

Exact for copies, element-wise operations, sums, windows and matrix products. Of the few others every result
depends on every operand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.instructions.dma import moves_of
from firmware_sim.instructions.window import Window, window_of
from firmware_sim.isa.footprint import Access, Operand, Tensor
from firmware_sim.isa.layout import Row

Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Marked:
    """Some elements of an operand: bool[n, c, h, w]."""

    tensor: Tensor
    marks: Marks


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


def _of_move(row: Row, marked: list[Marked]) -> list[Marked]:
    by_place = {
        (one.tensor.offset, one.tensor.shape): one.marks for one in marked if one.tensor.name == "src"
    }
    old = [one for one in marked if one.tensor.name == "dst"]
    found = list(old)
    for move in moves_of(row):
        marks = by_place.get((move.src.offset, move.src.shape))
        if marks is not None:
            moved = marks.transpose(1, 0, 2, 3) if move.transpose else marks
            found.append(Marked(move.dst, moved.reshape(move.dst.shape)))
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
    "table_lookup": lambda row, one, shape: _fitted(one.marks, shape),
}
_MOVES = ("gdma.copy", "gdma.transpose_nc", "gdma.convert")


def influenced(name: str, row: Row, operands: tuple[Operand, ...], marked: list[Marked]) -> list[Marked]:
    """The elements of the results that depend on the marked elements of operands that the command reads.

    name: of its instruction. A result that comes in several pieces has one entry for each.
    """
    if name.startswith(_MOVES):
        return _of_move(row, marked)
    if name == "gdma.transpose_cw":
        [dst] = _results(operands)
        return [Marked(dst, marked[0].marks.transpose(0, 3, 2, 1).copy())]
    rule = next((rule for prefix, rule in _OF_BD.items() if name.startswith(prefix)), None)
    found = []
    for result in _results(operands):
        marks = np.zeros(result.shape, bool)
        for one in marked:
            if one.tensor is result:
                marks |= one.marks
            elif rule is None:
                marks[...] = True
            elif _same_batches(one.tensor, result, operands):
                marks |= rule(row, one, result.shape)
        found.append(Marked(result, marks))
    return found


def _same_batches(tensor: Tensor, result: Tensor, operands: tuple[Operand, ...]) -> bool:
    """Packed operands come in pieces: full words, then the last batches. Those of one word go together."""
    pieces = [o for o in operands if isinstance(o, Tensor) and o.name == tensor.name]
    results = [o for o in operands if isinstance(o, Tensor) and o.name == result.name]
    if len(pieces) != len(results) or len(pieces) == 1:
        return True
    return [o is tensor for o in pieces] == [o is result for o in results]
