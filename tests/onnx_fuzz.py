"""Random small ONNX models through every mode of the compiler, compared with onnxruntime.

    python -m tests.onnx_fuzz [--seed N] [--count N] [--keep DIR]

Each model (see onnx_random.py) is compiled static with opt 0, 1 and 2 and dynamic; the dynamic net also runs
for a smaller height, where no operation of the model has a fixed extent. Models with something wrong are
written to the folder of --keep.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from firmware_sim.errors import TpulayerError, UsageError
from tests.support.onnx_models import build_graph
from tests.support.onnx_random import random_model
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.flexible import fixed_extents_of, restricted
from user_layers.onnx.load import from_proto
from user_layers.onnx.model import Array, Model
from user_layers.onnx.types import from_net, to_net
from user_layers.toolkit import Toolkit

MODES: dict[str, dict[str, Any]] = {
    "opt 0": {"opt": 0},
    "opt 1": {"opt": 1},
    "opt 2": {"opt": 2},
    "dynamic": {"dynamic": True},
}


def inputs_for(model: Model, seed: int) -> dict[str, Array]:
    """Quarters: comparisons and rounding of inputs have no last bit to differ in."""
    rng = np.random.default_rng(seed)
    return {v.name: (rng.integers(-12, 13, v.fixed) / 4).astype(np.float32) for v in model.inputs}


def check_model(seed: int, toolkit: Toolkit) -> list[str]:
    """What is wrong with the model of this seed in some mode; nothing where all agree, or where
    onnxruntime's own outputs are not finite. Errors: those of `build`."""
    proto, flexible = random_model(seed)
    model = from_proto(proto)
    feeds = inputs_for(model, seed)
    want = reference(model, feeds)
    if not all(np.isfinite(array).all() for array in want):
        return []
    graph, built = build_graph(model, "net", toolkit=toolkit)
    problems = [f"on the CPU: {line}" for line in built.on_cpu]
    graph.restrict = lambda net: restricted(
        net, fixed_extents_of(built, model, lambda shapes: from_proto(proto, shapes))
    )
    for mode, options in MODES.items():
        try:
            graph.compile(**options, report=seed % 4 == 0)
            problems += _differences(graph, model, feeds, want, mode)
            if mode == "dynamic" and flexible:
                problems += _smaller(graph, proto, model, seed)
        except TpulayerError as error:
            problems.append(f"{mode}: {type(error).__name__}: {error.message}")
    return problems


def _smaller(graph: Graph, proto: Any, model: Model, seed: int) -> list[str]:
    """The same for a smaller height, if the model has a meaning there."""
    shapes = {v.name: v.fixed for v in model.inputs if v.fixed is not None}
    height = next(iter(shapes.values()))[2]
    height -= int(np.random.default_rng(seed).integers(0, (height + 1) // 2))
    try:
        small = from_proto(proto, {name: (*s[:2], height, s[3]) for name, s in shapes.items()})
        feeds = inputs_for(small, seed)
        want = reference(small, feeds)
    except TpulayerError:
        return []
    try:
        return _differences(graph, small, feeds, want, f"dynamic with the height {height}")
    except UsageError:  # refused: a layer was given what follows from the height
        return []


def _differences(
    graph: Graph, model: Model, feeds: dict[str, Array], want: list[Array], mode: str
) -> list[str]:
    values = {value.name: value for value in model.inputs}
    got = graph.run({name: to_net(feeds[name], values[name]) for name in graph.inputs})
    mine = [from_net(array, value) for array, value in zip(got, model.outputs, strict=True)]
    found = compare([value.name for value in model.outputs], mine, want)
    return [
        f"{mode}: {d.output} differs by {d.relative:.1e} of its largest value"
        for d in found
        if not d.relative <= TOLERANCE
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first model")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--keep", type=Path, metavar="DIR")
    given = parser.parse_args()
    start, wrong = time.perf_counter(), 0
    with Toolkit() as toolkit:
        for seed in range(given.seed, given.seed + given.count):
            try:
                problems = check_model(seed, toolkit)
            except Exception as error:  # the sweep goes on
                problems = [f"{type(error).__name__}: {error}"]
            wrong += bool(problems)
            for line in problems:
                print(f"seed {seed}: {line}", flush=True)
            if problems and given.keep is not None:
                onnx.save(random_model(seed)[0], str(given.keep / f"fuzz{seed}.onnx"))
    print(f"{given.count} models, {wrong} with something wrong, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
