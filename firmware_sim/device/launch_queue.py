"""Asynchronous launches of one device: run in order by a thread, the first error kept for the next sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from firmware_sim.errors import DeviceError


class LaunchQueue:
    """The thread starts with the first launch."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pool: ThreadPoolExecutor | None = None
        self._waiting = 0  # launches that have not ended
        self._error: BaseException | None = None

    def add(self, launch: Callable[[], object]) -> None:
        """Run `launch` in the thread after all that were added before; what it raises is kept for `sync`."""
        with self._changed:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "launches")
            self._waiting += 1
            self._pool.submit(self._run, launch)

    def _run(self, launch: Callable[[], object]) -> None:
        error: BaseException | None = None
        try:
            launch()
        except BaseException as caught:
            error = caught
        with self._changed:
            self._error = self._error or error
            self._waiting -= 1
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until nothing runs; the error stays for sync. The device's time limit ends every launch."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting == 0)

    def sync(self, limit: float | None) -> None:
        """Wait until nothing runs, then raise the first error since the last sync.

        DeviceError when that takes more than `limit` seconds; the launches go on then.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting == 0, limit):
                raise DeviceError(
                    f"{self._waiting} launches have not ended after {limit:g} s",
                    hint="they go on: sync again, or with a larger limit",
                )
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Drop what has not started, wait for what runs."""
        with self._changed:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        with self._changed:
            self._waiting = 0
            self._changed.notify_all()
