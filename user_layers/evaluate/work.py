"""One process's part of the work: both nets loaded once, batch after batch through them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import UsageError
from firmware_sim.wire import DType
from user_layers.bmodel.directory import BMODEL, QUANTISED
from user_layers.compiler.pipeline import compile_graph
from user_layers.evaluate.job import Job, Packed
from user_layers.evaluate.score import Score, no_classes
from user_layers.onnx.custom import load_function
from user_layers.quantize.data import Batch
from user_layers.quantize.observe import Observer
from user_layers.quantize.quality import Sums
from user_layers.quantize.report import outputs_in_float
from user_layers.quantize.rewrite import quantise, with_ranges
from user_layers.runtime import BModelRuntime
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

Array = npt.NDArray[Any]
Metric = Callable[[Mapping[str, Array], Mapping[str, Array], Array | None], float]
"""A user's measure: the float net's outputs, the integer one's, labels or None -> a number for the batch."""


class Worker:
    """Both nets on one device; a context manager.

    layers: also compare every tensor. metric: FILE.py:FUNCTION of a user's measure, or nothing.
    """

    def __init__(self, job: Job, layers: bool, metric: str = "") -> None:
        self._toolkit = Toolkit(
            check="off"
        )  # what compiles is checked; of unused slots of 4N it costs minutes
        try:
            own = job.record.int8
            given = job.graph(self._toolkit)
            self._done = quantise(given, own.table, own.options)
            self._tensors = self._done.graph.resolve().tensors
            # Layers of the user's that take integers get them cut where those of the other net are.
            self.graph = with_ranges(given.with_scales(self._done.scales()), own.table)
            self._metric: Metric | None = load_function(metric, "--metric") if metric else None
            self._float = load_net(compile_graph(self.graph), self._toolkit)
            self._integers = BModelRuntime(self._toolkit.device)
            self._name = self._loaded(job.folder / BMODEL)
            self._observers = (Observer(self.graph), Observer(self._done.graph)) if layers else None
        except BaseException:
            self._toolkit.close()
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._toolkit.close()

    def score(self, batch: Batch) -> Score:
        """What one batch adds."""
        fed = self._done.fed(batch.inputs)
        name = self.graph.name
        plain = outputs_in_float(self.graph, self._float.launch(name, dict(batch.inputs)))
        want = self._named(plain, batch.count)
        made = self._integers.launch(self._name, fed)
        got = self._named(self._done.given(made), batch.count)
        score = Score()
        score.add(want, got, self._classes(want, batch.labels))
        if self._metric is not None:
            score.own.append((self._measured(want, got, batch.labels), batch.count))
        if self._observers is not None:
            wanted, found = self._observers[0].tensors(batch.inputs), self._observers[1].tensors(fed)
            score.layers = dict(self._compared(wanted, found))
            made_there = (name for node in self.graph.nodes for name in node.outputs)
            score.inside = dict.fromkeys(name for name in made_there if name not in score.layers)
        return score

    def _loaded(self, bmodel: Path) -> str:
        """The name of the net in integers. Errors: UsageError where the file is not that of this record."""
        self._integers.load(bmodel)
        (net, *more), graph = self._integers.networks, self._done.graph
        tensors = graph.resolve().tensors
        made = [(tensors[name].shape, np.float32(tensors[name].format.scale or 1)) for name in graph.outputs]
        there = [
            (shape, np.float32(tensor.scale))
            for shape, tensor in zip(net.stages[0].output_shapes, net.outputs, strict=True)
        ]
        given = tuple(tensors[name].shape for name in graph.inputs)
        if more or there != made or net.stages[0].input_shapes != given:
            raise UsageError(
                f"{bmodel} is not the net that {QUANTISED} beside it describes",
                hint="compile the model again",
            )
        return net.name

    def _classes(self, want: Mapping[str, Array], labels: Array | None) -> Array | None:
        """Labels that can be the place of the greatest number; those of a user's metric may be anything."""
        first = next(iter(want.values()))
        if labels is None or self._metric is None or not no_classes(labels, first[0].size):
            return labels
        return None

    def _named(self, outputs: Sequence[Array], count: int) -> dict[str, Array]:
        """Outputs of the samples that count, by their names."""
        return {name: array[:count] for name, array in zip(self.graph.outputs, outputs, strict=True)}

    def _measured(self, want: Mapping[str, Array], got: Mapping[str, Array], labels: Array | None) -> float:
        assert self._metric is not None
        try:
            found = float(self._metric(want, got, labels))
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"the metric failed: {type(error).__name__}: {error}",
                hint="it gets the float net's outputs by name, those in integers, labels or None",
            ) from error
        if not math.isfinite(found):
            raise UsageError(
                f"the metric gave {found} for a batch, and a mean with it says nothing",
                hint="give a number for whatever comes; the result is the mean over all samples",
            )
        return found

    def _compared(
        self, wanted: Mapping[str, Array], found: Mapping[str, Array]
    ) -> Iterator[tuple[str, Sums]]:
        """What the layers make, in the order in which the float net makes it."""
        done = self._done
        for node in self.graph.nodes:
            for name in node.outputs:
                own, _ = self._done.integers.get(name, (name, 0.0))
                if own not in found or wanted[name].dtype != np.float32:
                    continue
                sums, shape, form = Sums(), wanted[name].shape, self._tensors[own].format
                masks: tuple[Array, ...] = ()
                if form.quantised and form.dtype in (DType.INT8, DType.UINT8):
                    ends, raw = np.iinfo(form.dtype.numpy_name), np.rint(found[own] / form.scale)
                    masks = ((raw <= ends.min) & (raw != 0)) | (raw >= ends.max), raw == 0
                came = (found[own], *(one.astype(np.float32) for one in masks))
                sums.add(wanted[name], *(done.as_in_float(name, one, shape) for one in came))
                yield name, sums


@contextmanager
def worker(job: Job, layers: bool, metric: str) -> Iterator[Callable[[Batch], Score]]:
    """What scores batches, for a process on this machine."""
    with Worker(job, layers, metric) as made:
        yield made.score


@contextmanager
def worker_anywhere(packed: Packed, layers: bool) -> Iterator[Callable[[Batch], Score]]:
    """The same on a machine that has none of the files."""
    with packed.unpacked() as (job, metric), Worker(job, layers, metric) as made:
        yield made.score
