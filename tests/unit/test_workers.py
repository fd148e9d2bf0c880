"""Cutting one instruction's work for threads, and TPULAYER_THREADS."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.device.client import Device
from firmware_sim.errors import UsageError
from firmware_sim.instructions import workers
from user_layers.toolchain.kernel import kernel_firmware


@pytest.fixture
def asked() -> Iterator[pytest.MonkeyPatch]:
    """The number of threads is looked up again, and not kept."""
    with pytest.MonkeyPatch.context() as patch:
        workers.threads.cache_clear()
        yield patch
    workers.threads.cache_clear()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "1e3", "²"])
def test_a_wrong_number_of_threads(asked: pytest.MonkeyPatch, text: str) -> None:
    asked.setenv("TPULAYER_THREADS", text)
    with pytest.raises(UsageError) as caught:
        workers.threads()
    assert caught.value.message == f"TPULAYER_THREADS {text}: give a number of threads, 1 or more"


def test_the_number_of_threads(asked: pytest.MonkeyPatch) -> None:
    asked.setenv("TPULAYER_THREADS", "3")
    assert workers.threads() == 3
    workers.threads.cache_clear()
    asked.setenv("TPULAYER_THREADS", "")
    assert workers.threads() == len(os.sched_getaffinity(0))


def test_a_device_says_it_when_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And not later, in the middle of the first kernel with a large instruction."""
    source = tmp_path / "nothing.c"
    source.write_text('#include "okk.h"\nvoid k(const void *args) {}\nOKKERNEL_FUNC_REGISTER(k)\n')
    image = kernel_firmware([source])
    monkeypatch.setenv("TPULAYER_THREADS", "many")
    with pytest.raises(UsageError, match="TPULAYER_THREADS many: give a number of threads"):
        Device(image)


@given(st.integers(1, 10_000), st.integers(1, 300), st.integers(1, 70))
def test_cuts_are_the_whole_in_order(size: int, unit: int, pieces: int) -> None:
    cuts = workers.cut(size, unit, pieces)
    assert [i for a, b in cuts for i in range(a, b)] == list(range(size))
    assert len(cuts) <= pieces
    assert all(a < b and a % unit == 0 for a, b in cuts)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("wrong", [None, 0, 3, 8])
def test_each_piece_runs_once_and_none_is_left_behind(
    asked: pytest.MonkeyPatch, threads: int, wrong: int | None
) -> None:
    asked.setenv("TPULAYER_THREADS", str(threads))
    begun: Counter[int] = Counter()
    ended: Counter[int] = Counter()

    def piece(number: int) -> None:
        begun[number] += 1
        time.sleep(0.002)
        if number == wrong:
            raise ValueError(f"piece {number}")
        ended[number] += 1

    pieces: list[workers.Piece] = [partial(piece, i) for i in range(9)]
    if wrong is None:
        workers.run(pieces)
        assert ended == Counter(range(9))
    else:
        with pytest.raises(ValueError, match=f"piece {wrong}"):
            workers.run(pieces)
        assert max(begun.values()) == 1
    then = begun.copy()
    time.sleep(0.01)
    assert begun == then and begun - ended == Counter([] if wrong is None else [wrong])
