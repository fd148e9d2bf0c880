"""Cases that are handed out: how many a second in one process, in two, and by two of Dask's workers.

    python benchmarks/bench_cases.py [--samples 256]

Batches of `tpulayer evaluate` on a small convolution net, and cases of nothing: what handing out costs. All
in one run; the first result is not counted, so that loading and compiling are not.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.end_to_end.test_int8_nets import convolutions
from tests.support.dask_cluster import cluster
from tests.support.toy_cases import squares
from tests.support.workspaces import tpulayer
from user_layers.cases.hand_out import Where, hand_out
from user_layers.evaluate.job import Job
from user_layers.evaluate.work import worker_anywhere
from user_layers.quantize.data import batches
from user_layers.toolkit import Toolkit

NOTHING = 400  # cases


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=256)
    samples = parser.parse_args().samples
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        onnx.save(convolutions(4, 64), str(folder / "net.onnx"))
        data = np.random.default_rng(0).standard_normal((samples, 3, 20, 20)).astype(np.float32)
        np.savez(folder / "data.npz", x=data)
        tpulayer("calibrate", "net.onnx", "--data", "data.npz", "-o", "t.json", cwd=folder)
        tpulayer("compile", "net.onnx", "--int8", "t.json", "-o", "out", cwd=folder)
        job = Job.of(folder / "out")
        with Toolkit(check="off") as toolkit:
            cases = list(batches(folder / "data.npz", job.graph(toolkit)))
        size = len(pickle.dumps(cases[0])), len(pickle.dumps(job.packed()))
        print(f"{size[0]:,} bytes a batch of 4, {size[1]:,} bytes once for each worker")
        (folder / "dask").mkdir()
        with cluster(folder / "dask", workers=2) as dask:
            for name, where in (
                ("1 process", Where()),
                ("2 processes", Where(2)),
                ("Dask, 2", Where(dask=dask.address)),
            ):
                evaluated = 4 * _rate(
                    hand_out(worker_anywhere, (job.packed(), False), cases, where), len(cases)
                )
                empty = _rate(hand_out(squares, (folder,), range(NOTHING), where), NOTHING)
                print(f"{name:12} {evaluated:8.1f} samples a second, {1e3 / empty:6.2f} ms a case of nothing")


def _rate(results: Iterator[Any], count: int) -> float:
    """Results a second after the first."""
    next(results)
    begin = time.perf_counter()
    rest = sum(1 for _ in results)
    assert rest == count - 1
    return rest / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
