"""`tpulayer evaluate`."""

from __future__ import annotations

import json
import math
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import UsageError
from firmware_sim.shown import count
from firmware_sim.suggest import did_you_mean
from user_layers.evaluate.job import Job
from user_layers.evaluate.score import METRICS, Score, Sums
from user_layers.evaluate.search import search
from user_layers.evaluate.work import Worker, open_worker, score_batch
from user_layers.onnx.int8 import float_graph
from user_layers.onnx.load import Source
from user_layers.quantize.data import Batch, batches
from user_layers.quantize.rewrite import Int8
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    import onnx

    from user_layers.onnx.command import CompileOptions

_WORST = 10  # layers that are shown


@dataclass(frozen=True)
class EvaluateOptions:
    """The options of the command. metric: one of METRICS or FILE.py:FUNCTION; layers: compare every tensor;
    jobs: processes; model: where the float model is now."""

    folder: Path
    data: Path
    metric: str = "sqnr"
    layers: bool = False
    jobs: int = 1
    model: Path | None = None
    json: bool = False


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
    step("building the nets")
    score, begin = Score(), time.monotonic()
    for one in _scores(job, options, own):
        score.merge(one)
        rate = score.samples / (time.monotonic() - begin)
        step(f"evaluating, {count(score.samples, 'sample')}, {rate:.1f} a second")
    if options.json:
        say(json.dumps(as_json(score), indent=2))
    else:
        for line in lines(options, score):
            say(line)
    return score


def _scores(job: Job, options: EvaluateOptions, metric: str) -> Iterator[Score]:
    """Of each batch, in the order in which they are done."""
    if options.jobs == 1:
        with Worker(job, options.layers, metric) as worker:
            for batch in batches(options.data, worker.graph):
                yield worker.score(batch)
        return
    with Toolkit() as toolkit:
        given = batches(options.data, job.graph(toolkit))
        context = multiprocessing.get_context("spawn")  # a device's processes are not for a copy of this one
        with ProcessPoolExecutor(
            options.jobs, context, initializer=open_worker, initargs=(job, options.layers, metric)
        ) as pool:
            yield from _in_pool(pool, given, options.jobs)


def _in_pool(pool: ProcessPoolExecutor, given: Iterable[Batch], jobs: int) -> Iterator[Score]:
    """At most two batches for each process wait, so that large data does not fill the memory."""
    waiting: set[Future[Score]] = set()
    for batch in given:
        waiting.add(pool.submit(score_batch, batch))
        if len(waiting) >= 2 * jobs:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in done)
    yield from (one.result() for one in waiting)


def lines(options: EvaluateOptions, score: Score) -> Iterator[str]:
    """What people read."""
    yield f"{options.folder}: {count(score.samples, 'sample')}"
    if score.own:
        yield f"{options.metric}: {score.own_mean():.6g}"
    if options.metric == "top1":
        yield f"same greatest number as in float: {score.same / score.samples:.2%}"
        if score.labelled:
            yield (
                f"right: {score.int_right / score.labelled:.2%} in 8 bits, "
                f"{score.float_right / score.labelled:.2%} in float, of {score.labelled} labels"
            )
    for name, sums in score.outputs.items():
        yield f"{name}: {sums.sqnr:.1f} dB, cosine {sums.cosine:.6f}"
    if score.layers:
        yield "where the noise comes from (worst first; dB of signal over noise, cosine):"
        width = max(len(name) for name, _ in score.worst(_WORST))
        for name, sums in score.worst(_WORST):
            yield f"  {name:{width}} {sums.sqnr:7.1f} {sums.cosine:9.6f}"


def as_json(score: Score) -> dict[str, Any]:
    """What machines read."""

    def of(sums: Sums) -> dict[str, float | None]:
        return {"sqnr": sums.sqnr if math.isfinite(sums.sqnr) else None, "cosine": sums.cosine}

    return {
        "samples": score.samples,
        "same_top1": score.same / score.samples,
        "labelled": score.labelled,
        "top1_float": score.float_right / score.labelled if score.labelled else None,
        "top1_int8": score.int_right / score.labelled if score.labelled else None,
        "metric": score.own_mean() if score.own else None,
        "outputs": {name: of(sums) for name, sums in score.outputs.items()},
        "layers": {name: of(sums) for name, sums in score.layers.items()},
    }


def searched(
    options: CompileOptions,
    int8: Int8,
    data: Path,
    target: float,
    proto: Path | onnx.ModelProto,
    source: Source | None,
    step: Callable[[str], None],
) -> tuple[Int8, str]:
    """`compile --search`: what was asked for with the layers that stay in fp32, and a line about it. Errors:
    those of `search`."""
    source = source or Source.of(options.model)
    with float_graph(proto, source, options.shapes, options.custom) as graph:
        found = search(graph, int8, batches(data, graph), target, step)
    more = replace(int8.options, fp32=(*int8.options.fp32, *found.fp32))
    kept = f"--fp32 {','.join(found.fp32)}" if found.fp32 else "all layers in 8 bits"
    return replace(int8, options=more), f"{found.before:.1f} -> {found.reached:.1f} dB: {kept}"
