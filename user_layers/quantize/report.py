"""What became of every layer of a net that was quantised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firmware_sim.shown import brief, count
from user_layers.graph import GraphBuilder
from user_layers.net.net import Net
from user_layers.quantize.sites import Site

_MULTIPLYING = ("TPU_CONV", "TPU_DECONV", "TPU_MATMUL")


@dataclass(frozen=True)
class Row:
    """One layer of the float net. reason: why it stays in fp32, or None. detail: shift and scale. macs: how
    many products of numbers it adds up."""

    layer: str
    op: str
    output: str
    reason: str | None
    detail: str
    macs: int

    @staticmethod
    def of(net: Net, site: Site, reason: str | None, detail: str) -> Row:
        """Of a site and what became of it."""
        node = site.node
        macs = 0
        if node.op.op in _MULTIPLYING:
            weight = net.tensors[node.inputs[1]].shape
            out = math.prod(net.tensors[node.outputs[0]].shape)
            if node.op.op == "TPU_CONV":
                macs = out * math.prod(weight[1:])
            elif node.op.op == "TPU_DECONV":
                macs = math.prod(net.tensors[node.inputs[0]].shape) * math.prod(weight[1:])
            else:
                macs = out * net.tensors[node.inputs[0]].shape[-1 if not site.values["trans_a"] else -2]
        return Row(node.name, node.op.op, site.output, reason, detail, macs)


@dataclass(frozen=True)
class Quantised:
    """A graph in integers. rows: of the float net's layers; unused: names of the table that it does not
    have."""

    graph: GraphBuilder
    rows: Sequence[Row]
    unused: Sequence[str] = ()

    __repr__ = brief

    @property
    def share(self) -> float:
        """Of the products that the net adds up those in 8 bits, from 0 to 1."""
        whole = sum(row.macs for row in self.rows)
        return sum(row.macs for row in self.rows if row.reason is None) / whole if whole else 0.0

    def lines(self) -> list[str]:
        """For the log: how much is in 8 bits, and what is not, with the reason."""
        left = [row for row in self.rows if row.reason is not None]
        done, layers = len(self.rows) - len(left), count(len(self.rows), "layer")
        head = f"8 bits: {done} of {layers}, {self.share:.1%} of the MACs"
        reasons: dict[str, list[str]] = {}
        for row in left:
            reasons.setdefault(f"{row.op.removeprefix('TPU_')}: {row.reason}", []).append(row.layer)
        return [head, *(f"fp32: {what} ({_some(names)})" for what, names in reasons.items())]

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "share_of_macs": self.share,
            "layers": [
                {"layer": r.layer, "op": r.op, "output": r.output, "fp32": r.reason, "detail": r.detail}
                for r in self.rows
            ],
            "unused": list(self.unused),
        }


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
