"""Whether this process traces what its devices execute. Apart from what tracing needs: devices open fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from firmware_sim.checks.finding import Attribute
from firmware_sim.checks.objects import Allocations, Change
from firmware_sim.errors import UsageError
from firmware_sim.processes.shared_memory import SharedMemory


class BegunRequest(Protocol):
    """A request that runs."""

    @property
    def path(self) -> Path:
        """The file that the device process is to write."""

    def end(self, what: str, cycles: float, where: Attribute | None, failed: str = "") -> None:
        """It has ended. where: knows of the commands of stored streams; failed: why, empty if it did not."""


class Tracing(Protocol):
    """What takes down requests."""

    def begin(self, memory: SharedMemory, buffers: Sequence[Change]) -> BegunRequest:
        """A request begins. buffers: what is allocated in DDR."""


_current: Tracing | None = None


def begun(memory: SharedMemory, allocations: Allocations) -> BegunRequest | None:
    """A request of a device with these memories begins; None where nobody traces."""
    return None if _current is None else _current.begin(memory, allocations.all())


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
