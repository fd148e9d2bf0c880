"""Which layers stay in fp32 so that a net in integers is good enough: the worst ones, as few as serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from firmware_sim.errors import UsageError
from firmware_sim.shown import count
from user_layers.compiler.pipeline import compile_graph
from user_layers.graph import GraphBuilder
from user_layers.quantize.data import Batch
from user_layers.quantize.quality import Sums
from user_layers.quantize.report import Row, outputs_in_float
from user_layers.quantize.rewrite import Int8, quantise, with_ranges
from user_layers.runtime.references import load_net

_BATCHES = 4  # of the data that are tried; more change the order of layers little


@dataclass(frozen=True)
class Found:
    """fp32: layers that stay in fp32, the worst first. reached: dB of signal over noise of the worst output;
    before: the same with all layers in integers."""

    fp32: tuple[str, ...]
    reached: float
    before: float


class _Trial:
    """Nets with some layers in fp32, beside the float net on the same samples."""

    def __init__(self, graph: GraphBuilder, int8: Int8, given: Iterable[Batch]) -> None:
        self._graph = graph
        self._int8 = int8
        self._batches = list(islice(given, _BATCHES))
        if not self._batches:
            raise UsageError("no samples to search with", hint="--data names them")
        plain = with_ranges(graph, int8.table)
        with load_net(compile_graph(plain, opt=0), graph.toolkit) as runtime:
            self._wanted = [
                outputs_in_float(plain, runtime.launch(graph.name, dict(batch.inputs)))
                for batch in self._batches
            ]

    def layers(self) -> Sequence[Row]:
        """Those that multiply, in 8 bits if nobody objects."""
        options = self._int8.options
        rows = quantise(self._graph, self._int8.table, options).rows
        return [row for row in rows if row.macs and row.reason is None]

    def quality(self, fp32: Iterable[str]) -> float:
        """dB of the worst output with these layers in fp32 too."""
        options = replace(self._int8.options, fp32=(*self._int8.options.fp32, *fp32))
        done = quantise(self._graph, self._int8.table, options)
        sums = [Sums() for _ in done.graph.outputs]
        with load_net(compile_graph(done.graph, opt=0), self._graph.toolkit) as runtime:
            for batch, wanted in zip(self._batches, self._wanted, strict=True):
                made = done.given(runtime.launch(done.graph.name, done.fed(batch.inputs)))
                for one, want, got in zip(sums, wanted, made, strict=True):
                    one.add(want[: batch.count], got[: batch.count])
        if any(one.odd for one in sums):
            raise UsageError(
                "NaN or infinities come out for these samples, and their noise cannot be measured",
                hint="give --data that the net is for",
            )
        return min(one.sqnr for one in sums)


def search(
    graph: GraphBuilder,
    int8: Int8,
    given: Iterable[Batch],
    target: float,
    step: Callable[[str], None] = lambda _: None,
) -> Found:
    """Layers to be kept in fp32 so that each output has `target` dB of signal over noise on these samples
    (four batches of them).

    Each layer that multiplies is tried in integers alone; the worst ones go to fp32, as few of them as reach
    the target. Errors: UsageError where not even all of them do, or there are no samples.
    """
    trial = _Trial(graph, int8, given)
    before = trial.quality(())
    if before >= target:
        return Found((), before, before)
    names = [row.layer for row in trial.layers()]
    alone: dict[str, float] = {}
    for done, name in enumerate(names):
        step(f"searching, {done} of {count(len(names), 'layer')} tried")
        alone[name] = trial.quality(other for other in names if other != name)
    order = sorted(names, key=lambda name: alone[name])
    low, high, reached = 0, len(order), math.inf
    if (best := trial.quality(order)) < target:
        raise UsageError(
            f"{target:g} dB are not reached: with all layers that multiply in fp32 there are {best:.1f}",
            hint="give a lower target, or a table of a better method",
        )
    reached = best
    while high - low > 1:
        middle = (low + high) // 2
        step(f"searching, {count(middle, 'layer')} in fp32")
        found = trial.quality(order[:middle])
        if found >= target:
            high, reached = middle, found
        else:
            low = middle
    return Found(tuple(order[:high]), reached, before)
