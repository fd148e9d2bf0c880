"""Ranges of products that are others' columns in another order, of which no table knows.

Rotary positions are written as a second product with turned columns of the first one's weights, or with ones:
their numbers are those of a tensor whose range is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.quantize.sites import constant
from user_layers.quantize.table import Range
from user_layers.toolkit import Toolkit


def with_permuted(net: Net, known: Mapping[str, Range], toolkit: Toolkit) -> dict[str, Range]:
    """The ranges, and those of products that have none and are columns of what has one."""
    found = dict(known)
    products = [node for node in net.nodes if node.cpu is None and node.op.op == "TPU_MATMUL"]
    for node in products:
        if node.outputs[0] in found:
            continue
        one = _of_ones(net, node, found) or _of_columns(net, node, products, found, toolkit)
        if one is not None:
            found[node.outputs[0]] = replace(one, mean=(), peaks=())
    return found


def _of_ones(net: Net, node: LayerNode, known: Mapping[str, Range]) -> Range | None:
    """Of a product with ones, one to each row and column, without a bias."""
    weights = constant(net, node.inputs[1])
    if weights is None or weights.ndim != 2 or len(node.inputs) > 2:
        return None
    ones = weights == 1
    each = (ones.sum(0) == 1).all() and (ones.sum(1) == 1).all() and np.array_equal(weights, ones)
    return known.get(node.inputs[0]) if each else None


def _of_columns(
    net: Net, node: LayerNode, products: list[LayerNode], known: Mapping[str, Range], toolkit: Toolkit
) -> Range | None:
    """Of another product of the same rows, whose weights and bias are these in another order of columns."""
    beside = [one for one in products if one.inputs[0] == node.inputs[0] and one.outputs[0] in known]
    own = _columns(net, node, toolkit) if beside else None
    for other in beside:
        theirs = _columns(net, other, toolkit)
        if own and theirs is not None and set(own) <= set(theirs):
            return known[other.outputs[0]]
    return None


def _columns(net: Net, node: LayerNode, toolkit: Toolkit) -> list[bytes] | None:
    values = toolkit.param_values(node.op, node.param)
    arrays = [constant(net, name) for name in node.inputs[1:]]
    weights = arrays[0]
    if weights is None or weights.ndim != 2 or values["trans_a"] or any(one is None for one in arrays):
        return None
    columns = weights if values["trans_b"] else weights.T
    bias = arrays[1] if len(arrays) > 1 else None
    parts = (
        columns
        if bias is None
        else np.column_stack([columns, np.broadcast_to(bias.reshape(-1), len(columns))])
    )
    return [(column * (values["alpha"] or 1.0)).tobytes() for column in parts]
