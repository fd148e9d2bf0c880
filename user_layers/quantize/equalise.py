"""Channels between two layers are brought to like sizes before integers get one scale for all of them.

What a layer makes in channel c may be s_c times smaller, if the layer that alone reads it has weights s_c
times larger for that channel: in float nothing changes, and no bit where s_c is a power of two. In integers
all channels of a tensor share one scale and all weights of a layer one grid, so small channels gain what
large ones do not need. Of several ways to choose s that with the least expected noise is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from firmware_sim.shown import count
from firmware_sim.wire import DType
from user_layers.net.functions import UNARY
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.quantize.channels import channels_last
from user_layers.quantize.scales import F64, Step, best_grid
from user_layers.quantize.sites import Site, sites
from user_layers.quantize.table import Range
from user_layers.toolkit import Toolkit

_FIRST = ("TPU_CONV", "TPU_SCALE_SHIFT", "TPU_MATMUL")
_SECOND = ("TPU_CONV", "TPU_MATMUL")
_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_LEAST = 2.0**-8  # of a channel beside the largest one: what is smaller yet needs no more room
_GAIN = 0.97  # of the noise before: what gains less stays as it is
_SWEEPS = 4


@dataclass(frozen=True)
class Equalised:
    """net: with other constants. ranges: of its tensors. factors: by the names of tensors what each channel
    (dimension 1) is divided by. note: for the log, or nothing."""

    net: Net
    ranges: dict[str, Range]
    factors: Mapping[str, F64] = field(default_factory=dict)
    note: str = ""


@dataclass
class _Linear:
    """A layer that multiplies. weights, bias: its own copies. column: whether outputs are the second
    dimension of the weights, not the first."""

    site: Site
    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32] | None
    groups: int
    column: bool = False
    changed: bool = False

    def step(self, ranges: Mapping[str, Range], threshold: float | None = None) -> Step:
        """Of its result, which is free where no clip cuts."""
        top = threshold or ranges[self.site.output].threshold
        return Step.for_threshold(min(top, self.site.limit or math.inf), not self.site.relu)

    def rows(self) -> F64:
        """[outputs, weights of each]."""
        weights = self.weights.T if self.column else self.weights
        return weights.reshape(weights.shape[0], -1).astype(np.float64)

    def columns(self) -> F64:
        """[inputs, weights of each]."""
        inner = np.moveaxis(self._grouped(), 2, 1)
        return inner.reshape(inner.shape[0] * inner.shape[1], -1).astype(np.float64)

    def divide_rows(self, factors: F64) -> None:
        """Results of channel c become factors[c] times smaller."""
        by = factors.astype(np.float32)
        self.weights /= by if self.column else by.reshape(-1, *[1] * (self.weights.ndim - 1))
        if self.bias is not None:
            self.bias /= by.reshape(self.bias.shape)
        self.changed = True

    def multiply_columns(self, factors: F64) -> None:
        """What is made of input channel c becomes factors[c] times larger."""
        grouped = self._grouped()
        grouped *= factors.astype(np.float32).reshape(self.groups, 1, -1, 1)
        self.changed = True

    def _grouped(self) -> npt.NDArray[np.float32]:
        """A view [groups, outputs, inputs, taps]."""
        weights = self.weights.T if self.column else self.weights
        outputs, inputs = weights.shape[:2]
        if weights.ndim == 2:
            return weights[None, :, :, None]
        return weights.reshape(self.groups, outputs // self.groups, inputs, -1)


@dataclass(frozen=True)
class _Pair:
    """Two layers and what lies between: between are all its tensors, stored those that exist in integers, the
    last of them is what the second layer reads."""

    first: _Linear
    second: _Linear
    between: Sequence[str]
    stored: Sequence[str]


def equalise(net: Net, ranges: Mapping[str, Range], toolkit: Toolkit) -> Equalised:
    """The net with channels equalised, as far as the ranges know each channel's peak."""
    known, factors = dict(ranges), dict[str, F64]()
    found = list(_pairs(net, toolkit))
    tokens = channels_last(net.nodes, net.tensors, toolkit)
    pairs = [pair for pair in found if _known(net, pair, known, tokens)]
    if not pairs:
        bare = any(name in known and not known[name].peaks for pair in found for name in pair.between)
        note = (
            "not equalised: no peaks of channels are known (`tpulayer calibrate` finds those of 4096 values)"
        )
        return Equalised(net, known, note=note if bare else "")
    for _ in range(_SWEEPS):
        before = dict(factors)
        for pair in pairs:
            chosen = _choice(pair, known)
            if chosen is None:
                continue
            pair.first.divide_rows(chosen)
            pair.second.multiply_columns(chosen)
            for name in pair.between:
                known[name] = divided(known[name], chosen)
                factors[name] = factors.get(name, 1.0) * chosen
        if factors.keys() == before.keys() and all(factors[name] is before[name] for name in factors):
            break
    tensors = dict(net.tensors)
    for layer in {
        id(one): one for pair in pairs for one in (pair.first, pair.second) if one.changed
    }.values():
        for name, array in zip(layer.site.node.inputs[1:], (layer.weights, layer.bias), strict=False):
            assert array is not None
            tensors[name] = replace(tensors[name], data=array.tobytes())
    done = sum(pair.stored[-1] in factors for pair in pairs)
    made = Net(net.name, tensors, net.nodes, net.inputs, net.outputs)
    note = f"equalised: {count(done, 'pair')} of layers" if done else ""
    return Equalised(made, known, factors, note)


# ---- finding ----


def _pairs(net: Net, toolkit: Toolkit) -> Iterator[_Pair]:
    """In the order of the net; a layer of two pairs is one object in both."""
    found = (_linear(net, site) for site in sites(net, toolkit))
    layers = {one.site.node.name: one for one in found if one is not None}
    for first in layers.values():
        name = first.site.node.outputs[0]
        between = [name]
        while (node := _reader(net, name)) is not None:
            if node.name in layers:
                second = layers[node.name]
                if node.op.op in _SECOND and first.site.output in between:
                    yield _Pair(first, second, between, between[between.index(first.site.output) :])
                break
            if not _passes(node, toolkit):
                break
            name = node.outputs[0]
            between.append(name)


def _reader(net: Net, name: str) -> LayerNode | None:
    """The node that alone reads a tensor, as its first input."""
    readers = net.consumers[name]
    if name in net.outputs or len(readers) != 1:
        return None
    node = net.nodes[readers[0]]
    alone = node.inputs.count(name) == 1 and node.inputs[0] == name
    return node if alone and node.cpu is None and node.op.is_builtin else None


def _passes(node: LayerNode, toolkit: Toolkit) -> bool:
    """Whether a layer gives c f(x) for c x, c > 0, channel by channel. Clips do so below their ends
    alone, and gained nothing that was sure where it was measured."""
    if node.op.op != "TPU_UNARY":
        return node.op.op == "TPU_POOL"
    function = toolkit.param_values(node.op, node.param)["unary_op"]
    return function in (UNARY["RELU"], UNARY["LEAKY_RELU"])


def _linear(net: Net, site: Site) -> _Linear | None:
    """A layer with constant weights that nothing else reads."""
    node, values = site.node, site.values
    if node.cpu is not None or node.op.op not in _FIRST or len(node.inputs) not in (2, 3):
        return None
    constants = [_own_constant(net, name) for name in node.inputs[1:]]
    weights, bias = constants[0], constants[1] if len(constants) > 1 else None
    if weights is None or (len(constants) > 1 and bias is None):
        return None
    shape, out = net.tensors[node.inputs[0]].shape, net.tensors[node.outputs[0]].shape
    if len(out) < 2 or (bias is not None and bias.size != out[1]):
        return None
    if node.op.op == "TPU_CONV":
        return _Linear(site, weights, bias, values["groups"])
    if node.op.op == "TPU_SCALE_SHIFT":
        fits = values["axis"] % len(shape) == 1 and weights.size == shape[1] > 1
        return _Linear(site, weights.reshape(-1, 1, 1), bias, shape[1]) if fits else None
    if len(shape) != 2 or weights.ndim != 2 or values["trans_a"] or values["alpha"] not in (0.0, 1.0):
        return None
    return _Linear(site, weights, bias, 1, column=not values["trans_b"])


def _own_constant(net: Net, name: str) -> npt.NDArray[np.float32] | None:
    """A copy of a constant in fp32 that one layer reads."""
    tensor = net.tensors[name]
    if tensor.data is None or tensor.dtype is not DType.FP32 or len(net.consumers[name]) != 1:
        return None
    found: npt.NDArray[np.float32] = np.frombuffer(tensor.data, np.float32).reshape(tensor.shape).copy()
    return found


def _known(net: Net, pair: _Pair, ranges: Mapping[str, Range], tokens: frozenset[str]) -> bool:
    """Whether the ranges say what is needed."""
    if not {pair.first.site.node.inputs[0], pair.second.site.output} <= ranges.keys():
        return False
    return not tokens.intersection(pair.between) and all(
        name in ranges and len(ranges[name].peaks) == net.tensors[name].shape[1] for name in pair.between
    )


# ---- choosing ----


def _choice(pair: _Pair, ranges: Mapping[str, Range]) -> F64 | None:
    """What each channel is best divided by, powers of two; None where that gains too little."""
    rows, columns = pair.first.rows(), pair.second.columns()
    a, b = np.abs(rows).max(1), np.abs(columns).max(1)
    last = ranges[pair.stored[-1]]
    seen = np.max([np.minimum(ranges[name].peaks, ranges[name].threshold) for name in pair.stored], 0)
    if not (a.any() and b.any() and seen.any()):
        return None
    given = ranges[pair.first.site.node.inputs[0]]
    each = pair.first.groups == len(rows) and len(given.peaks) == len(rows)
    power_in = rows.shape[1] * (powers(given) if each else given.mean_square)
    power, squares = powers(last), np.square(columns).sum(1)
    source, result = Step.for_threshold(given.threshold, given.signed), pair.second.step(ranges)
    bias_1, bias_2 = (
        None if one.bias is None else one.bias.reshape(-1).astype(np.float64)
        for one in (pair.first, pair.second)
    )

    def noise(s: F64) -> float:
        between = pair.first.step(ranges, float((seen / s).max()))
        found = best_grid(
            float((a / s).max()),
            None if bias_1 is None else bias_1 / s,
            source,
            between,
            free=True,
            power=float(np.mean(power_in)),
        )
        if found is None:
            return math.inf
        made, between = found[0] ** 2 + power_in * _grid(source, found) ** 2, Step(found[0], between.signed)
        read = float((power / s**2).sum()) * taps
        after = best_grid(
            float((b * s).max()), bias_2, between, result, free=pair.second.site.limit is None, power=read
        )
        if after is None:
            return math.inf
        return float(
            (made * s**2 * squares).sum() + outputs * (after[0] ** 2 + read * _grid(between, after) ** 2)
        )

    size = np.maximum(np.maximum(a / a.max(), seen / seen.max()), _LEAST)
    weight = np.maximum(b / b.max(), _LEAST)
    outputs = len(pair.second.rows())
    taps = columns.shape[1] / outputs  # of a channel in one output, or that part of the outputs that read it
    best = noise(np.ones(len(a))) * _GAIN, None
    for alpha, beta in product(_EXPONENTS, _EXPONENTS):
        s = size**alpha * weight**-beta
        s = np.exp2(np.rint(np.log2(s * (seen / s).max() / seen.max())))
        best = min(best, (noise(s), s), key=lambda one: one[0])
    return best[1]


def _grid(source: Step, found: tuple[float, int]) -> float:
    """Of weights, by what `best_grid` says."""
    return found[0] / source.scale * 2.0 ** -found[1]


def powers(one: Range) -> F64:
    """The mean square of each channel, as if all had values distributed alike."""
    squares: F64 = np.square(np.minimum(np.array(one.peaks, np.float64), one.threshold))
    squares *= one.mean_square / (float(squares.mean()) or 1.0)
    return squares


def divided(one: Range, factors: F64) -> Range:
    """The range with each channel divided by its factor."""
    peaks = np.array(one.peaks) / factors
    cut = np.minimum(one.peaks, one.threshold) / factors
    largest, least, most = float(peaks.max()), float(factors.min()), float(factors.max())
    return Range(
        max(-largest, one.low / least) if one.low < 0 else one.low / most,
        min(largest, one.high / least) if one.high > 0 else one.high / most,
        float(cut.max()) or one.threshold,
        float((powers(one) / factors**2).mean()) if math.isfinite(one.power) else one.power,
        tuple(np.array(one.mean) / factors) if len(one.mean) == len(factors) else (),
        tuple(peaks),
    )
