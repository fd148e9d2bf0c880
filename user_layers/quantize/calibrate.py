"""Ranges of all tensors of a graph, from inputs that it is run with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.errors import UsageError
from user_layers.graph import GraphBuilder
from user_layers.quantize.attended import Attended
from user_layers.quantize.observe import Observer
from user_layers.quantize.report import some
from user_layers.quantize.table import MOST, Table
from user_layers.quantize.thresholds import Statistics, method_of

_ATTENDED = 4  # runs whose attention is looked at


def calibrate(
    graph: GraphBuilder,
    inputs: Iterable[Mapping[str, Any]],
    method: str = "mse",
    step: Callable[[int], None] = lambda _: None,
) -> Table:
    """The calibration table of a float graph.

    inputs: arrays by the names of the net's inputs, one mapping for each run. method: "minmax", "percentile"
    (99.99), "mse" or "entropy". step: gets the number of runs that are done. Tensors that hold nothing but
    zeros, or numbers too large for one, are left out: they have no scale. The table's `about` names those
    that held NaN or infinities, which count for nothing. Errors: UsageError without inputs, or where all
    tensors are left out; those of compiling and running.
    """
    chosen = method_of(method)
    seen: dict[str, Statistics] = {}
    runs = 0
    attended = Attended(graph)
    with Observer(graph) as observer:
        tokens = observer.channels_last()
        for given in inputs:
            tensors = observer.tensors(given)
            if runs < _ATTENDED:
                attended.add(tensors)
            for name, values in tensors.items():
                if values.dtype == np.float32:
                    one = seen.setdefault(name, Statistics(channels=-1 if name in tokens else 1))
                    one.add(values.astype(np.float32, copy=False))
            runs += 1
            step(runs)
    if runs == 0:
        raise UsageError(
            "no inputs to calibrate with", hint="give data of which the net's inputs can be made"
        )
    ranges = {name: one.range(chosen) for name, one in seen.items()}
    found = {name: one for name, one in ranges.items() if one is not None}
    if not found:
        large = [name for name, one in seen.items() if one.too_large]
        beyond = f", or numbers of {MOST:g} and more ({some(large)})" if large else ""
        raise UsageError(
            f"all tensors held nothing but zeros, NaN or infinities{beyond}",
            hint="give data like what the net is for",
        )
    for name, kept in attended.kept().items():
        if name in found:
            found[name] = replace(found[name], attention=kept)
    about: dict[str, Any] = {"net": graph.name, "method": method, "runs": runs}
    if odd := [name for name, one in seen.items() if one.odd]:
        about["not_finite"] = odd
    return Table(found, about)
