"""Tokens of one batch in strips: what of a net of 8-bit integers works on rows of them.

A turn makes of tokens [1, T, C] the row of pixels [1, C, T] that convolutions take. Where pixels are strips
[4, C, rows], the tokens are strips too, [4, rows, C], of which a turn moves a fourth of the words. In DDR
these are the tokens one behind the other, in fp32; so what converts tokens, and what works on each of them
in fp32, gets strips of them, and nothing has to be cut or joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firmware_sim.wire import DType, StoreMode
from user_layers.graph import GraphBuilder
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode

_LEAST = 4  # tokens that are cut: each strip has one at least
_RANK = 3
_CONVERTING = ("TPU_QUANTIZE", "TPU_DEQUANTIZE")
_EACH_ALONE = ("TPU_UNARY", "TPU_CONST_BINARY", "TPU_BINARY")


def on_tokens(
    graph: GraphBuilder, net: Net, nodes: Sequence[LayerNode]
) -> tuple[frozenset[int], frozenset[str]]:
    """The layers that work on strips of tokens, by their places, and the tensors that are tokens there.
    Integers are so where all who make or read them are such layers; in fp32 any tensor can be cut and joined.
    """
    found: dict[int, list[str]] = {}
    for k, node in enumerate(nodes):
        tokens = _tokens_of(graph, net, node)
        if tokens:
            found[k] = tokens
    makers = {name: k for k, node in enumerate(nodes) for name in node.outputs}
    readers: dict[str, list[int]] = {}
    for k, node in enumerate(nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(k)
    while True:
        tokens_now = {name for names in found.values() for name in names}
        outside = [
            k
            for k, names in found.items()
            if any(
                net.tensors[name].dtype is not DType.FP32
                and (
                    name in net.outputs or not {makers.get(name, -1), *readers.get(name, ())} <= found.keys()
                )
                for name in names
            )
        ]
        if not outside:
            return frozenset(found), frozenset(tokens_now)
        for k in outside:
            del found[k]


def _tokens_of(graph: GraphBuilder, net: Net, node: LayerNode) -> list[str]:
    """The tensors of a layer that would be tokens; none where it cannot work on strips of them."""
    if node.cpu is not None or not node.op.is_builtin:
        return []
    op, source, output = node.op.op, node.inputs[0], node.outputs[0]
    values = graph.toolkit.param_values(node.op, node.param)
    if op == "TPU_TURN":
        return _turned(net, source, output)
    inputs = [name for name in node.inputs if net.tensors[name].data is None]
    if not all(_tokens(net, name) for name in (*inputs, output)):
        return []
    shape = net.tensors[output].shape
    if any(net.tensors[name].shape != shape for name in inputs):
        return []
    constants = [name for name in node.inputs if name not in inputs]
    if op in _CONVERTING:
        return [source, output]
    return [*inputs, output] if each_alone(net, op, values, constants, shape[1]) else []


def each_alone(net: Net, op: str, values: Mapping[str, Any], constants: Sequence[str], tokens: int) -> bool:
    """Whether a layer in fp32 with these parameters and constants works on each of so many tokens alone."""
    if op in _EACH_ALONE:
        return all(of_all(net, one) or of_each(net, one, tokens) for one in constants)
    last = values.get("axis", 0) % _RANK == _RANK - 1
    return last and (op == "TPU_SCALE_SHIFT" or (op == "TPU_NORM" and values["groups"] == 0))


def of_all(net: Net, name: str) -> bool:
    """Whether a constant beside tokens is the same for all of them."""
    shape = net.tensors[name].shape
    return len(shape) < _RANK - 1 or shape[-2] == 1


def of_each(net: Net, name: str, tokens: int) -> bool:
    """Whether a constant has numbers for each of so many tokens: positions, rotary embedding."""
    one = net.tensors[name]
    shape = (1,) * (_RANK - len(one.shape)) + one.shape
    return len(shape) == _RANK and shape[:-1] == (1, tokens) and one.dtype is DType.FP32


def _turned(net: Net, source: str, output: str) -> list[str]:
    """Which side of a turn is tokens: that whose other side is a picture, or pixels of integers that a
    convolution, or what works element by element, makes or reads."""
    one, other = net.tensors[source], net.tensors[output]
    if not all(t.store_mode is StoreMode.N4 and t.shape[0] == 1 for t in (one, other)):
        return []
    ranks = len(one.shape), len(other.shape)
    if ranks == (_RANK, _RANK):
        pixels_behind = any(_takes_pixels(net, k) for k in net.consumers[output])
        name = source if pixels_behind else output
    elif sorted(ranks) == [_RANK, _RANK + 1]:
        name = source if ranks[0] == _RANK else output
    else:
        return []
    return [name] if net.tensors[name].shape[1] >= _LEAST else []


def _takes_pixels(net: Net, k: int) -> bool:
    return net.nodes[k].op.op in ("TPU_CONV_INT8", "TPU_LOOKUP", "TPU_ELTWISE_INT8", "TPU_REQUANTIZE")


def _tokens(net: Net, name: str) -> bool:
    one = net.tensors[name]
    known = one.dtype is DType.FP32 or one.store_mode is StoreMode.N4
    return known and len(one.shape) == _RANK and one.shape[0] == 1 and one.shape[1] >= _LEAST
