"""Running a function of 32-bit elements over operands in local memory.

All inputs are read before anything is written, as in the chip's functional model, also where the
result overlaps an input; where the result overlaps itself, the last element in n, c, h, w order stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import workers
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.rows import ROWS_MAX, Rows, planes_at, rows_of
from firmware_sim.isa.footprint import Constant, Operand, Space, Tensor
from firmware_sim.memory import Memory

Words = npt.NDArray[np.uint32]
Kernel = Callable[..., Words]
Run = Callable[[], object]
Loop = Callable[[], native.Loop]
"""Gives, where loops are used, the one that takes the memory of the result, one per input, the indices of
rows and their width, see run_rows."""

CHUNK = 1 << 16  # elements worked on at once: a few arrays of them stay in the cache


def slices(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Cut [n, slots, lanes, h, w] into pieces of about CHUNK elements."""
    left = math.prod(shape)
    cuts: dict[int, int] = {}  # axis -> number of pieces
    for axis in (2, 1, 0, 3, 4):
        cuts[axis] = min(shape[axis], -(-left // CHUNK))
        left = -(-left // cuts[axis])
    edges = []
    for axis, size in enumerate(shape):
        step = -(-size // cuts[axis])
        edges.append([slice(i, min(i + step, size)) for i in range(0, size, step)])
    yield from product(*edges)


def check_lanes(out: Tensor, inputs: tuple[Operand, ...]) -> None:
    """Some instructions take operands that start on one lane. Raises DeviceError naming the two operands."""
    for t in inputs:
        if isinstance(t, Tensor) and t.lane != out.lane:
            raise DeviceError(
                f"{t.name} starts on lane {t.lane}, but {out.name} on lane {out.lane}",
                hint="the operands of this instruction start on one lane",
            )


def check_aligned(tensor: Tensor, unit: int) -> None:
    """Raises DeviceError naming the operand unless its address is a multiple of `unit` bytes."""
    if tensor.offset % unit:
        raise DeviceError(
            f"{tensor.name}: offset 0x{tensor.offset % chip.LOCAL_BYTES:x} is not a multiple of {unit} bytes",
            hint=f"align the address to {unit} bytes",
        )


class Bound:
    """An element-wise operation ready to run in a memory, any number of times."""

    def __init__(
        self,
        memory: Memory,
        kernel: Kernel,
        inputs: tuple[Operand, ...],
        out: Tensor,
        loop: Loop | None = None,
        *,
        by_plane: bool = False,
    ) -> None:
        """Prepare out = kernel(*inputs); all operands have out's shape (broadcast by stride 0).

        loop: the same as a compiled loop, which then does it wherever it can. by_plane: the loop takes planes
        of out and of the first input (and of an input that is out itself), and one element of the others for
        each.

        The kernel takes and gives uint32 arrays: [n, slots, lanes, h, w] pieces, or one element for
        a constant. Views are made here once, so running costs only the arithmetic. Raises
        DeviceError when an operand reaches out of its memory.
        """
        tensors = [t for t in inputs if isinstance(t, Tensor)]
        # views of memory have the lanes of the result
        gathered = out.may_overlap_itself() or any(
            t.h_shift or t.w_shift or t.lane != out.lane for t in tensors
        )
        self._kernel = kernel
        self._crossing = any(not t.same_place(out) and t.may_overlap(out) for t in tensors)
        self._gathered: _Gathered | None = None
        self._rows: Run | None = None
        self._pieces: list[tuple[Words, list[Words]]] = []
        self._in_place: list[Run] = []  # numpy writes where the result lies
        parts = out.parts()
        apart = not self._crossing and not (gathered and any(t.may_overlap(out) for t in tensors))
        if gathered or (loop is not None and apart):
            for tensor in (out, *tensors):
                for part in tensor.parts():
                    memory.check(tensor, part, tensor.block(part))
        if loop is not None and apart:
            bind_loop = _bind_planes if by_plane else _bind_rows
            self._rows = bind_loop(memory, loop, inputs, out)
        if self._rows is not None:
            return
        if gathered:
            self._gathered = _Gathered(memory, inputs, out)
            return
        for part in parts:
            target = memory.view(out, part, np.uint32)
            sources = [
                memory.view(t, part, np.uint32) if isinstance(t, Tensor) else _constant(t) for t in inputs
            ]
            varies = [isinstance(t, Tensor) for t in inputs]
            for piece in slices(target.shape):
                arguments = [s[piece] if v else s for s, v in zip(sources, varies, strict=True)]
                self._pieces.append((target[piece], arguments))

        ufunc = getattr(kernel, "ufunc", None)
        if ufunc is not None and not self._crossing:
            for target, arguments in self._pieces:
                views = [a.view(np.float32) for a in (*arguments, target)]
                self._in_place.append(partial(ufunc, *views))

    def compute(self) -> list[Words]:
        """The results, without writing them; only where no compiled loop was given."""
        if self._gathered:
            return [self._kernel(*self._gathered.arguments())]
        # np.array: a kernel may return a view of memory
        return [np.array(self._kernel(*arguments)) for _, arguments in self._pieces]

    def store(self, results: list[Words]) -> None:
        """Write what `compute` gave. Results come in the order of its pieces."""
        if self._gathered:
            self._gathered.store(results[0])
            return
        for (target, _), result in zip(self._pieces, results, strict=True):
            target[...] = result

    def plan(self) -> Run:
        """The function that performs the operation: as few calls as it takes."""
        if self._rows is not None:
            return self._rows
        return self._in_place[0] if len(self._in_place) == 1 else self._run

    def _run(self) -> None:
        if self._in_place:
            for one in self._in_place:
                one()
            return
        if self._gathered or (self._crossing and len(self._pieces) > 1):
            self.store(self.compute())
            return
        for target, arguments in self._pieces:
            target[...] = self._kernel(*arguments)


def _bind_rows(memory: Memory, loop: Loop, inputs: tuple[Operand, ...], out: Tensor) -> Run | None:
    """A function that performs the operation in a compiled loop; None where the rows are too short, or
    where the processor does not flush as the chip does. The operands must lie in their memories."""
    tensors = [out, *(t for t in inputs if isinstance(t, Tensor))]
    rows = rows_of(tensors) if native.ready() else None
    if rows is None:
        return None
    words = memory.flat(Space.LOCAL).view(np.uint32)
    first, *found = rows.at
    starts, arguments = [first], [words]
    for operand in inputs:
        if isinstance(operand, Constant):  # a row of its own, where every row begins
            starts.append(np.zeros_like(first))
            arguments.append(np.full(rows.width, operand.bits, np.uint32))
        else:
            starts.append(found.pop(0))
            arguments.append(words)
    return run_rows(loop, arguments, replace(rows, at=np.stack(starts)))


def _bind_planes(memory: Memory, loop: Loop, inputs: tuple[Operand, ...], out: Tensor) -> Run | None:
    """The same for a loop that takes planes and single elements; planes must be contiguous."""
    n, c, h, w = out.shape
    if not native.ready() or n * c > ROWS_MAX:
        return None
    words = memory.flat(Space.LOCAL).view(np.uint32)
    starts, arguments = [planes_at(out).reshape(-1)], [words]
    for operand in inputs:
        if isinstance(operand, Constant):
            starts.append(np.zeros_like(starts[0]))
            arguments.append(_constant(operand))
        else:
            starts.append(planes_at(operand).reshape(-1))
            arguments.append(words)
    return run_rows(loop, arguments, Rows(np.stack(starts), h * w))


def run_rows(loop: Loop, arguments: list[npt.NDArray[Any]], rows: Rows) -> Run:
    """A function that runs a loop over rows, in threads where they are many."""
    function = loop()
    return workers.in_threads([function.bound(*arguments, at, rows.width) for at in rows.pieces()])


class _Gathered:
    """Access by one index per element: for shifted indices and results that overlap themselves."""

    def __init__(self, memory: Memory, inputs: tuple[Operand, ...], out: Tensor) -> None:
        self._words = memory.flat(Space.LOCAL).view(np.uint32)
        self._sources = [t.indices() if isinstance(t, Tensor) else _constant(t) for t in inputs]
        self._is_tensor = [isinstance(t, Tensor) for t in inputs]
        self._target = out.indices()

    def arguments(self) -> list[Words]:
        return [
            self._words[s] if tensor else s.astype(np.uint32, copy=False)
            for s, tensor in zip(self._sources, self._is_tensor, strict=True)
        ]

    def store(self, result: Words) -> None:
        # numpy keeps the last value of an index that occurs more than once
        self._words[self._target.reshape(-1)] = np.broadcast_to(result, self._target.shape).reshape(-1)


def _constant(constant: Constant) -> Words:
    return np.array([constant.bits], np.uint32)


def bind(
    memory: Memory,
    kernel: Kernel,
    inputs: tuple[Operand, ...],
    out: Tensor,
    loop: Loop | None = None,
    *,
    by_plane: bool = False,
) -> Run:
    """A function that performs out = kernel(*inputs); see Bound."""
    return Bound(memory, kernel, inputs, out, loop, by_plane=by_plane).plan()
