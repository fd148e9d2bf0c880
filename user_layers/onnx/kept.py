"""What of a quantised file's own integers the chip cannot keep, for the log and the report.

Weights have one scale for each channel in most files, and here one for all: channels whose scale is smaller
have fewer bits. Ranges that are not symmetric, which zero points other than 0 make, are widened to the larger
side, and weights with zero points as well. What costs nothing to speak of is not told.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firmware_sim.shown import count
from user_layers.onnx.build import Built
from user_layers.onnx.kinds import TURNING
from user_layers.onnx.model import STANDARD, Array, Model, Node, shown
from user_layers.onnx.quantised import dequantised
from user_layers.quantize.report import Row, some

_PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
_INTEGERS = ("QLinearConv", "QLinearMatMul", "QGemm")  # the weights and what belongs to them are 3 to 5
_EDGES = ("QuantizeLinear", "DequantizeLinear")
_LARGEST = 127
_LEAST = 0.05  # bits


@dataclass(frozen=True)
class _Weights:
    """Constant integers of a product, what their scales are, and along which axis."""

    reader: Node
    name: str
    integers: Array
    steps: Array
    points: Array
    axis: int

    @property
    def lost(self) -> tuple[float, int, bool]:
        """Bits that the worst channel loses on one scale for all, which channel that is, and whether zero
        points are a reason."""
        sizes = np.abs(dequantised(self.integers, self.steps, self.points, self.axis)).astype(np.float64)
        top, steps = float(sizes.max(initial=0.0)), np.abs(self.steps.reshape(-1).astype(np.float64))
        others = tuple(d for d in range(sizes.ndim) if d != self.axis % sizes.ndim)
        alive = sizes.max(others) > 0 if steps.size > 1 else np.array([top > 0])
        if not alive.any():
            return 0.0, 0, False
        bits = np.log2(top / _LARGEST / np.where(alive, steps, np.inf), where=alive, out=np.zeros(len(steps)))
        worst = int(np.argmax(bits))
        return float(bits[worst]), worst, bool(np.any(self.points))


def not_kept(model: Model, built: Built) -> tuple[list[str], list[str]]:
    """Lines for the log (at most one), and those for the report that name every layer and tensor of a file
    whose own scales are all that is known. model: as it was read, with mapped nodes marked."""
    done = built.quantised
    if done is None:
        return [], []
    hosted = {name for part in built.parts if part.on_cpu for node in part.nodes for name in node.makes}
    weights: dict[str, float] = {}
    lines = []
    for one in _weights(model):
        bits, channel, uneven = one.lost
        if bits < _LEAST or hosted.intersection(_names(one.reader)) or _in_fp32(model, one.reader, done.rows):
            continue
        weights[one.reader.name or one.reader.makes[0]] = bits
        scales = f"{one.steps.size} scales on one" if one.steps.size > 1 else "one scale"
        why = " without zero points" if uneven else ""
        where = f", most in channel {channel}" if one.steps.size > 1 else ""
        lines.append(
            f"{one.reader.title}: weights {shown(one.name)}, {scales}{why}: {_bits(bits)} lost{where}"
        )
    ranges: dict[str, float] = {}
    edges = _edges(model)
    for name in done.integers:
        known = done.table.ranges.get(name)
        source = edges.get(name.removesuffix(":whole"))
        if known is None or not known.low < 0 or source is None:
            continue
        bits = math.log2(2 * known.threshold / (known.high - known.low))
        if bits >= _LEAST and source not in ranges:
            ranges[source] = bits
            ends = f"{known.low:.4g} to {known.high:.4g} by its zero point"
            lines.append(
                f"tensor {shown(source)}: {ends}, {-known.threshold:.4g} to {known.threshold:.4g} here: "
                f"{_bits(bits)} lost"
            )
    told = []
    if weights:
        told.append(
            f"weights of {count(len(weights), 'layer')} are on one scale for all channels, which costs up to "
            f"{_bits(max(weights.values()))} ({some(_worst_first(weights))})"
        )
    if ranges:
        told.append(
            f"ranges of {count(len(ranges), 'tensor')} are made symmetric for want of zero points, which "
            f"costs up to {_bits(max(ranges.values()))} ({some(_worst_first(ranges))})"
        )
    return ["not kept of the file's integers: " + "; ".join(told)] if told else [], lines


def _weights(model: Model) -> Iterator[_Weights]:
    """Of all products."""

    def found(reader: Node, names: Sequence[str], axis: int) -> Iterator[_Weights]:
        name, scale, zero = names
        integers, steps = model.constants.get(name), model.constants.get(scale)
        points = model.constants.get(zero) if zero else np.zeros((), np.int8)
        if integers is None or steps is None or points is None or integers.dtype.itemsize != 1:
            return
        if steps.ndim < 2 and integers.size and (steps.size == 1 or -integers.ndim <= axis < integers.ndim):
            yield _Weights(reader, name, integers, steps, points, axis)

    for node in model.nodes:
        operands = (*node.inputs, "", "", "", "", "")
        if node.is_own:
            continue
        if node.op == "DequantizeLinear" and not node.attributes.get("block_size", 0):
            for reader in _readers(model, node.outputs[0]):
                yield from found(reader, operands[:3], node.attributes.get("axis", 1))
        elif node.op in _INTEGERS:
            axis = {"QLinearConv": 0, "QLinearMatMul": -1}.get(
                node.op, 0 if node.attributes.get("transB") else 1
            )
            yield from found(node, operands[3:6], axis)


def _readers(model: Model, name: str) -> Iterator[Node]:
    """The products that read a tensor, as it is or turned."""
    for node in model.consumers.get(name, ()):
        if node.is_a(*TURNING):
            yield from _readers(model, node.outputs[0])
        elif node.is_a(*_PRODUCTS):
            yield node


def _names(node: Node) -> Collection[str]:
    """What a node makes, also before its range cuts it."""
    return {*node.makes, *(f"{name}:whole" for name in node.makes)}


def _in_fp32(model: Model, node: Node, rows: Sequence[Row]) -> bool:
    """Whether the layers that stand for a product are all fp32: they have its name, or make what it, or what
    alone reads it, makes."""
    made = set(_names(node))
    last = model.only_reader(node.outputs[0])
    while last is not None and last.is_a(*_EDGES, "Relu", "Clip"):
        made.update(_names(last))
        last = model.only_reader(last.outputs[0])
    own = [row for row in rows if row.output in made or row.layer.partition(":")[0] == (node.name or None)]
    return bool(own) and all(row.reason is not None for row in own)


def _edges(model: Model) -> Mapping[str, str]:
    """The tensors for which the file has a scale, and the first of those that are the same in integers or as
    what these stand for."""
    found: dict[str, str] = {}
    for node in model.nodes:
        if node.op in _EDGES and not node.is_own:
            source = found.setdefault(node.inputs[0], node.inputs[0])
            found.update(dict.fromkeys(node.makes, source))
        elif node.domain not in STANDARD or node.op.startswith("QLinear"):
            found.update((name, name) for name in node.makes)
    return found


def _worst_first(bits: Mapping[str, float]) -> list[str]:
    return sorted(bits, key=lambda name: -bits[name])


def _bits(bits: float) -> str:
    return f"{bits:.1f} of 8 bits" if bits < 8 else "all of 8 bits"
