"""Targets whose cases are bytes: what a file or a message may hold."""

from __future__ import annotations

import abc
import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from types import FrameType
from typing import ClassVar

from tests.fuzz.driver import Case, Finding, Target
from tests.fuzz.mutate import damage


class Inputs(Target):
    """A case is {"input": hex}; it is taken in this process."""

    limit: ClassVar[int] = 10  # s for one input
    megabytes: ClassVar[int] = 2048  # that one input may take

    @abc.abstractmethod
    def seeds(self) -> list[bytes]:
        """Good inputs, from which all others are made."""

    @abc.abstractmethod
    def one(self, data: bytes) -> str:
        """Take one input; returns and raises as `run` does."""

    def changed(self, rng: random.Random, data: bytes) -> bytes:
        """Another input, by rules that know the format; data: one that was of use."""
        return damage(rng, data)

    @cached_property
    def _bases(self) -> list[bytes]:
        return self.seeds()

    def make(self, rng: random.Random) -> Case:
        return {"input": self.changed(rng, rng.choice(self._bases)).hex()}

    def run(self, case: Case) -> str:
        with limited(self.limit, self.megabytes):
            return self.one(bytes.fromhex(case["input"]))

    def check(self) -> None:
        """Nothing outlives an input."""

    def close(self) -> None:
        """No process of its own."""


@contextmanager
def limited(seconds: float, megabytes: int) -> Iterator[None]:
    """Finding after so many seconds, MemoryError beyond so much more memory than there is now."""

    def hang(number: int, frame: FrameType | None) -> None:
        raise Finding(f"hang: more than {seconds:g} s")

    with open("/proc/self/statm") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    handler = signal.signal(signal.SIGALRM, hang)
    resource.setrlimit(resource.RLIMIT_DATA, (data + (megabytes << 20), before[1]))
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)  # pytest's own limit
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, outer)
        resource.setrlimit(resource.RLIMIT_DATA, before)
