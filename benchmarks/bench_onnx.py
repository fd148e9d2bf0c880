"""Compiling and running the onnx package's nine architectures, and onnxruntime on one thread: one run.

    python benchmarks/bench_onnx.py [NAME...] [--threads N] [--repeat N] [--json]

Best and median of runs that take turns with onnxruntime's, after one of each that does not count. Times of
running are those of the emulator: inputs and outputs copied, streams executed; weights are loaded before.
compile: from the ONNX file to a compiled net in memory, static, opt 2, without the comparison. Modelled
cycles are those of one run on the chip, with every layer by itself (opt 0) and with groups (opt 2).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(path: Path, toolkit: Any, repeat: int) -> dict[str, float]:
    """Seconds and cycles of one model."""
    import onnxruntime

    from firmware_sim.chip import CLOCK_HZ
    from tpulayer import Graph
    from user_layers.bmodel import write
    from user_layers.compiler.pipeline import compile_graph
    from user_layers.onnx.check import TOLERANCE, compare, random_inputs
    from user_layers.onnx.load import load_model
    from user_layers.runtime import BModelRuntime

    inputs = random_inputs(load_model(path))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    found: dict[str, float] = {}
    device = toolkit.device
    for opt in (0, 2):
        start = time.perf_counter()
        graph = Graph.from_onnx(path, toolkit=toolkit)
        net = compile_graph(graph, opt=opt)
        compiled = time.perf_counter() - start
        with BModelRuntime(device) as runtime:
            runtime.load(write(net))

            def ours(runtime: BModelRuntime = runtime, name: str = net.name) -> list[Any]:
                return runtime.launch(name, inputs)

            before = device.cycles
            got = ours()
            found[f"cycles_opt{opt}"] = device.cycles - before
            if opt:
                want = session.run(None, dict(inputs))
                worst = max(d.relative for d in compare(list(graph.outputs), got, want))
                if worst > TOLERANCE:
                    raise SystemExit(f"{path.stem}: {worst:.1e} of the largest value from onnxruntime's")
                pairs = [
                    (_seconds(ours), _seconds(lambda: session.run(None, dict(inputs)))) for _ in range(repeat)
                ]
                mine, theirs = zip(*pairs, strict=True)
                found |= {
                    "compile_s": compiled,
                    "run_best_s": min(mine),
                    "run_median_s": statistics.median(mine),
                    "onnxruntime_best_s": min(theirs),
                    "onnxruntime_median_s": statistics.median(theirs),
                    "ratio_best": min(mine) / min(theirs),
                    "ratio_median": statistics.median(mine) / statistics.median(theirs),
                    "chip_ms": found["cycles_opt2"] / CLOCK_HZ * 1e3,
                    "worst_difference": worst,
                }
    found["cycles_ratio"] = found["cycles_opt2"] / found["cycles_opt0"]
    return found


def main() -> None:
    from tests.onnx_light import NAMES, randomized

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--threads", type=int, default=0, help="threads of the emulator (default: all)")
    parser.add_argument("--repeat", type=int, default=7, help="runs that count")
    parser.add_argument("--json", action="store_true", help="numbers for programs, seconds and cycles")
    given = parser.parse_args()
    if given.threads:
        os.environ["TPULAYER_THREADS"] = str(given.threads)
    from firmware_sim.instructions.workers import threads
    from firmware_sim.isa import timing
    from user_layers.toolkit import Toolkit

    found = {}
    if not given.json:
        print(f"{threads()} threads of the emulator, one of onnxruntime; ms: best (median)")
        print(f"cycles, chip ms: {timing.modelled()}")
        print(
            f"{'model':14}{'compile s':>10}{'emulator':>18}{'onnxruntime':>18}{'ratio':>14}"
            f"{'Mcycles opt 0':>15}{'opt 2':>8}{'ratio':>7}{'chip ms':>9}"
        )
    with tempfile.TemporaryDirectory() as folder, Toolkit() as toolkit:
        os.chdir(folder)  # outside of any workspace, whose firmware would be used
        for name in given.names or NAMES:
            path = randomized(name, Path(folder))
            one = found[name] = measure(path, toolkit, given.repeat)
            path.unlink()
            if given.json:
                continue

            def ms(key: str, one: dict[str, float] = one) -> str:
                return f"{one[f'{key}_best_s'] * 1e3:.1f} ({one[f'{key}_median_s'] * 1e3:.1f})"

            ratio = f"{one['ratio_best']:.1f} ({one['ratio_median']:.1f})"
            print(
                f"{name:14}{one['compile_s']:10.2f}{ms('run'):>18}{ms('onnxruntime'):>18}{ratio:>14}"
                f"{one['cycles_opt0'] / 1e6:15.1f}{one['cycles_opt2'] / 1e6:8.1f}{one['cycles_ratio']:7.2f}"
                f"{one['chip_ms']:9.1f}",
                flush=True,
            )
    if given.json:
        print(json.dumps({"threads": threads(), "models": found}, indent=2))


if __name__ == "__main__":
    main()
