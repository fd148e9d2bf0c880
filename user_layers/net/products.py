"""How many products of numbers a layer of matrices adds up."""

from __future__ import annotations

import math
import struct

from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode

_STORED = 4  # dimensions of weights as TPU_RECURRENT keeps them


def products(net: Net, node: LayerNode) -> int:
    """Of a built-in layer that is no convolution; 0 where it is none of matrices. What is between an
    attention's two products does not count."""
    op, made = node.op.op, math.prod(net.tensors[node.outputs[0]].shape)
    shapes = [_stored(net, name) for name in node.inputs]
    if op == "TPU_DECONV":
        return math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if op == "TPU_MATMUL":
        return made * _summed(shapes[0], shapes[1], net.tensors[node.outputs[0]].shape)
    if op in ("TPU_ATTENTION", "TPU_ATTENTION_INT8"):
        size, value, batches = (int(number) for number in struct.unpack_from("<iii", node.param, 4))
        keys = shapes[2][-2] // (batches if op == "TPU_ATTENTION_INT8" else 1)
        return made // value * keys * (size + value)
    if op == "TPU_RECURRENT":  # states times weights, [.., states, columns of a lane], however many
        weights = (math.prod(shape) for shape in shapes[1:] if len(shape) == _STORED)
        steps, _, batch, _ = net.tensors[node.outputs[0]].shape
        return steps * batch * sum(weights)
    return 0


def _stored(net: Net, name: str) -> tuple[int, ...]:
    tensor = net.tensors[name]
    return (tensor.plain or tensor).shape


def _summed(left: tuple[int, ...], right: tuple[int, ...], made: tuple[int, ...]) -> int:
    """The summed dimension of a product of matrices, stored as they are or transposed."""
    if len(left) == 1:
        return left[0]
    if len(right) == 1:
        return right[0]
    return left[-1] * left[-2] // made[-2]
