"""What weights of 8 bits keep of attention's results, which no range of a tensor says.

Weights are e^x beside the largest one of their row in 255 steps. Where one key has most of a row and little
value, as trained transformers have a place for what no token wants, the others are below half a step, and
nothing of the result is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from user_layers.graph import GraphBuilder
from user_layers.net.heads import head_channels
from user_layers.net.nodes import LayerNode

SUMMED = 256
"""Keys whose products' sum is shifted to 16 bits; more are parts, which are added in fp32."""
LEAST = 25.0
"""dB of signal over noise of results that are computed in 8 bits."""
_QUERIES = 256  # of a head that are looked at
_STEPS = 255
_SHIFT = 256.0  # by what such a sum is divided
_LARGEST = 127

F64 = npt.NDArray[np.float64]


class Attended:
    """Sums over the samples, by the names of results."""

    def __init__(self, graph: GraphBuilder) -> None:
        self._graph = graph
        self._layers = [
            (node, values)
            for node in graph.nodes
            if node.cpu is None
            and node.op.op == "TPU_ATTENTION"
            and not (values := graph.toolkit.param_values(node.op, node.param))["mixed"]
        ]
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Look at every tensor of a run."""
        for node, values in self._layers:
            operands = [self._array(tensors, name) for name in node.inputs]
            if any(one is None or not np.isfinite(one).all() for one in operands[:3]):
                continue
            signal, noise = self._sums.get(node.outputs[0], (0.0, 0.0))
            for exact, kept in _heads(node, values, [one for one in operands if one is not None]):
                signal += float((exact**2).sum())
                noise += float(((kept - exact) ** 2).sum())
            self._sums[node.outputs[0]] = signal, noise

    def kept(self) -> dict[str, float]:
        """dB of each result."""
        return {
            name: 10 * float(np.log10(max(signal, 1e-300) / max(noise, signal * 1e-12, 1e-300)))
            for name, (signal, noise) in self._sums.items()
        }

    def _array(self, tensors: Mapping[str, npt.NDArray[Any]], name: str) -> F64 | None:
        found = tensors.get(name)
        if found is None:
            one = self._graph.tensors[name]
            if one.data is None:
                return None
            found = np.frombuffer(one.data, one.dtype.numpy_name).reshape(one.shape)
        return found.astype(np.float64)


def _heads(node: LayerNode, values: Mapping[str, Any], operands: list[F64]) -> list[tuple[F64, F64]]:
    """The result of each head of the first batch, and the same with weights of 8 bits."""
    query, key, value = (_apart(operands[i], values, i) for i in range(3))
    mask = None if len(operands) < 4 else np.atleast_2d(operands[3])
    unit = max(float(np.abs(value).max(initial=0.0)) / _LARGEST, 1e-300)
    found = []
    for head in range(values["heads"]):
        own = head // max(values["shared"], 1)
        factor = values["scale"] * (values["scales"][head] if values["scaled"] else 1.0)
        every = -(-query.shape[1] // _QUERIES)
        scores = query[head, ::every] @ key[own].T * factor
        if mask is not None:
            lead = mask[0] if mask.ndim == 4 else mask
            part = lead[min(head, len(lead) - 1)] if lead.ndim == 3 else lead
            scores = scores + (part[::every] if len(part) > 1 else part)
        with np.errstate(all="ignore"):
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        powers = np.nan_to_num(powers)
        total = np.maximum(powers.sum(axis=1, keepdims=True), 1e-300)
        weights, integers = np.rint(powers * _STEPS), np.rint(value[own] / unit)
        sums = np.zeros((len(scores), value.shape[2]))
        for at in range(0, len(integers), SUMMED):
            some = slice(at, at + SUMMED)
            sums += np.floor(weights[:, some] @ integers[some] / _SHIFT + 0.5)
        found.append((powers @ value[own] / total, sums * (_SHIFT / _STEPS * unit) / total))
    return found


def _apart(x: F64, values: Mapping[str, Any], operand: int) -> F64:
    """[heads, tokens, size] of the first batch."""
    apart: F64 = x[0] if x.ndim == 4 else x[0][:, head_channels(values, operand)].swapaxes(0, 1)
    return apart
