"""Modelled cycles and DDR traffic of the light models, each layer alone and grouped.

    python benchmarks/bench_groups.py [NAME...]

From the recorded commands: cycles as the emulator counts them, and the bytes that move between DDR and the
chip, those of constants apart from activations (all that is in a net's context).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from firmware_sim.chip import DDR_BASE
from firmware_sim.isa import timing
from firmware_sim.timeline import Timer
from tests.onnx_light import NAMES, randomized
from tpulayer import Graph
from user_layers.compiler.pipeline import compile_graph
from user_layers.net.compiled import StaticBody
from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Measured:
    """One compiled net: seconds of compiling, cycles, bytes."""

    seconds: float
    commands: int
    cycles: float
    bd: float
    gdma: float
    constants: int
    activations: int

    def line(self) -> str:
        return (
            f"compile {self.seconds:5.1f} s  {self.commands:6} commands {self.cycles / 1e6:7.3f} Mcycles "
            f"(BD {self.bd / 1e6:.3f}, GDMA {self.gdma / 1e6:7.3f})  constants {self.constants / 1e6:.1f} MB "
            f"activations {self.activations / 1e6:.1f} MB"
        )


def measure(path: Path, toolkit: Toolkit, opt: int) -> Measured:
    """Compile and time the streams."""
    start = time.perf_counter()
    graph = Graph.from_onnx(path, toolkit=toolkit)
    compiled = compile_graph(graph, opt=opt)
    seconds = time.perf_counter() - start
    (body,) = (s.body for s in compiled.stages[0].subnets)
    assert isinstance(body, StaticBody)
    timer = Timer()
    timelines = [timer.timeline(group) for group in body.groups]
    first = compiled.stages[0].ctx_addr - DDR_BASE
    constants = activations = 0
    for timeline in timelines:
        for transfer in timeline.transfers():
            if transfer.offset < first:
                constants += transfer.nbytes
            else:
                activations += transfer.nbytes
    return Measured(
        seconds,
        sum(g.bd_num + g.gdma_num for g in body.groups),
        sum(t.cycles for t in timelines),
        sum(t.bd_busy for t in timelines),
        sum(t.gdma_busy for t in timelines),
        constants,
        activations,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--opt", type=int, action="append", help="levels to measure; default 0 and 2")
    given = parser.parse_args()
    print(f"cycles: {timing.modelled()}")
    with tempfile.TemporaryDirectory() as folder, Toolkit() as toolkit:
        for name in given.names:
            path = randomized(name, Path(folder))
            found: list[Measured] = []
            for opt in given.opt or (0, 2):
                found.append(measure(path, toolkit, opt))
                print(f"{name:14} opt {opt}  {found[-1].line()}", flush=True)
            first, last = found[0], found[-1]
            if len(found) > 1:
                saved = 1 - last.activations / first.activations
                print(f"{name:14} {saved:.0%} of activation traffic less, {first.cycles / last.cycles:.2f} x")


if __name__ == "__main__":
    main()
