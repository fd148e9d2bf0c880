"""Asynchronous launches of one device: run in order by a thread, the first error kept for the next sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class LaunchQueue:
    """The thread starts with the first launch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._running: list[Future[object]] = []

    def add(self, launch: Callable[[], object]) -> None:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "launches")
            self._running.append(self._pool.submit(launch))

    def join(self) -> None:
        """Wait until nothing runs; errors stay for sync."""
        with self._lock:
            running = list(self._running)
        for future in running:
            future.exception()

    def sync(self) -> None:
        """Wait until nothing runs, then raise the first error since the last sync."""
        with self._lock:
            running, self._running = self._running, []
        errors = [future.exception() for future in running]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """Drop what has not started, wait for what runs."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
