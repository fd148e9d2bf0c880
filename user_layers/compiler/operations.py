"""What the layers of a net have to do, whatever a compiler makes of it: see report/roofline.py."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from user_layers.compiler.attributes import DescribedNet
from user_layers.net.functions import BINARY, UNARY
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.net.products import products
from user_layers.report.roofline import Demand, Kind

# Where a layer's parameters have the code of its function: the struct's offset, and the codes.
_CODES = {
    "TPU_UNARY": (0, UNARY),
    "TPU_BINARY": (0, BINARY),
    "TPU_CONST_BINARY": (4, BINARY),
    "TPU_ELTWISE_INT8": (0, BINARY),
}
# Functions that need a table, a root or a quotient.
_HARD = frozenset(
    (
        *("SIGMOID", "TANH", "EXP", "LOG", "SQRT", "RECIPROCAL", "ELU", "SELU", "CELU", "SOFTPLUS"),
        *("SOFTSIGN", "GELU", "GELU_TANH", "ERF", "SWISH", "MISH", "SIN", "COS", "DIV", "POW", "MOD"),
        *("FMOD",),
    )
)
_CONVOLUTIONS = ("TPU_CONV", "TPU_CONV3D", "TPU_CONV_INT8")
_PRODUCTS = (*_CONVOLUTIONS, "TPU_DECONV", "TPU_MATMUL")
_OF_MATRICES = ("TPU_DECONV", "TPU_MATMUL", "TPU_ATTENTION", "TPU_ATTENTION_INT8", "TPU_RECURRENT")
_KINDS = {
    **dict.fromkeys(("TPU_POOL", "TPU_POOL_INT8", "TPU_POOL_PLANES", "TPU_REDUCE"), Kind.POOL),
    **dict.fromkeys(
        (
            *("TPU_SCALE_SHIFT", "TPU_WHERE", "TPU_NORM", "TPU_CAST", "TPU_ARG", "TPU_TOPK"),
            *("TPU_REQUANTIZE", "TPU_LOOKUP", "TPU_PRELU_INT8", "TPU_QUANTIZE", "TPU_DEQUANTIZE"),
        ),
        Kind.ELEMENTWISE,
    ),
    **dict.fromkeys(("TPU_SOFTMAX", "TPU_LRN", "TPU_DETECTION_OUTPUT"), Kind.FUNCTION),
}


def operation(described: DescribedNet, k: int) -> str:
    """What node k computes, for totals: its label, and of element-wise layers the function."""
    label, function = described.attrs[k].label, _function(described, k)
    if function:
        return f"{label} {function.lower()}"
    return f"{label} depthwise" if _kind(described, k) is Kind.DEPTHWISE else label


def demands(described: DescribedNet, nodes: Sequence[int]) -> dict[int, Demand]:
    """Of each of the nodes, which together are what is looked at: its operations, and the bytes of tensors
    that it is the first to read or that it makes for others. Nodes on the host have none."""
    net = described.net
    nodes = [k for k in nodes if net.nodes[k].cpu is None]
    inside = set(nodes)
    readers: dict[str, list[int]] = {}
    for k in nodes:
        for name in dict.fromkeys(net.nodes[k].inputs):
            readers.setdefault(name, []).append(k)
    outside = {name for k, node in enumerate(net.nodes) if k not in inside for name in node.inputs}
    outside |= set(net.outputs)
    read, written = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    for name, users in readers.items():
        if net.producer.get(name) not in inside:
            size = _held(described, users[0], name)
            read[users[0]] += min(size, sum(_taken(described, k, size) for k in users))
    for k in nodes:
        written[k] += sum(net.tensors[name].nbytes for name in net.nodes[k].outputs if name in outside)
    return {k: Demand(_kind(described, k), _count(described, k), read[k], written[k]) for k in nodes}


def _taken(described: DescribedNet, k: int, size: int) -> int:
    """Bytes of an input of this size that node k has to read at most."""
    if _kind(described, k) is not Kind.COPY or described.attrs[k].just_reshape:
        return size
    return sum(described.net.tensors[name].nbytes for name in described.net.nodes[k].outputs)


def _kind(described: DescribedNet, k: int) -> Kind:
    node = described.net.nodes[k]
    op, first = _op(node), described.net.tensors[node.inputs[0]] if node.inputs else None
    if op in _PRODUCTS:
        assert first is not None
        if op != "TPU_MATMUL" and _is_depthwise(described.net, k):
            return Kind.DEPTHWISE
        return Kind.PRODUCT8 if first.dtype.itemsize == 1 else Kind.PRODUCT
    if op == "TPU_RESIZE":
        return Kind.DEPTHWISE
    if op in _OF_MATRICES:
        whole = op == "TPU_ATTENTION_INT8" or (op == "TPU_ATTENTION" and _in_bytes(node))
        return Kind.PRODUCT8 if whole else Kind.PRODUCT
    if op in _CODES:
        return Kind.FUNCTION if _function(described, k) in _HARD else Kind.ELEMENTWISE
    return _KINDS.get(op, Kind.COPY)


def _count(described: DescribedNet, k: int) -> int:
    net, node = described.net, described.net.nodes[k]
    made = sum(math.prod(net.tensors[name].shape) for name in node.outputs)
    first = net.tensors[node.inputs[0]].shape if node.inputs else ()
    if _op(node) in _CONVOLUTIONS:
        pairs, taps = _pairs(net, k)
        return made // max(1, _weights(net, k)[0]) * pairs * taps
    if _op(node) == "TPU_RESIZE":
        return made * _weights(net, k)[0]
    if _op(node) in _OF_MATRICES:
        return products(net, node)
    kind = _kind(described, k)
    if kind is Kind.COPY:
        return 0 if described.attrs[k].just_reshape else made
    return math.prod(first) if kind is Kind.POOL else max(made, math.prod(first))


def _pairs(net: Net, k: int) -> tuple[int, int]:
    """Of a convolution's weights: the pairs of output and input channel that are work, and the taps of each.
    What stands between groups that are computed together (onnx/groups.py), pairs of which all weights are
    zero, is none; an output channel that is zero as a whole, as blocks before training end in, takes as many
    pairs as the others on average, where there are others."""
    tensor = _plain(net.tensors[net.nodes[k].inputs[1]])
    outputs, inputs, *window = tensor.shape
    if tensor.data is None or not tensor.data:
        return outputs * inputs, math.prod(window)
    weights = np.frombuffer(tensor.data, tensor.dtype.numpy_name).reshape(outputs, inputs, -1)
    counts = weights.any(axis=2).sum(axis=1)
    made = int(np.count_nonzero(counts))
    pairs = round(int(counts.sum()) * outputs / made) if made else outputs * inputs
    return pairs, math.prod(window)


def _held(described: DescribedNet, k: int, name: str) -> int:
    """Bytes of a tensor that node k is the first to read, as far as it has to be read."""
    net = described.net
    size = _bytes(net.tensors[name])
    if _op(net.nodes[k]) not in _CONVOLUTIONS or name != net.nodes[k].inputs[1]:
        return size
    pairs, taps = _pairs(net, k)
    weights = _plain(net.tensors[name])
    return size - weights.nbytes + pairs * taps * weights.dtype.itemsize


def _weights(net: Net, k: int) -> tuple[int, ...]:
    return _plain(net.tensors[net.nodes[k].inputs[1]]).shape


def _is_depthwise(net: Net, k: int) -> bool:
    """Whether each of several channels of a convolution's result is made from one channel."""
    node = net.nodes[k]
    channels, made = (net.tensors[name].shape[1] for name in (node.inputs[0], node.outputs[0]))
    transposed = _op(node) == "TPU_DECONV"  # its weights tell the channels made, not those read
    return channels > 1 and _weights(net, k)[1] == 1 and (made == channels or not transposed)


def _op(node: LayerNode) -> str:
    """The name of a built-in layer; empty for the user's, whatever they are called."""
    return node.op.op if node.op.is_builtin else ""


def _function(described: DescribedNet, k: int) -> str:
    """The name of an element-wise layer's function; empty for other layers."""
    node = described.net.nodes[k]
    if _op(node) not in _CODES:
        return ""
    offset, codes = _CODES[_op(node)]
    (code,) = struct.unpack_from("<i", node.param, offset)
    return next(name for name, number in codes.items() if number == code)


def _in_bytes(attention: LayerNode) -> bool:
    """Whether its products are of 8 bits: the last of its parameters says so."""
    return bool(struct.unpack_from("<f", attention.param, len(attention.param) - 4)[0] > 0)


def _bytes(tensor: NetTensorInfo) -> int:
    """Of a tensor; of a prepared constant those of all that it is prepared from."""
    return _plain(tensor).nbytes + sum(held.nbytes for held in tensor.holds.values())


def _plain(tensor: NetTensorInfo) -> NetTensorInfo:
    """As the graph has it, where a constant was prepared."""
    return tensor.plain or tensor
