"""Every .tflite file of a folder through LiteRT with the TPU: python benchmarks/bench_litert.py FOLDER

Prints for each how many of its operations and multiplications with additions are on the TPU, how many
partitions ran, the largest difference from LiteRT's CPU kernels, and both times; a model that these refuse is
left out. One process each: some models end LiteRT. With --made FOLDER the tests' own models are written there
first.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from firmware_sim.errors import TpulayerError
from firmware_sim.isa import timing
from tests.support.tflite_nets import NETS
from tests.support.tflite_zoo import ZOO
from user_layers.delegates.litert import LiteRtModel, counters
from user_layers.delegates.plan import plan
from user_layers.spelling.foreign import Array, ForeignModel, Operation
from user_layers.tflite.read import read_tflite
from user_layers.tflite.spellings import TFLITE
from user_layers.toolkit import Toolkit

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


def macs(model: ForeignModel, operation: Operation) -> int:
    """Multiplications with additions of an operation that has weights or multiplies matrices."""
    shapes = [() if name is None else model.tensors[name].shape for name in operation.inputs]
    out = math.prod(model.tensors[operation.outputs[0]].shape) if operation.outputs else 0
    match operation.kind:
        case "CONV_2D":
            return out * math.prod(shapes[1][1:])
        case "DEPTHWISE_CONV_2D":
            return out * math.prod(shapes[1][1:3])
        case "CONV_3D":
            return out * math.prod(shapes[1][:4])
        case "TRANSPOSE_CONV":
            return math.prod(shapes[2]) * math.prod(shapes[1][:3])
        case "FULLY_CONNECTED":
            return out * shapes[1][-1]
        case "BATCH_MATMUL":
            return out * shapes[0][-2 if operation.attributes.get("adj_x") else -1]
    return 0


def _shares(path: Path) -> str:
    """What is on the TPU."""
    model = read_tflite(path)
    with Toolkit() as toolkit:
        whys = plan(model, TFLITE, toolkit).reasons
    counts = [macs(model, operation) for operation in model.operations]
    chosen = [count for count, why in zip(counts, whys, strict=True) if why is None]
    share = 100 * sum(chosen) / sum(counts) if sum(counts) else 100 * len(chosen) / max(len(counts), 1)
    return f"{len(chosen)} of {len(counts)} operations, {share:.0f} % of {sum(counts) / 1e6:.2f} M MACs"


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
        f"{_shares(path)}, {after.runs - before.runs} partitions, "
        f"difference {max(differences, default=0.0):.1e}, "
        f"CPU {cpu * 1e3:.2f} ms, emulated {emulated * 1e3:.2f} ms ({emulated / cpu:.1f} times), "
        f"on the chip {modelled:.3f} ms ({timing.modelled()})"
    )


def main() -> None:
    words = sys.argv[1:]
    place = Path(words[-1])
    if words[0] == "--made":
        place.mkdir(parents=True, exist_ok=True)
        for name, make in ({name: lambda net=net: net()[0] for name, net in NETS.items()} | ZOO).items():
            (place / f"{name}.tflite").write_bytes(make())
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
