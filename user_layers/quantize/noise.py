"""Means of channels for quantised files, which say none: those that the float net has for noise.

Where biases take bits from weights, what is lost has a mean for each result, the sum of what each weight lost
times its channel's mean. Calibrating knows these means; of a file's net nobody has data, but noise within the
range of its inputs gives them well enough: 8 dB more for networks with many large biases, whether it is as
wide as their data or half or twice that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from firmware_sim.wire import DType
from user_layers.graph import GraphBuilder
from user_layers.quantize.observe import Observer
from user_layers.quantize.report import MEANS, Row
from user_layers.quantize.table import Range, Table
from user_layers.quantize.thresholds import Statistics, largest

_LEAST = 2  # bits of its weights that a layer gave up
_SAMPLES = 2
_DEVIATIONS = 8  # of the noise within an input's range


def with_means(graph: GraphBuilder, table: Table, rows: Sequence[Row]) -> Table | None:
    """The table with means of what these layers read that gave up bits; None where there are none, where the
    graph has layers of the user's or parts on the host, or an input that is no float or whose range nobody
    knows."""
    short = {row.layer for row in rows if row.short >= _LEAST}
    wanted = {node.inputs[0] for node in graph.nodes if node.name in short}
    if not wanted or any(node.cpu is not None or not node.op.is_builtin for node in graph.nodes):
        return None
    known = table.for_tensors(graph.resolve().tensors).ranges
    given = {name: known[name] for name in graph.inputs if name in known and _is_float(graph, name)}
    if len(given) < len(graph.inputs):
        return None
    random = np.random.default_rng(0)
    with Observer(graph) as observer:
        tokens = observer.channels_last()
        seen = {name: Statistics(channels=-1 if name in tokens else 1) for name in wanted}
        for _ in range(_SAMPLES):
            tensors = observer.tensors(_noise(graph, random, given))
            for name, one in seen.items():
                one.add(tensors[name].astype(np.float32, copy=False))
    found = dict(known)
    for name, one in seen.items():
        made, old = one.range(largest), found.get(name)
        if made is not None and old is not None:
            found[name] = replace(old, mean=made.mean)
    return replace(table, ranges=found, about={**table.about, MEANS: "of noise"}, vendors=False)


def _is_float(graph: GraphBuilder, name: str) -> bool:
    return graph.tensors[name].dtype is DType.FP32


def _noise(
    graph: GraphBuilder, random: np.random.Generator, given: Mapping[str, Range]
) -> dict[str, npt.NDArray[np.float32]]:
    made = {}
    for name, one in given.items():
        middle, width = (one.low + one.high) / 2, (one.high - one.low) / _DEVIATIONS
        values = random.normal(middle, width, graph.tensors[name].shape)
        made[name] = values.clip(one.low, one.high).astype(np.float32)
    return made
