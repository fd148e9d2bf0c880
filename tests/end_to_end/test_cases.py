"""Cases are each done once, whoever does them and whoever dies in between."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import distributed
import pytest

import user_layers
from firmware_sim.errors import DeviceCrash, MissingError, UsageError
from tests.support.dask_cluster import Cluster, cluster
from tests.support.toy_cases import squares
from user_layers.cases import cluster as on_cluster
from user_layers.cases.hand_out import Where, hand_out

WANTED = [number * number for number in range(40)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes(jobs: int, tmp_path: Path) -> None:
    """In the order of the cases; what is opened is opened once by each, and closed."""
    found = list(hand_out(squares, (tmp_path, 0.01 * (jobs - 1)), range(40), Where(jobs)))
    assert found == WANTED
    assert len(list(tmp_path.glob("opened.*"))) == len(list(tmp_path.glob("closed.*"))) == jobs
    assert _done(tmp_path) == Counter(range(40))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_case_that_fails(jobs: int, tmp_path: Path) -> None:
    """Its error is that of the case; results before it have come."""
    results = hand_out(squares, (tmp_path,), [1, 2, -1, 3, 4, 5, 6, 7, 8], Where(jobs))
    with pytest.raises(UsageError, match="the case -1") as caught:
        for count, found in enumerate(results):
            assert found == (1, 4)[count]
    assert caught.value.hint == "another one"


def test_a_process_that_dies(tmp_path: Path) -> None:
    with pytest.raises(DeviceCrash, match="one of the processes that --jobs asks for has ended"):
        list(hand_out(squares, (tmp_path,), [1, -2, 3, 4], Where(2)))


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("dask")) as made:
        yield made


def test_a_dask_worker_that_is_killed(dask: Cluster, tmp_path: Path) -> None:
    """Three workers, one killed in the middle of a case: the others do what it had, no result comes twice.
    Nothing stays open in those that live."""
    results = hand_out(squares, (tmp_path, 0.1), range(40), Where(dask=dask.address))
    found = [next(results) for _ in range(3)]
    victim = next(p.pid for p in dask.processes[1:] if (tmp_path / f"did.{p.pid}").exists())
    os.kill(victim, signal.SIGKILL)
    assert found + list(results) == WANTED
    done = _done(tmp_path)
    assert set(done) == set(range(40)) and max(done.values()) <= 2
    alive = {int(path.suffix[1:]) for path in tmp_path.glob("opened.*")} - {victim}
    assert {int(path.suffix[1:]) for path in tmp_path.glob("closed.*")} == alive and alive


@pytest.mark.parametrize("lost", ["results", "what the cases share"])
def test_what_dask_forgets_is_asked_for_again(lost: str, dask: Cluster, tmp_path: Path) -> None:
    """As it does at times with what a worker had done that died, or with what it alone had; here another
    client makes it."""
    results = hand_out(squares, (tmp_path, 0.1), range(12), Where(dask=dask.address))
    found = [next(results)]
    with distributed.Client(dask.address, set_as_default=False) as other:
        keys = other.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks])
        gone = [key for key in keys if (key.count("-") == 2) == (lost == "results")]
        assert gone
        other.cancel([distributed.Future(key, other) for key in gone], force=True)
        assert found + list(results) == WANTED[:12]


def test_a_case_that_fails_on_dask(dask: Cluster, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the case -1") as caught:
        list(hand_out(squares, (tmp_path,), [1, -1, 3], Where(dask=dask.address)))
    assert caught.value.hint == "another one"
    assert list(hand_out(squares, (tmp_path,), range(5), Where(dask=dask.address))) == WANTED[:5]


def test_another_release(dask: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_layers, "__version__", "0.0.0")
    with pytest.raises(UsageError, match=r"the worker tcp://\S+ has tpulayer \S+, and this is 0\.0\.0"):
        list(hand_out(squares, (tmp_path,), range(5), Where(dask=dask.address)))


def test_no_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No address, nobody there, a scheduler without workers, one that goes away."""
    monkeypatch.setattr(on_cluster, "_CONNECTING", 1.0)
    monkeypatch.setattr(on_cluster, "_WORKERS", 1.0)

    def failing(address: str) -> None:
        list(hand_out(squares, (tmp_path,), range(9), Where(dask=address)))

    with pytest.raises(UsageError, match="is no address"):
        failing("tcp://somewhere:port")
    with pytest.raises(MissingError, match="no Dask scheduler answers at"):
        failing("tcp://127.0.0.1:9")
    with cluster(tmp_path, workers=0) as made:
        with pytest.raises(MissingError, match="has had no worker for 1 s"):
            failing(made.address)
        made.worker()
        monkeypatch.setattr(on_cluster, "_WORKERS", 60.0)
        results = hand_out(squares, (tmp_path, 0.1), range(40), Where(dask=made.address))
        assert next(results) == 0
        made.processes[0].kill()
        with pytest.raises(DeviceCrash, match="went away"):
            list(results)
    with pytest.raises(UsageError, match="--jobs and --dask together"):
        Where(2, "tcp://127.0.0.1:9")
    with pytest.raises(UsageError, match="0 processes"):
        Where(0)


def _done(folder: Path) -> Counter[int]:
    lines = (line for path in folder.glob("did.*") for line in path.read_text().splitlines())
    return Counter(map(int, lines))
