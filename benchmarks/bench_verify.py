"""`tpulayer verify`: cases a second in one process, in two, by two of Dask's workers; what handing out costs;
how long mistakes take to their smallest case.

    python benchmarks/bench_verify.py [--cases 60] [--seeds 3]

All in one run. The first result is not counted, so that opening firmwares is not.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.dask_cluster import cluster
from tests.support.toy_cases import squares
from tests.support.verify_faults import FAULTS, add_layer
from tests.support.workspaces import make_workspace
from user_layers.cases.hand_out import Where, hand_out
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.targets import build_layers
from user_layers.verify.command import Budget, verify_all
from user_layers.verify.work import Job, Packed, Ticket, worker, worker_anywhere

NOTHING = 400  # cases


def main() -> None:
    """Print a table of rates, then one of mistakes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ws = make_workspace(folder / "ws", layers=())
        for fault in (None, *FAULTS):
            add_layer(ws.root, fault)
        build_layers(ws, Reporter(quiet=True))
        _rates(Job(ws.root, ("rows",)), folder, given.cases)
        print()
        for fault in FAULTS:
            _mistake(ws.root, fault.name, range(given.seeds))


def _rates(job: Job, folder: Path, cases: int) -> None:
    tickets = [Ticket("rows", number) for number in range(cases)]
    packed = Packed.of(job)
    with worker(job) as do:
        do(tickets[0])
        outcomes = [do(ticket) for ticket in tickets[1:]]
    inside = statistics.mean(one.seconds for one in outcomes)
    sizes = (len(pickle.dumps(tickets[0])), len(pickle.dumps(outcomes[0])), len(pickle.dumps(packed)))
    print(
        f"a case runs for {inside * 1e3:.0f} ms; {sizes[0]} bytes there, {sizes[1]:,} bytes back, "
        f"{sizes[2]:,} bytes once for each worker of Dask's"
    )
    (folder / "dask").mkdir()
    with cluster(folder / "dask", workers=2) as dask:
        for name, where in (
            ("1 process", Where()),
            ("2 processes", Where(2)),
            ("Dask, 2", Where(dask=dask.address)),
        ):
            if where.dask:
                rate = _rate(hand_out(worker_anywhere, (packed,), tickets, where), cases)
            else:
                rate = _rate(hand_out(worker, (job,), tickets, where), cases)
            empty = _rate(hand_out(squares, (folder,), range(NOTHING), where), NOTHING)
            print(f"{name:12} {rate:6.2f} cases a second, {1e3 / empty:6.2f} ms for a case of nothing")


def _mistake(root: Path, name: str, seeds: range) -> None:
    """Of each seed: which case, after how long; medians of the seconds."""
    first, whole, runs, cases, what = [], [], [], [], set()
    for seed in seeds:
        begin = time.perf_counter()
        report = verify_all(Job(root, (name,), seed), Budget(200, 0.0))
        whole.append(time.perf_counter() - begin)
        layer = report.layers[name]
        found = layer.found[0]
        first.append(layer.seconds)
        runs.append(sum(one.runs for one in layer.found))
        cases.append(layer.cases)
        what.add(f"{found.failure.property} {found.case.split(', {')[0]}")
    numbers, tries = ("/".join(map(str, many)) for many in (cases, runs))
    print(
        f"{name:11} case {numbers:8} found after {statistics.median(first):5.1f} s, smallest after "
        f"{statistics.median(whole):5.1f} s, {tries} tried: {'; '.join(sorted(what))}"
    )


def _rate(results: Iterator[Any], count: int) -> float:
    """Results a second after the first."""
    next(results)
    begin = time.perf_counter()
    rest = sum(1 for _ in results)
    assert rest == count - 1
    return rest / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
