"""Every .tflite file of a folder through LiteRT with the TPU: python benchmarks/bench_litert.py FOLDER

Prints for each how many partitions ran, the largest difference from LiteRT's CPU kernels, and both times; a
model that these refuse is left out. One process each: some models end LiteRT.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from firmware_sim.errors import TpulayerError
from user_layers.delegates.litert import LiteRtModel, counters
from user_layers.spelling.foreign import Array

LIMIT = 600  # s for a model


def _inputs(model: LiteRtModel) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        name: rng.uniform(-1, 1, shape).astype(dtype)
        if dtype.kind == "f"
        else rng.integers(0, 2, shape).astype(dtype)
        for name, (shape, dtype) in model.inputs.items()
    }


def _timed(model: LiteRtModel, inputs: dict[str, Array], runs: int) -> tuple[dict[str, Array], float]:
    made, best = model.run(inputs), float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        model.run(inputs)
        best = min(best, time.perf_counter() - begin)
    return made, best


def _one(path: Path) -> str:
    try:
        with LiteRtModel(path, tpu=False) as model:
            inputs = _inputs(model)
            want, cpu = _timed(model, inputs, 5)
    except (TpulayerError, TypeError) as error:
        return f"LiteRT's kernels refuse it: {str(error).splitlines()[0]}"
    with LiteRtModel(path) as model:
        got, emulated = _timed(model, inputs, 1)
        before = counters()
        model.run(inputs)
        after = counters()
    differences = [
        np.abs(np.asarray(got[name], float) - want[name]).max(initial=0)
        / max(np.abs(np.asarray(want[name], float)).max(initial=0), 1e-6)
        for name in want
    ]
    modelled = (after.ns - before.ns) / 1e6
    return (
        f"{after.runs - before.runs} partitions, difference {max(differences, default=0.0):.1e}, "
        f"CPU {cpu * 1e3:.2f} ms, emulated {emulated * 1e3:.2f} ms, modelled {modelled:.3f} ms"
    )


def main() -> None:
    place = Path(sys.argv[1])
    if place.is_file():
        print(_one(place))
        return
    for path in sorted(place.glob("*.tflite")):
        try:
            done = subprocess.run(
                [sys.executable, __file__, str(path)], capture_output=True, text=True, timeout=LIMIT
            )
            said = done.stdout.strip() or (
                f"LiteRT ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
            )
        except subprocess.TimeoutExpired:
            said = f"no answer in {LIMIT} s"
        print(f"{path.name}: {said}", flush=True)


if __name__ == "__main__":
    main()
