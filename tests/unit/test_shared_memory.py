"""The chip's memories in one file: how far what is given back reaches, and the guards between them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import pytest

from firmware_sim.processes import shared_memory
from firmware_sim.processes.shared_memory import SharedMemory


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    memory = SharedMemory.create("test")
    yield memory
    memory.close()


def test_only_whole_pages_are_given_back(memory: SharedMemory) -> None:
    page = mmap.PAGESIZE
    memory.ddr[: 5 * page] = 7
    memory.discard_ddr(page + 1, 3 * page - 2)  # all but one byte of the second and fourth page
    kept = [bool(memory.ddr[i * page : (i + 1) * page].all()) for i in range(5)]
    assert kept == [True, True, False, True, True]
    assert not memory.ddr[2 * page : 3 * page].any()
    memory.discard_ddr(page, 0)
    memory.discard_ddr(page + 1, 100)
    assert memory.ddr[page : 2 * page].all()
    memory.discard_ddr(page, page)
    assert not memory.ddr[page : 2 * page].any()


def test_a_guard_is_behind_each_memory(memory: SharedMemory) -> None:
    """Of 2 MiB at least, so that what runs over an end does not reach the next memory."""
    starts, guards, size = shared_memory._layout()
    ends = [begin + shared_memory._SIZES[name] for name, begin in starts.items()]
    assert [start for start, _ in guards] == ends
    assert [start + extent for start, extent in guards] == [*list(starts.values())[1:], size]
    assert min(extent for _, extent in guards) >= 2 << 20


def test_all_memories_share_one_file(memory: SharedMemory) -> None:
    other = SharedMemory(memory.fd)
    for name in ("ddr", "local", "l2", "dtcm", "bd", "gdma"):
        part = getattr(memory, name).reshape(-1)
        part[-1] = 5
        assert getattr(other, name).reshape(-1)[-1] == 5
        assert np.count_nonzero(getattr(other, name).reshape(-1)[-1000:]) == 1
