"""Which layers stay in fp32 so that a net in integers is good enough: the worst ones, as few as serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from firmware_sim.errors import UsageError
from firmware_sim.shown import count
from user_layers.compiler.pipeline import compile_graph
from user_layers.evaluate.score import Score
from user_layers.graph import GraphBuilder
from user_layers.quantize.data import Batch
from user_layers.quantize.quality import Array
from user_layers.quantize.report import Row, outputs_in_float
from user_layers.quantize.rewrite import Int8, quantise, with_ranges
from user_layers.runtime.references import load_net

_BATCHES = 4  # of the data in which noise is measured; more change the order of layers little
_TOP1 = "top1"


@dataclass(frozen=True)
class Target:
    """What a net in integers shall reach. least: dB of signal over noise of its worst output; with top1 per
    cent of the samples for which the greatest number of its first output is the float net's."""

    least: float
    top1: bool = False

    @staticmethod
    def of(word: str) -> Target:
        """By the command's word: 40, or top1:99.5. Errors: UsageError."""
        metric, sign, number = word.rpartition(":")
        try:
            least = float(number)
        except ValueError:
            least = math.nan
        if (sign and metric != _TOP1) or not math.isfinite(least):
            raise UsageError(
                f"--search {word}: expected dB of signal over noise, or {_TOP1}: and per cent of the samples",
                hint=f"--search 30, or --search {_TOP1}:99.5",
            )
        if sign and not 0 < least <= 100:
            raise UsageError(
                f"--search {word}: per cent of the samples are above 0 and at most 100",
                hint=f"--search {_TOP1}:99.5",
            )
        return Target(least, bool(sign))

    def shown(self, reached: float) -> str:
        """A number of this measure, for people: rounded down where it is short of the target."""
        if not self.top1:
            return f"{reached:.1f}"
        return f"{math.floor(reached * 100 + 1e-6) / 100:.2f}"

    @property
    def unit(self) -> str:
        """Behind a number, for people."""
        return "% same top1 as in float" if self.top1 else "dB"


@dataclass(frozen=True)
class Found:
    """fp32: layers that stay in fp32, the worst first. reached: what the target measures; before: the same
    with all layers in integers. nothing: no layer that multiplies is in integers any more. samples: how many
    it was measured with."""

    fp32: tuple[str, ...]
    reached: float
    before: float
    nothing: bool = False
    samples: int = 0

    def line(self, target: Target) -> str:
        """For people: what was reached, and how."""
        kept = f"--fp32 {','.join(self.fp32)}" if self.fp32 else "all layers in 8 bits"
        of = f", {count(self.samples, 'sample')}" if target.top1 else ""
        line = f"{target.shown(self.before)} -> {target.shown(self.reached)} {target.unit}{of}: {kept}"
        if not self.nothing:
            return line
        return (
            f"{line}\nwarning: {target.least:g} {target.unit} cannot be reached in 8 bits: no layer that "
            "multiplies is in 8 bits any more; give a lower target, or a table of a better method"
        )


class _Trial:
    """Nets with some layers in fp32, beside the float net on the same samples."""

    def __init__(
        self, graph: GraphBuilder, int8: Int8, given: Callable[[], Iterable[Batch]], target: Target
    ) -> None:
        self._graph = graph
        self._int8 = int8
        self._given = given
        self._target = target
        self._few = list(islice(given(), _BATCHES))
        if not self._few:
            raise UsageError("no samples to search with", hint="--data names them")
        self._wanted = self._in_float(self._few, len(graph.outputs))
        self._first = self._in_float(given(), 1) if target.top1 else []
        if target.top1 and self._first[0][0][0].size < 2:
            raise UsageError(
                f"output {graph.outputs[0]!r} has one number for each sample, and no greatest one",
                hint="give the target in dB: --search 30",
            )
        self.samples = 0

    def layers(self) -> Sequence[Row]:
        """Those that multiply, in 8 bits if nobody objects."""
        options = self._int8.options
        rows = quantise(self._graph, self._int8.table, options).rows
        return [row for row in rows if row.macs and row.reason is None]

    def measured(self, fp32: Iterable[str]) -> float:
        """What the target measures, with these layers in fp32 too."""
        if not self._target.top1:
            return self.quality(fp32)
        score = self._score(fp32, self._given(), self._first)
        self.samples = score.samples
        return 100 * score.same / score.samples

    def quality(self, fp32: Iterable[str]) -> float:
        """dB of the worst output with these layers in fp32 too, on the first batches."""
        score = self._score(fp32, self._few, self._wanted)
        if any(one.odd for one in score.outputs.values()):
            raise UsageError(
                "NaN or infinities come out for these samples, and their noise cannot be measured",
                hint="give --data that the net is for",
            )
        return min(one.sqnr for one in score.outputs.values())

    def _in_float(self, given: Iterable[Batch], outputs: int) -> list[list[Array]]:
        """The first outputs of the float net for each batch."""
        plain = with_ranges(self._graph, self._int8.table)
        with load_net(compile_graph(plain, opt=0), self._graph.toolkit) as runtime:
            return [
                outputs_in_float(plain, runtime.launch(plain.name, dict(batch.inputs)))[:outputs]
                for batch in given
            ]

    def _score(self, fp32: Iterable[str], given: Iterable[Batch], wanted: Sequence[Sequence[Array]]) -> Score:
        """Of those outputs of which it is known what they are in float."""
        options = replace(self._int8.options, fp32=(*self._int8.options.fp32, *fp32))
        done = quantise(self._graph, self._int8.table, options)
        score = Score()
        with load_net(compile_graph(done.graph, opt=0), self._graph.toolkit) as runtime:
            for batch, want in zip(given, wanted, strict=True):
                made = done.given(runtime.launch(done.graph.name, done.fed(batch.inputs)))
                score.add(self._named(want, batch), self._named(made, batch), None)
        return score

    def _named(self, outputs: Sequence[Array], batch: Batch) -> dict[str, Array]:
        """Of the samples that count, by name; there may be the first outputs alone."""
        return {name: one[: batch.count] for name, one in zip(self._graph.outputs, outputs, strict=False)}


def search(
    graph: GraphBuilder,
    int8: Int8,
    given: Callable[[], Iterable[Batch]],
    target: Target,
    step: Callable[[str], None] = lambda _: None,
) -> Found:
    """Layers to be kept in fp32 so that the net reaches the target: each output on the first four batches of
    these samples, or the first output on all of them. given: gives the samples, each time it is called.

    Each layer that multiplies is tried in integers alone, on the first batches; the worst ones go to fp32, as
    few of them as reach the target. Errors: UsageError where not even all of them do, without samples, and
    for numbers that cannot be measured.
    """
    trial = _Trial(graph, int8, given, target)
    before = trial.measured(())
    if before >= target.least:
        return Found((), before, before, samples=trial.samples)
    names = [row.layer for row in trial.layers()]
    alone: dict[str, float] = {}
    for done, name in enumerate(names):
        step(f"searching, {done} of {count(len(names), 'layer')} tried")
        alone[name] = trial.quality(other for other in names if other != name)
    order = sorted(names, key=lambda name: alone[name])
    low, high = 0, len(order)
    if (reached := trial.measured(order)) < target.least:
        raise UsageError(
            f"{target.least:g} {target.unit} are not reached: with all layers that multiply in fp32 it is "
            f"{target.shown(reached)}",
            hint="give a lower target, or a table of a better method",
        )
    while high - low > 1:
        middle = (low + high) // 2
        step(f"searching, {count(middle, 'layer')} in fp32")
        found = trial.measured(order[:middle])
        if found >= target.least:
            high, reached = middle, found
        else:
            low = middle
    return Found(tuple(order[:high]), reached, before, high == len(order), trial.samples)
