"""The queue of asynchronous launches by itself."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from firmware_sim.device.launch_queue import LaunchQueue
from firmware_sim.errors import DeviceError


def test_launches_run_in_order_and_the_first_error_is_kept() -> None:
    queue, ran = LaunchQueue(), list[int]()

    def fail(number: int) -> None:
        ran.append(number)
        raise DeviceError(f"launch {number}")

    for number in range(3):
        queue.add(partial(fail, number))
    with pytest.raises(DeviceError, match="launch 0"):
        queue.sync(60.0)
    assert ran == [0, 1, 2]
    queue.sync(60.0)
    queue.close()


def test_sync_has_a_limit_and_nothing_is_left_after_close() -> None:
    queue, begun, go = LaunchQueue(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go.wait(60)

    queue.add(wait)
    queue.add(wait)
    assert begun.wait(60)
    with pytest.raises(DeviceError, match=r"2 launches have not ended after 0\.01 s"):
        queue.sync(0.01)
    timer = threading.Timer(0.1, go.set)  # while close waits
    timer.start()
    queue.close()
    queue.sync(0.0)
    queue.join()
    timer.join()
