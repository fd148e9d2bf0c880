"""Channels of tokens are brought to like sizes where fp32 and integers meet.

A product of tokens reads what is fp32 before (normalised, attended) and often makes what is fp32 behind.
There each channel may be divided by a factor of its own before it becomes an integer, with the matrix's row
so much larger, and multiplied again behind, with the matrix's column so much smaller: one multiplication of
numbers in fp32, for which neither small channels nor the columns that make them lose bits to large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from firmware_sim.shown import count
from firmware_sim.wire import DType
from user_layers.graph import BINARY_MUL
from user_layers.graph.prepared import free_name
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.quantize.channels import channels_last, is_product
from user_layers.quantize.equalise import Equalised, divided, powers
from user_layers.quantize.scales import F64
from user_layers.quantize.table import Range
from user_layers.toolkit import Toolkit

_BEFORE = ("TPU_NORM", "TPU_ATTENTION")
"""Layers that make what is fp32 in any case."""
_BEHIND = ("TPU_NORM", "TPU_ATTENTION", "TPU_SOFTMAX", "TPU_REDUCE")
"""Layers that read tokens in fp32."""
_STREAM = ("TPU_BINARY", "TPU_NORM", "TPU_TURN", "TPU_CONCAT", "TPU_ATTENTION")
"""Layers that make what goes on in fp32 past the products of a block."""
_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_LEAST = 2.0**-8  # of a channel beside the largest one: what is smaller yet needs no more room
_GAIN = 0.9  # of the noise before: what gains less is not worth the multiplication


@dataclass
class _Evening:
    """The net that is being made: tensors and nodes as they become."""

    net: Net
    ranges: dict[str, Range]
    toolkit: Toolkit
    tensors: dict[str, NetTensorInfo] = field(default_factory=dict)
    before: dict[str, LayerNode] = field(default_factory=dict)  # by the name that they make
    renamed: dict[tuple[str, str], str] = field(default_factory=dict)  # by layer and what it had

    def matrix(self, node: LayerNode) -> F64:
        """[inputs, outputs] of a product, as it is now."""
        one = self.tensors.get(node.inputs[1], self.net.tensors[node.inputs[1]])
        assert one.data is not None
        found: F64 = np.frombuffer(one.data, np.float32).reshape(one.shape).astype(np.float64)
        return found.T if self._turned(node) else found

    def put(self, node: LayerNode, matrix: F64, bias: F64 | None = None) -> None:
        """Another matrix, and perhaps another bias."""
        self._constant(node.inputs[1], matrix.T if self._turned(node) else matrix)
        if bias is not None:
            self._constant(node.inputs[2], bias)

    def multiplied(self, source: str, made: str, factors: F64) -> LayerNode:
        """source x factors, a number to each element of the last dimension."""
        shape = self.net.tensors[source if source in self.net.tensors else made].shape
        numbers = factors.astype(np.float32).reshape(*[1] * (len(shape) - 1), -1)
        name = self.free(f"{made}:factors")
        self.tensors[name] = NetTensorInfo(name, numbers.shape, DType.FP32, data=numbers.tobytes())
        info = self.toolkit.op("TPU_BINARY", "even tokens")
        param = self.toolkit.layer_param(info, {"binary_op": BINARY_MUL}, "even tokens")
        return LayerNode(f"{made}:even", info, param, (source, name), (made,), None, None, "even tokens")

    def even(self, name: str, factors: F64) -> str:
        """A free name for a tensor whose channels are divided, with its range."""
        made = self.free(f"{name}:even")
        self.tensors[made] = replace(self.net.tensors[name], name=made)
        self.ranges[made] = divided(self.ranges[name], factors)
        return made

    def free(self, stem: str) -> str:
        return free_name(stem, self.net.tensors, self.tensors)

    def _turned(self, node: LayerNode) -> bool:
        return bool(self.toolkit.param_values(node.op, node.param)["trans_b"])

    def _constant(self, name: str, array: F64) -> None:
        one = self.net.tensors[name]
        self.tensors[name] = replace(one, data=np.ascontiguousarray(array, np.float32).tobytes())


def even_tokens(given: Equalised, toolkit: Toolkit, keep: Collection[str]) -> Equalised:
    """The net with factors before and behind products of tokens, where that leaves less noise, and the ranges
    with those of what is new. keep: layers and tensors that stay in fp32."""
    net = given.net
    state = _Evening(net, dict(given.ranges), toolkit)
    tokens = channels_last(net.nodes, net.tensors, toolkit)
    products = {
        k: node
        for k, node in enumerate(net.nodes)
        if is_product(node, net.tensors, toolkit)
        and not {node.name, *node.outputs} & set(keep)
        and all(len(net.consumers[name]) == 1 for name in node.inputs[1:])
        and all(net.tensors[name].data is not None for name in node.inputs[2:])
    }
    for name in dict.fromkeys(node.inputs[0] for node in products.values()):
        readers = [
            products[k] for k in net.consumers[name] if k in products and products[k].inputs[0] == name
        ]
        maker = net.producer.get(name)
        if maker is not None and net.nodes[maker].op.op in _BEFORE and _known(net, state, name, tokens):
            _divide(state, name, readers)
    behind: dict[str, LayerNode] = {}
    for node in products.values():
        (output,) = node.outputs
        readers = [net.nodes[k] for k in net.consumers[output]]
        inside = bool(readers) and output not in net.outputs
        if (
            inside
            and all(_in_fp32(net, one, output) for one in readers)
            and _known(net, state, output, tokens)
        ):
            _multiply(state, node, behind)
    gated = sum(_pass(state, *found) for found in list(_gated(state, products, tokens)))
    done = len(state.before) + len(behind) + gated
    if not done:
        return given
    nodes = tuple(_nodes(state, behind))
    made = Net(net.name, {**net.tensors, **state.tensors}, nodes, net.inputs, net.outputs)
    note = f"equalised: {count(done, 'tensor')} of tokens"
    return Equalised(made, state.ranges, given.factors, "; ".join(filter(None, (given.note, note))))


def _known(net: Net, state: _Evening, name: str, tokens: Collection[str]) -> bool:
    one = state.ranges.get(name)
    return name in tokens and one is not None and len(one.peaks) == net.tensors[name].shape[-1]


def _in_fp32(net: Net, node: LayerNode, name: str) -> bool:
    """Whether a layer reads a product's result in fp32; a pair of operands where the other one is so too."""
    if node.op.op != "TPU_BINARY":
        return node.op.op in _BEHIND
    makers = [net.producer.get(other) for other in node.inputs if other != name]
    return all(k is None or net.nodes[k].op.op in _STREAM for k in makers)


def _nodes(state: _Evening, behind: Mapping[str, LayerNode]) -> Iterator[LayerNode]:
    waiting = dict(state.before)
    for node in state.net.nodes:
        inputs = tuple(state.renamed.get((node.name, name), name) for name in node.inputs)
        for name in inputs:
            if name in waiting:
                yield waiting.pop(name)
        outputs = tuple(state.renamed.get((node.name, name), name) for name in node.outputs)
        yield replace(node, inputs=inputs, outputs=outputs)
        for name in outputs:
            if name in behind:
                yield behind[name]


def _divide(state: _Evening, name: str, readers: list[LayerNode]) -> None:
    """Channels of what these products read."""
    one = state.ranges[name]
    matrices = np.concatenate([state.matrix(node) for node in readers], 1)
    seen, rows = np.minimum(one.peaks, one.threshold), np.abs(matrices).max(1)
    squares, power = np.square(matrices).sum(1), powers(one)

    def noise(s: F64) -> float:
        step, grid = (seen / s).max() / 127, (rows * s).max() / 127
        return float((step * s) ** 2 @ squares + grid**2 * (power / s**2).sum() * matrices.shape[1])

    factors = _chosen(seen, rows, noise)
    if factors is None:
        return
    made = state.even(name, factors)
    state.before[made] = state.multiplied(name, made, 1 / factors)
    for node in readers:
        state.renamed[node.name, name] = made
        state.put(node, state.matrix(node) * factors[:, None])


def _multiply(state: _Evening, node: LayerNode, behind: dict[str, LayerNode]) -> None:
    """Channels of what a product makes."""
    (name,) = node.outputs
    source = state.renamed.get((node.name, node.inputs[0]), node.inputs[0])
    if source not in state.ranges:
        return
    one, matrix = state.ranges[name], state.matrix(node)
    seen, columns = np.minimum(one.peaks, one.threshold), np.abs(matrix).max(0)
    power = state.ranges[source].mean_square * len(matrix)

    def noise(s: F64) -> float:
        step, grid = (seen / s).max() / 127, (columns / s).max() / 127
        return float((step**2 + grid**2 * power) * (s**2).sum())

    factors = _chosen(seen, columns, noise, together=True)
    if factors is None:
        return
    bias = _bias(state, node, factors)
    if len(node.inputs) > 2 and bias is None:
        return
    made = state.even(name, factors)
    behind[made] = state.multiplied(made, name, factors)
    state.renamed[node.name, name] = made
    state.put(node, matrix / factors, bias)


def _gated(
    state: _Evening, products: Mapping[int, LayerNode], tokens: Collection[str]
) -> Iterator[tuple[LayerNode, LayerNode, list[LayerNode]]]:
    """Nodes that multiply what they alone read of a product, that product, and those that alone read what is
    multiplied."""
    net = state.net
    for node in net.nodes:
        if node.op.op != "TPU_BINARY":
            continue
        (made,) = node.outputs
        linear = _linear_operand(net, node, products)
        readers = [products[k] for k in net.consumers[made] if k in products]
        if linear is None or not 0 < len(readers) == len(net.consumers[made]):
            continue
        if {made, *linear.outputs} & set(net.outputs) or any(one.inputs[0] != made for one in readers):
            continue
        known = all(_known(net, state, name, tokens) for name in (linear.outputs[0], made))
        if known and state.toolkit.param_values(node.op, node.param)["binary_op"] == BINARY_MUL:
            yield node, linear, readers


def _linear_operand(net: Net, node: LayerNode, products: Mapping[int, LayerNode]) -> LayerNode | None:
    """The product whose result a node alone reads, and whose columns are the node's own."""
    for name in node.inputs:
        maker = products.get(net.producer.get(name, -1))
        alone = len(net.consumers[name]) == 1 and node.inputs.count(name) == 1
        if maker is not None and alone and net.tensors[name].shape == net.tensors[node.outputs[0]].shape:
            return maker
    return None


def _pass(state: _Evening, node: LayerNode, linear: LayerNode, readers: list[LayerNode]) -> bool:
    """Channels of one of two factors, which is linear, and of what they make: nothing is multiplied more."""
    (name,), (made,) = linear.outputs, node.outputs
    source = state.renamed.get((linear.name, linear.inputs[0]), linear.inputs[0])
    if source not in state.ranges or state.renamed.get((linear.name, name)):
        return False
    factor, result, matrix = state.ranges[name], state.ranges[made], state.matrix(linear)
    after = np.concatenate([state.matrix(one) for one in readers], 1)
    seen, seen_made = (np.minimum(one.peaks, one.threshold) for one in (factor, result))
    columns, rows = np.abs(matrix).max(0), np.abs(after).max(1)
    power, squares = powers(result), np.square(after).sum(1)
    other = power / np.maximum(powers(factor), np.finfo(np.float64).tiny)  # the other factor's mean square
    read = state.ranges[source].mean_square * len(matrix)

    def noise(s: F64) -> float:
        step, grid = (seen / s).max() / 127, (columns / s).max() / 127
        coarse, grid_after = (seen_made / s).max() / 127, (rows * s).max() / 127
        passed = ((step**2 + grid**2 * read) * other + coarse**2) * s**2
        return float(passed @ squares + grid_after**2 * (power / s**2).sum() * after.shape[1])

    factors = _chosen(seen_made, rows, noise, third=np.maximum(columns, seen))
    if factors is None:
        return False
    bias = _bias(state, linear, factors)
    if len(linear.inputs) > 2 and bias is None:
        return False
    even, even_made = state.even(name, factors), state.even(made, factors)
    state.renamed |= {
        (linear.name, name): even,
        (node.name, name): even,
        (node.name, made): even_made,
        **{(one.name, made): even_made for one in readers},
    }
    state.put(linear, matrix / factors, bias)
    for one in readers:
        state.put(one, state.matrix(one) * factors[:, None])
    return True


def _bias(state: _Evening, node: LayerNode, factors: F64) -> F64 | None:
    """A product's bias with each number divided; None where it has none, or not one for each column."""
    if len(node.inputs) < 3:
        return None
    one = state.net.tensors[node.inputs[2]]
    assert one.data is not None
    bias = np.frombuffer(one.data, np.float32).astype(np.float64)
    return (bias / factors).reshape(one.shape) if bias.size == len(factors) else None


def _chosen(
    seen: F64,
    other: F64,
    noise: Callable[[F64], float],
    *,
    together: bool = False,
    third: F64 | None = None,
) -> F64 | None:
    """What channels are best divided by, the largest by 1. together: both sizes are of the same channel, else
    what divides the one multiplies the other; third: sizes that are divided as the first ones are."""
    if not (seen.any() and other.any()):
        return None
    sizes = (seen, other, np.ones(len(seen)) if third is None else third)
    a, b, c = (np.maximum(one / one.max(), _LEAST) for one in sizes)
    best, found = noise(np.ones(len(a))) * _GAIN, None
    for alpha, beta, gamma in product(_EXPONENTS, _EXPONENTS, _EXPONENTS if third is not None else (0.0,)):
        s = a**alpha * c**gamma * (b**beta if together else b**-beta)
        s /= s.max()
        if (made := noise(s)) < best:
            best, found = made, s
    return found
