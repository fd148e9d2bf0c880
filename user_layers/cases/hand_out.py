"""Cases go to whoever does them, and their results come back in the order of the cases.

Where the work is done changes no result and no order: a case is a value, its result depends on nothing else,
and what fails in a process fails here as it would have failed without it.
"""

from __future__ import annotations

import atexit
import multiprocessing
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from firmware_sim.errors import DeviceCrash, UsageError

Case = TypeVar("Case")
Result = TypeVar("Result")
Opened = AbstractContextManager[Callable[[Case], Result]]

AHEAD = 2
"""Cases that wait for each of those who work: none of them idles, and large data does not fill the memory."""


@dataclass(frozen=True)
class Where:
    """Who works. jobs: processes on this machine, 1 for this process itself; dask: the address of a Dask
    scheduler, whose workers do all of it."""

    jobs: int = 1
    dask: str = ""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise UsageError(f"{self.jobs} processes", hint="at least 1")
        if self.dask and self.jobs > 1:
            raise UsageError("--jobs and --dask together", hint="Dask's workers are processes of their own")


def hand_out(
    open_: Callable[..., Opened[Case, Result]], words: tuple[Any, ...], cases: Iterable[Case], where: Where
) -> Iterator[Result]:
    """The results of all cases, each once, in the order of the cases.

    open_(*words) is entered once by everybody who works, and gives what makes a case's result. For more than
    this process it is a function of a module, and words, cases and results can be pickled.
    Errors: those of the cases, at the first that fails; DeviceCrash when a process dies; those of `on_dask`.
    """
    if where.dask:
        from user_layers.cases.cluster import on_dask

        return on_dask(where.dask, open_, words, cases)
    return _here(open_, words, cases) if where.jobs == 1 else _in_pool(open_, words, cases, where.jobs)


def _here(
    open_: Callable[..., Opened[Case, Result]], words: tuple[Any, ...], cases: Iterable[Case]
) -> Iterator[Result]:
    with open_(*words) as work:
        for case in cases:
            yield work(case)


def _in_pool(
    open_: Callable[..., Opened[Case, Result]], words: tuple[Any, ...], cases: Iterable[Case], jobs: int
) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")  # a device's processes are not for a copy of this one
    pool = ProcessPoolExecutor(jobs, context)
    order: InOrder[Result] = InOrder()
    waiting: set[Future[tuple[int, Result]]] = set()
    try:
        for number, case in enumerate(cases):
            waiting.add(pool.submit(do, "pool", open_, words, number, case))
            if len(waiting) >= AHEAD * jobs:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from order.of(one.result() for one in done)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from order.of(one.result() for one in done)
    except BrokenProcessPool as error:
        raise DeviceCrash(
            "one of the processes that --jobs asks for has ended", hint="give fewer, if memory is short"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


class InOrder(Generic[Result]):
    """Results that come numbered in any order, given on in the order of their numbers."""

    def __init__(self) -> None:
        self._next = 0
        self._early: dict[int, Result] = {}

    def of(self, numbered: Iterable[tuple[int, Result]]) -> Iterator[Result]:
        """What can be given on when these have come. Errors: those of the iterable."""
        self._early.update(numbered)
        while self._next in self._early:
            yield self._early.pop(self._next)
            self._next += 1


class _Here:
    """What this process has open: that of one run at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # a Dask worker may have several threads, and a device serves one
        self.run = ""
        self.stack = ExitStack()
        self.work: Callable[[Any], Any] | None = None

    def close(self, run: str = "") -> None:
        """End what is open, if it is of that run, or of any."""
        if not run or run == self.run:
            self.run, self.work = "", None
            self.stack.close()


_HERE = _Here()
atexit.register(_HERE.close)


def do(
    run: str, open_: Callable[..., Opened[Case, Result]], words: tuple[Any, ...], number: int, case: Case
) -> tuple[int, Result]:
    """In a process that works for a run: one case, opened before if it is the first one here."""
    with _HERE.lock:
        if _HERE.run != run or _HERE.work is None:
            _HERE.close()
            _HERE.work, _HERE.run = _HERE.stack.enter_context(open_(*words)), run
        return number, _HERE.work(case)


def end(run: str) -> None:
    """In a process that works for several runs: this one is over."""
    with _HERE.lock:
        _HERE.close(run)
