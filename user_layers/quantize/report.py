"""What became of every layer of a net that was quantised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from firmware_sim.shown import brief, count
from firmware_sim.wire import Format
from user_layers.graph import GraphBuilder
from user_layers.net.net import Net
from user_layers.net.products import products
from user_layers.quantize.sites import Site
from user_layers.quantize.table import Table

Array = npt.NDArray[Any]
MEANS = "means"
"""Of what a table with means of something else than data is about."""
G = TypeVar("G", bound=GraphBuilder)


@dataclass(frozen=True)
class Row:
    """One layer of the float net. reason: why it stays in fp32, or None. detail: shift and scale. macs: how
    many products of numbers it adds up. short: bits of its weights that were given up for its bias."""

    layer: str
    op: str
    output: str
    reason: str | None
    detail: str
    macs: int
    short: int = 0

    @staticmethod
    def of(net: Net, site: Site, reason: str | None, detail: str, short: int = 0) -> Row:
        """Of a site and what became of it."""
        node = site.node
        if node.cpu is not None or not node.op.is_builtin:
            macs = 0
        elif node.op.op in ("TPU_CONV", "TPU_CONV3D"):
            macs = math.prod(net.tensors[site.output].shape) * math.prod(
                net.tensors[node.inputs[1]].shape[1:]
            )
        else:
            macs = products(net, node)
        return Row(node.name, node.op.op, site.output, reason, detail, macs, short)


@dataclass(frozen=True)
class Quantised(Generic[G]):
    """A graph in integers. rows: of the float net's layers; table: what it was made with, by the names of
    the float net's tensors; integers: of those of them that are integers here their names and scales;
    second: those of these that have their channels, which are last in the float net, second here; factors:
    what channels (dimension 1) of some are divided by here; note: for the log, or nothing; choices: as of
    `Rewriting`."""

    graph: G
    rows: Sequence[Row]
    table: Table = field(default_factory=lambda: Table({}))
    integers: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    second: frozenset[str] = frozenset()
    factors: Mapping[str, Array] = field(default_factory=dict)
    note: str = ""
    choices: Mapping[str, bool] = field(default_factory=dict)

    __repr__ = brief

    @property
    def share(self) -> float:
        """Of the products that the net adds up those in 8 bits, from 0 to 1."""
        whole = sum(row.macs for row in self.rows)
        return sum(row.macs for row in self.rows if row.reason is None) / whole if whole else 0.0

    @property
    def nothing(self) -> bool:
        """Whether no layer is in 8 bits."""
        return all(row.reason is not None for row in self.rows)

    def _nothing(self) -> str:
        """That this is so, and what to do where the table is the reason."""
        made = [row.output for row in self.rows]
        known = len(self.table.for_tensors(made).ranges.keys() & made)
        if known == len(made):
            return "warning: nothing is in 8 bits: each layer stays in fp32, for the reasons below"
        return (
            f"warning: nothing is in 8 bits: ranges are known of {known} of the {count(len(made), 'tensor')} "
            "that layers make (is it a table of another net?); `tpulayer calibrate` makes one of this model"
        )

    def fed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs of the float net as this one takes them: those in integers divided by their scale, rounded
        to the nearest (ties to even) and limited to the type."""
        found = dict(inputs)
        for name in self.graph.inputs:
            tensor = self.graph.tensors[name]
            if tensor.scale and name in found and found[name].dtype == np.float32:
                found[name] = in_integers(found[name], tensor.format)
        return found

    def scales(self) -> dict[str, float]:
        """Scales with which int8 ends where this net's integers do, by the float net's names of tensors: for
        layers that take integers of it while it is in float."""
        tensors = self.graph.resolve().tensors
        largest = {
            name: np.iinfo(tensors[own].dtype.numpy_name).max for name, (own, _) in self.integers.items()
        }
        return {name: scale * largest[name] / 127 for name, (_, scale) in self.integers.items()}

    def given(self, outputs: Sequence[Array]) -> list[Array]:
        """Outputs of this net as those of the float one: integers times their scale."""
        return outputs_in_float(self.graph, outputs)

    def as_in_float(self, name: str, values: Array, shape: Sequence[int]) -> Array:
        """A tensor of the float net, which has it in this shape, of what this net has: with channels where
        they are there, and as large."""
        if name in self.second:
            return np.moveaxis(values, 1, -1).reshape(shape)
        if name not in self.factors:
            return values
        by = self.factors[name].reshape(1, -1, *[1] * (values.ndim - 2))
        return values * by.astype(np.float32)

    def lines(self) -> list[str]:
        """For the log: how much is in 8 bits, and what is not, with the reason."""
        left = [row for row in self.rows if row.reason is not None]
        done, layers = len(self.rows) - len(left), count(len(self.rows), "layer")
        head = f"8 bits: {done} of {layers}, {self.share:.1%} of the MACs"
        reasons: dict[str, list[str]] = {}
        for row in left:
            reasons.setdefault(f"{row.op.removeprefix('TPU_')}: {row.reason}", []).append(row.layer)
        notes = [self._nothing()] if self.nothing else []
        notes += [*self._doubts(), *([self.note] if self.note else [])]
        short = [row for row in self.rows if row.short]
        means = any(one.mean for one in self.table.ranges.values())
        if short and (not means or MEANS in self.table.about):
            instead = (
                f"means {self.table.about[MEANS]} make up for some of that; those " if means else "means "
            )
            notes.append(
                f"weights of {count(len(short), 'layer')} gave up bits for large biases, at most "
                f"{max(row.short for row in short)} ({some([row.layer for row in short])}): {instead}"
                "that `tpulayer calibrate` finds make up for most"
            )
        return [head, *notes, *(f"fp32: {what} ({some(names)})" for what, names in reasons.items())]

    def _doubts(self) -> list[str]:
        """Lines about thresholds of the net's tensors that no calibration finds."""
        used = {*self.integers, *(row.output for row in self.rows), *self.graph.inputs}
        odd = {name: one for name, one in self.table.ranges.items() if name in used and one.doubtful}
        if not odd:
            return []
        name, one = next(iter(odd.items()))
        many = f" (and {len(odd) - 1} more: {some([*odd][1:])})" if len(odd) > 1 else ""
        what = "all is cut" if one.threshold < one.largest else "few integers or none stand for them"
        return [
            f"warning: the table's threshold of {name!r} is {one.threshold:g}, and its values reach "
            f"{one.largest:g}: {what}{many}; calibrate again, or mend the line"
        ]


def in_integers(array: Array, form: Format) -> Array:
    """Numbers as integers that stand for them, the nearest (ties to even) within the type."""
    ends = np.iinfo(form.dtype.numpy_name)
    steps = np.rint(array.astype(np.float64) / form.scale)
    found: Array = np.clip(steps, ends.min, ends.max).astype(form.dtype.numpy_name)
    return found


def in_float(array: Array, form: Format) -> Array:
    """Integers that stand for other numbers as those; all else as it is."""
    return array.astype(np.float32) * np.float32(form.scale) if form.quantised else array


def outputs_in_float(graph: GraphBuilder, outputs: Sequence[Array]) -> list[Array]:
    """A net's outputs, those in integers times their scale."""
    tensors = graph.resolve().tensors
    return [in_float(array, tensors[name].format) for name, array in zip(graph.outputs, outputs, strict=True)]


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
