"""`tpulayer evaluate`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import UsageError
from firmware_sim.shown import count
from firmware_sim.suggest import did_you_mean
from user_layers.cases.hand_out import Where, hand_out
from user_layers.evaluate.job import Job
from user_layers.evaluate.score import METRICS, Score
from user_layers.evaluate.search import Target, search
from user_layers.evaluate.work import worker, worker_anywhere
from user_layers.onnx.int8 import opened
from user_layers.onnx.load import Source
from user_layers.quantize.data import batches, samples_in
from user_layers.quantize.pictures import Preprocess, Words
from user_layers.quantize.quality import Sums
from user_layers.quantize.report import some
from user_layers.quantize.rewrite import Int8
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    import onnx

    from user_layers.onnx.command import CompileOptions

_WORST = 10  # layers that are shown


@dataclass(frozen=True)
class EvaluateOptions:
    """The options of the command. metric: one of METRICS or FILE.py:FUNCTION; layers: compare every tensor;
    where: who works; model: where the float model is now; pictures: what was said of them, which the folder
    may know."""

    folder: Path
    data: Path
    metric: str = "sqnr"
    layers: bool = False
    where: Where = field(default_factory=Where)
    model: Path | None = None
    json: bool = False
    pictures: Words = field(default_factory=Words)


def run_evaluate(
    options: EvaluateOptions, say: Callable[[str], None], step: Callable[[str], None] = lambda _: None
) -> Score:
    """Run both nets on all samples, and say how near they are. Errors: UsageError for what does not fit,
    those of building and running."""
    own = "" if options.metric in METRICS else options.metric
    if own and ":" not in own:
        raise UsageError(
            f"no metric {own!r}{did_you_mean(own, METRICS)}",
            hint=f"the metrics are {', '.join(METRICS)} and FILE.py:FUNCTION",
        )
    job = Job.of(options.folder, options.model)
    pictures = options.pictures.told(job.record.pictures, str(options.folder))
    step("building the nets")
    score, begin, all_ = Score(), time.monotonic(), samples_in(options.data)
    of = f" of {all_}" if all_ is not None else ""
    for one in _scores(job, options, own, pictures):
        score.merge(one)
        rate = score.samples / (time.monotonic() - begin)
        step(f"evaluating, {score.samples}{of} samples, {rate:.1f} a second")
    if options.json:
        say(json.dumps(as_json(score), indent=2))
    else:
        for line in lines(options, score):
            say(line)
    return score


def _scores(job: Job, options: EvaluateOptions, metric: str, pictures: Preprocess | None) -> Iterator[Score]:
    """Of each batch."""
    with Toolkit(check="off") as toolkit:
        given = batches(options.data, job.input_shapes(toolkit), pictures)
        if options.where.dask:
            yield from hand_out(worker_anywhere, (job.packed(metric), options.layers), given, options.where)
        else:
            yield from hand_out(worker, (job, options.layers, metric), given, options.where)


def lines(options: EvaluateOptions, score: Score) -> Iterator[str]:
    """What people read."""
    yield f"{options.folder}: {count(score.samples, 'sample')}"
    if score.own:
        yield f"{options.metric}: {score.own_mean():.6g}"
    if options.metric == "top1":
        yield f"same greatest number as in float: {score.same / score.samples:.2%}"
        if score.confused:
            pairs = (f"{a} as {b} ({many})" for (a, b), many in score.confused.most_common(_WORST))
            yield f"confused most, in float as in 8 bits (how often): {', '.join(pairs)}"
        if score.labelled:
            yield (
                f"right: {score.int_right / score.labelled:.2%} in 8 bits, "
                f"{score.float_right / score.labelled:.2%} in float, of {score.labelled} labels"
            )
        else:
            yield "how many are right is not known: the samples have no labels"
    for name, sums in score.outputs.items():
        yield f"{name}: {sums.sqnr:.1f} dB, cosine {sums.cosine:.6f}{sums.left_out}"
    if score.layers:
        yield "where the noise comes from (worst first; dB of signal over noise, cosine):"
        width = max(len(name) for name, _ in score.worst(_WORST))
        for name, sums in score.worst(_WORST):
            yield f"  {name:{width}} {sums.sqnr:7.1f} {sums.cosine:9.6f}{sums.left_out}{sums.why}"
    if score.inside:
        yield f"not compared, inside of 8-bit layers or no floats: {some(list(score.inside))}"


def as_json(score: Score) -> dict[str, Any]:
    """What machines read."""

    def of(sums: Sums) -> dict[str, float | None]:
        sqnr, cosine = (x if math.isfinite(x) else None for x in (sums.sqnr, sums.cosine))
        return {"sqnr": sqnr, "cosine": cosine, "not_finite": sums.odd}

    def parts(sums: Sums) -> dict[str, float]:
        return dict(zip(("noise_beyond_range", "noise_became_0"), sums.parts, strict=True))

    return {
        "samples": score.samples,
        "same_top1": score.same / score.samples,
        "confused": [[*pair, many] for pair, many in score.confused.most_common()],
        "labelled": score.labelled,
        "top1_float": score.float_right / score.labelled if score.labelled else None,
        "top1_int8": score.int_right / score.labelled if score.labelled else None,
        "metric": score.own_mean() if score.own else None,
        "outputs": {name: of(sums) for name, sums in score.outputs.items()},
        "layers": {name: of(sums) | parts(sums) for name, sums in score.layers.items()},
        "not_compared": list(score.inside),
    }


def searched(
    options: CompileOptions,
    int8: Int8,
    data: Path,
    target: Target,
    proto: Path | onnx.ModelProto,
    source: Source | None,
    step: Callable[[str], None],
) -> tuple[Int8, str]:
    """`compile --search`: what was asked for with the layers that stay in fp32, and what to tell of it.
    Errors: those of `search`."""
    source = source or Source.of(options.model)
    with opened(proto, source, options.shapes, options.custom, int8=int8) as built:
        graph, done = built.floats, built.quantised
        assert done is not None
        whole = replace(int8, table=done.table)  # with the ranges of a quantised file
        found = search(graph, whole, lambda: batches(data, graph.input_shapes, source.pictures), target, step)
    more = replace(int8.options, fp32=(*int8.options.fp32, *found.fp32))
    return replace(int8, options=more), found.line(target)
