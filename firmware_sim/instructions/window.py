"""The sliding window of convolutions and pools, and planes laid out for it.

Zeros are inserted between the rows and columns of the input (opd0_y_ins0, opd0_x_ins0), then padding is
added around it. The kernel's taps are dilated by opd1_y_ins0 + 1 and opd1_x_ins0 + 1.

For the arithmetic an input plane is cut into `stride` phases in both directions, so that the elements one
tap needs for all output pixels lie next to each other: output pixel (y, x) is number y * pitch + x, and
tap k finds its element at offset[k] + that number. Numbers with x >= width are computed and thrown away.
Phases that no tap needs are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import DeviceError
from firmware_sim.isa.layout import Row

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """One direction (height or width) of a window."""

    size: int  # of the input
    kernel: int
    dilation: int
    stride: int
    before: int  # padding
    after: int
    insert: int  # zeros between neighbours
    result: int  # output elements

    @property
    def padded(self) -> int:
        """Elements of the input with the inserted zeros and both paddings."""
        return (self.size - 1) * (self.insert + 1) + 1 + self.before + self.after

    @property
    def possible(self) -> int:
        """Output elements that the input gives; zero or less when the kernel does not fit."""
        return (self.padded - (self.kernel - 1) * self.dilation - 1) // self.stride + 1

    @property
    def phase(self) -> int:
        """Elements of each of the `stride` phases."""
        return -(-self.padded // self.stride)


EXAMPLE = {
    **{f"opd0_{side}_pad": 1 for side in ("up", "dn", "lf", "rt")},
    **{f"opd1_{axis}": 3 for axis in "hw"},
}
"""Fields of a descriptor: a kernel of 3 x 3, and padding with which the result is as large as the input."""


def window_of(row: Row, axis: str) -> Window:
    """The window over rows (axis "h") or columns ("w") of a descriptor.

    Raises DeviceError when a size is zero.
    """
    letter, before, after = ("y", "up", "dn") if axis == "h" else ("x", "lf", "rt")
    window = Window(
        size=row[f"opd0_{axis}"],
        kernel=row[f"opd1_{axis}"],
        dilation=row[f"opd1_{letter}_ins0"] + 1,
        stride=row[f"res_op_{letter}_str"],
        before=row[f"opd0_{before}_pad"],
        after=row[f"opd0_{after}_pad"],
        insert=row[f"opd0_{letter}_ins0"],
        result=row[f"res0_{axis}"],
    )
    for name, value in (("opd0", window.size), ("opd1", window.kernel), ("res0", window.result)):
        if value == 0:
            raise DeviceError(f"{name}: its {axis} is zero", hint="sizes start at 1")
    if window.stride == 0:
        raise DeviceError(f"res_op_{letter}_str: a stride of zero", hint="strides start at 1")
    return window


def check_result(axis: str, window: Window, *, whole: bool) -> None:
    """Raise DeviceError when the result is larger than the input gives; whole: or smaller."""
    if window.result == window.possible or (window.result < window.possible and not whole):
        return
    raise DeviceError(
        f"res0: {axis} is {window.result}, but input and kernel give {max(window.possible, 0)} "
        f"(input {window.size}, {window.insert} zeros inserted, pads {window.before} and {window.after}, "
        f"kernel {window.kernel}, dilation {window.dilation}, stride {window.stride})",
        hint="the size of the result follows from the others",
    )


def _seen(window: Window, phases: Indices) -> Indices:
    """The elements of the input that lie in some of the phases."""
    at = window.before + np.arange(window.size) * (window.insert + 1)
    seen: Indices = np.nonzero(np.isin(at % window.stride, phases))[0]
    return seen


class Planes:
    """The layout of phased planes for a window in two directions.

    plane: elements of one plane. offsets: int64[kernel_h * kernel_w]. count: output numbers to compute.
    """

    def __init__(self, rows: Window, columns: Window, *, whole: bool) -> None:
        """whole: the result is all that the input gives, not a part. Raises DeviceError if not."""
        check_result("h", rows, whole=whole)
        check_result("w", columns, whole=whole)
        self.rows = rows
        self.columns = columns
        self.pitch = columns.phase
        self._phase = rows.phase * columns.phase
        self.count = (rows.result - 1) * self.pitch + columns.result
        y, x = np.arange(rows.kernel) * rows.dilation, np.arange(columns.kernel) * columns.dilation
        self._row_phases, self._column_phases = _distinct(y % rows.stride), _distinct(x % columns.stride)
        self.plane = len(self._row_phases) * len(self._column_phases) * self._phase
        self.offsets: Indices = (self._row_at(y)[:, None] + self._column_at(x)[None, :]).reshape(-1)

    def _row_at(self, y: Indices) -> Indices:
        """The place in a plane of padded rows, which must be of phases that are needed."""
        phase = np.searchsorted(self._row_phases, y % self.rows.stride)
        at: Indices = phase * len(self._column_phases) * self._phase + y // self.rows.stride * self.pitch
        return at

    def _column_at(self, x: Indices) -> Indices:
        phase = np.searchsorted(self._column_phases, x % self.columns.stride)
        at: Indices = phase * self._phase + x // self.columns.stride
        return at

    def places(self) -> tuple[Indices, Indices, Indices, Indices]:
        """Rows of the input that some tap sees, the place that each has in a plane; the same of columns."""
        r, c = self.rows, self.columns
        rows, columns = _seen(r, self._row_phases), _seen(c, self._column_phases)
        y = r.before + rows * (r.insert + 1)
        x = c.before + columns * (c.insert + 1)
        return rows, self._row_at(y), columns, self._column_at(x)

    def lay(self, x: Array, fill: Any, dtype: type[np.generic]) -> Array:
        """Dense [..., h, w] as phased planes [..., plane]; inserted elements and padding hold `fill`."""
        r, c = self.rows, self.columns
        lead = x.shape[:-2]
        padded = np.full((*lead, r.phase * r.stride, c.phase * c.stride), fill, dtype)
        inner = padded[..., r.before : r.padded - r.after, c.before : c.padded - c.after]
        inner[..., :: r.insert + 1, :: c.insert + 1] = x
        if r.stride == 1 and c.stride == 1:
            return padded.reshape(*lead, self.plane)
        split = padded.reshape(*lead, r.phase, r.stride, c.phase, c.stride)
        k = len(lead)
        moved = split.transpose(*range(k), k + 1, k + 3, k, k + 2)
        moved = moved[..., self._row_phases[:, None], self._column_phases, :, :]
        return np.ascontiguousarray(moved).reshape(*lead, self.plane)

    def crop(self, numbers: Array) -> Array:
        """Computed numbers [..., count] as a view [..., h, w] of the output pixels.

        `numbers` must have room for result_h * pitch elements in its last axis.
        """
        lead = numbers.shape[:-1]
        full = numbers.reshape(*lead, self.rows.result, self.pitch)
        pixels: Array = full[..., : self.columns.result]
        return pixels

    @property
    def room(self) -> int:
        """Elements to allocate for the computed numbers of one plane, see crop."""
        return self.rows.result * self.pitch


def _distinct(values: Indices) -> Indices:
    """Sorted, each once. numpy.unique may import a module, in whose code nothing is to be flushed."""
    return np.array(sorted(set(values.tolist())), np.intp)
