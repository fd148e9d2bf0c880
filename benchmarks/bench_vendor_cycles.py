"""Modelled cycles of the light models: this compiler's bmodels and the vendor compiler's, by the same timing.

    python benchmarks/bench_vendor_cycles.py [NAME...] [--kinds] [--opt N]

The ratio is ours / theirs, by the clock and by the same with the latency of loads that another fit gives
(timing.LATENT); at best the time is that of the busier engine. --kinds: commands and cycles by kind of
instruction, those first in which we are slower. Needs the vendor's tools (python -m tests.oracle.toolchain);
without them it says so and ends.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from firmware_sim.chip import DDR_BASE, DESCRIPTOR_BYTES
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa import timing
from firmware_sim.timeline import Timer
from firmware_sim.wire import CommandGroup
from tests.onnx_light import NAMES, randomized
from tests.oracle.client import Unavailable
from tests.oracle.toolchain import Toolchain
from tpulayer import Graph
from user_layers.bmodel import read
from user_layers.toolkit import Toolkit

_SHAPE = (1, 3, 224, 224)


@dataclass
class Kind:
    """All commands of one instruction."""

    count: int = 0
    cycles: float = 0.0


@dataclass
class Measured:
    """Cycles of a static net, in all and of each engine; latent: in all, by timing.LATENT; bytes between DDR
    and chip, without constants."""

    cycles: float = 0.0
    latent: float = 0.0
    bd: float = 0.0
    gdma: float = 0.0
    activations: int = 0
    kinds: dict[str, Kind] = field(default_factory=lambda: defaultdict(Kind))

    def line(self) -> str:
        return (
            f"{self.cycles / 1e6:7.3f} Mcycles (BD {self.bd / 1e6:7.3f}, GDMA {self.gdma / 1e6:7.3f}), "
            f"activations {self.activations / 1e6:6.1f} MB"
        )


def measure(bmodel: Path) -> Measured:
    """The first stage of the only net; it is static."""
    (net,) = read(bmodel).nets
    stage = net.stages[0]
    made, timer = Measured(), Timer()
    groups = [group for subnet in stage.subnets for group in subnet.groups]
    made.latent = cycles(groups, timing.LATENT)
    end = stage.coeff.addr + len(stage.coeff.data) if stage.coeff is not None else 0
    for subnet in stage.subnets:
        assert not subnet.is_dynamic and subnet.cpu is None, f"{bmodel} is not a static net"
        for group in subnet.groups:
            timeline = timer.timeline(group)
            made.cycles += timeline.cycles
            made.bd += timeline.bd_busy
            made.gdma += timeline.gdma_busy
            made.activations += sum(t.nbytes for t in timeline.transfers() if DDR_BASE + t.offset >= end)
            _add_kinds(group, made.kinds)
    return made


def cycles(groups: Sequence[CommandGroup], constants: timing.Constants) -> float:
    """Of streams that the engines read, by a clock of other constants."""
    before = timing.FITTED
    try:
        timing.FITTED = constants
        timer = Timer()
        return sum(timer.timeline(group).cycles for group in groups)
    finally:
        timing.FITTED = before


def _add_kinds(group: CommandGroup, kinds: dict[str, Kind]) -> None:
    for engine, stream in ((Engine.BD, group.bd), (Engine.GDMA, group.gdma)):
        words = np.frombuffer(stream, np.uint32).reshape(-1, DESCRIPTOR_BYTES // 4)
        columns = LAYOUTS[engine].columns(words)
        for i in range(len(columns)):
            row = columns.row(i)
            instruction = lookup(engine, row)
            assert instruction.semantics is not None  # the timeline was made
            kind = kinds[instruction.name]
            kind.count += 1
            kind.cycles += instruction.semantics.cycles(row).chip


def _say_kinds(ours: Measured, theirs: Measured) -> None:
    print(f"  {'':28} {'ours':>6} {'kcycles':>9} {'theirs':>7} {'kcycles':>9}")
    names = {*ours.kinds, *theirs.kinds}
    for name in sorted(names, key=lambda n: ours.kinds[n].cycles - theirs.kinds[n].cycles, reverse=True):
        a, b = ours.kinds[name], theirs.kinds[name]
        print(f"  {name:28} {a.count:6} {a.cycles / 1e3:9.1f} {b.count:7} {b.cycles / 1e3:9.1f}")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--kinds", action="store_true", help="a table by kind of instruction")
    parser.add_argument("--opt", type=int, default=2, help="level of our compiler")
    given = parser.parse_args(words)
    try:
        toolchain = Toolchain()
    except Unavailable as error:
        print(f"skipped: {error}")
        return
    print(f"cycles: {timing.modelled()}")
    ratios, latent = [], []
    with tempfile.TemporaryDirectory() as folder, Toolkit() as toolkit:
        for name in given.names:
            path = randomized(name, Path(folder))
            theirs = measure(toolchain.compile(path, [_SHAPE]))
            graph = Graph.from_onnx(path, toolkit=toolkit)
            graph.compile(opt=given.opt, directory=f"{folder}/{name}")
            ours = measure(Path(folder, name, "compilation.bmodel"))
            ratios.append(ours.cycles / theirs.cycles)
            latent.append(ours.latent / theirs.latent)
            told = f"ratio {ratios[-1]:5.2f}, {latent[-1]:.2f} with latency"
            print(f"{name:14} {told}  ours   {ours.line()}", flush=True)
            print(f"{'':14} {'':{len(told)}}  theirs {theirs.line()}", flush=True)
            if given.kinds:
                _say_kinds(ours, theirs)
    means = [np.exp(np.mean(np.log(found))) for found in (ratios, latent)]
    print(f"geometric means of {len(ratios)} ratios: {means[0]:.2f}, {means[1]:.2f} with latency")


if __name__ == "__main__":
    main()
