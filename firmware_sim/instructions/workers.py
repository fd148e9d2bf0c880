"""Handing independent pieces of one instruction to threads.

TPULAYER_THREADS sets their number; without it, all processors this process may use.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from firmware_sim.flush import flush_this_thread
from firmware_sim.variables import THREADS

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Piece = Callable[[], object]

WORTH = 1 << 25  # products that are worth threads: on a busy machine one may take milliseconds to begin
COPIED = 32  # products that take as long as an element to copy


@lru_cache(maxsize=1)
def threads() -> int:
    """How many threads work. UsageError when TPULAYER_THREADS is not a positive number."""
    return THREADS.get() or len(os.sched_getaffinity(0))


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(threads() - 1, 1), "tpu", initializer=flush_this_thread)


def pieces(products: int) -> int:
    """How many pieces to make of so many products: one for each thread, or one where it takes longer to
    hand them over."""
    return threads() if products >= WORTH else 1


def cut(size: int, unit: int, pieces: int) -> list[tuple[int, int]]:
    """[0, size) in at most `pieces` ranges of multiples of `unit`, the last one shorter."""
    step = -(-size // (pieces * unit)) * unit
    return [(i, min(i + step, size)) for i in range(0, size, step)]


def in_threads(pieces: list[Piece]) -> Piece:
    """A function that runs all pieces; for a single one without any overhead."""
    return pieces[0] if len(pieces) == 1 else partial(run, pieces)


def run(pieces: list[Piece]) -> None:
    """All pieces, in any order, some in the calling thread, which must flush denormals already.

    When it returns or raises, no piece runs any more; it raises the error of one of them.
    """
    if len(pieces) == 1 or threads() == 1:
        for piece in pieces:
            piece()
        return
    from concurrent.futures import wait

    first, *rest = pieces
    given = [(piece, _pool().submit(piece)) for piece in rest]
    try:
        first()
        for piece, done in reversed(given):
            if done.cancel():  # no thread has begun it
                piece()
    finally:
        wait([done for _, done in given])
    for _, done in given:
        if not done.cancelled():
            done.result()
