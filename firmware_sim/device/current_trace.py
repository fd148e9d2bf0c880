"""Whether this process traces what its devices execute. Apart from what tracing needs: devices open fast."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Attribute
from firmware_sim.checks.objects import Allocations, Change
from firmware_sim.errors import UsageError
from firmware_sim.processes.shared_memory import SharedMemory

Array = npt.NDArray[Any]


class BegunRequest(Protocol):
    """A request that runs."""

    @property
    def path(self) -> Path:
        """The file that the device process is to write."""

    def end(self, what: str, cycles: float, where: Attribute | None, failed: str = "") -> None:
        """It has ended. where: knows of the commands of stored streams; failed: why, empty if it did not."""


@dataclass(frozen=True)
class NamedTensor:
    """A tensor in DDR: absolute address, shape and type of its elements as numpy calls it; together: how many
    batches share a word (2N, 4N); varies: the shape is the largest one, the request finds its own."""

    name: str
    address: int
    shape: tuple[int, ...]
    dtype: str
    together: int = 1
    varies: bool = False

    def element(self, index: Sequence[int], shape: Sequence[int] | None = None) -> int:
        """The address of an element. shape: of the tensor, where its own is only the largest one."""
        extents = (self.shape if shape is None else tuple(shape))[1:]
        place = 0
        for i, extent in zip(index[1:], extents, strict=True):
            place = place * extent + i
        word, batch = divmod(index[0] if index else 0, self.together)
        at = (word * math.prod(extents) + place) * self.together + batch
        return self.address + at * np.dtype(self.dtype).itemsize


@dataclass
class Verdict:
    """problem: what was wrong with the result, by whoever looked at it; empty for nothing."""

    problem: str = ""


@dataclass(frozen=True)
class Told:
    """What those who make requests say of them. label: what they are for; expected: what must be in tensors
    at the end; verdict: filled in later."""

    label: str = ""
    tensors: tuple[NamedTensor, ...] = ()
    expected: Mapping[str, Array] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)


class Tracing(Protocol):
    """What takes down requests."""

    def begin(self, memory: SharedMemory, buffers: Sequence[Change], told: Told) -> BegunRequest:
        """A request begins. buffers: what is allocated in DDR."""


_current: Tracing | None = None
_told = Told()


def begun(memory: SharedMemory, allocations: Allocations) -> BegunRequest | None:
    """A request of a device with these memories begins; None where nobody traces."""
    return None if _current is None else _current.begin(memory, allocations.all(), _told)


@contextmanager
def telling(
    tensors: Callable[[], Iterable[NamedTensor]] | None = None,
    expected: Mapping[str, Array] | None = None,
    label: str = "",
) -> Iterator[Verdict]:
    """Say this of requests meanwhile, beside what is said already. tensors: called where somebody traces;
    label: with a verdict of its own, which is given back."""
    global _told
    before = _told
    if _current is not None:
        more = () if tensors is None else tuple(tensors())
        verdict = Verdict() if label else before.verdict
        known = {**before.expected, **(expected or {})}
        _told = Told(label or before.label, (*before.tensors, *more), known, verdict)
    try:
        yield Verdict() if _current is None else _told.verdict
    finally:
        _told = before


@contextmanager
def tracing(trace: Tracing) -> Iterator[None]:
    """All requests of all devices meanwhile. UsageError inside another one."""
    global _current
    if _current is not None:
        raise UsageError("traced() inside traced()", hint="end the outer one first")
    _current = trace
    try:
        yield
    finally:
        _current = None
