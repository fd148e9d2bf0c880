"""Products of matrices with what is done to them afterwards: a factor, then one number per column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from user_layers.onnx.model import DOMAIN, Array, Model, Node
from user_layers.onnx.views import factor_of


def fuse_bias(model: Model) -> Model:
    """MatMul, then Mul or Div by a number, then Add of a constant with one number per column: one node,
    `MatMul` of this compiler, with that constant as its third input and the factor as its attribute `alpha`.
    Either may be absent."""
    constants = dict(model.constants)
    products: dict[str, Node] = {}  # by their outputs, where only one node reads these
    nodes: dict[str, Node] = {}  # by their first outputs, in order
    for node in model.nodes:
        fused = _fused(model, node, products, constants)
        if fused is not None:
            made, source = fused
            del nodes[source]
            node = made
        nodes[node.makes[0] if node.makes else node.name] = node
        name = node.outputs[0] if node.outputs else ""
        alone = model.only_reader(name) is not None
        own = node.op == "MatMul" and node.is_known
        if own and alone and len(node.inputs) == 2:
            products[name] = node
    return replace(model, nodes=tuple(nodes.values()), constants=constants)


def _fused(
    model: Model, node: Node, products: dict[str, Node], constants: dict[str, Array]
) -> tuple[Node, str] | None:
    """The product with what this node does, and the output that then is gone."""
    if not node.is_a("Add", "Mul", "Div"):
        return None
    if len(node.inputs) != 2 or "axis" in node.attributes:  # an axis: before opset 7
        return None
    for source, name in (node.inputs, node.inputs[::-1]):
        values, shape = model.constants.get(name), model.value(source).fixed
        if source not in products or values is None or not shape or values.dtype != np.float32:
            continue
        if model.value(node.outputs[0]).fixed != shape or model.value(source).dtype != np.float32:
            continue
        product = products[source]
        if node.op == "Add":
            if values.size not in (1, shape[-1]) or values.shape[-1:] not in ((values.size,), ()):
                return None
            bias = f"{node.outputs[0]}:bias"
            constants[bias] = np.broadcast_to(values.reshape(-1), (shape[-1],)).copy()
            return replace(
                product, domain=DOMAIN, proto=None, inputs=(*product.inputs, bias), outputs=node.outputs
            ), source
        times = factor_of(model, node)
        if times is None:
            return None
        factor = np.float32(float(product.attributes.get("alpha", 1.0)) * times[1])
        if not factor or not np.isfinite(factor):
            return None
        alpha = {"alpha": float(factor)}
        return replace(product, domain=DOMAIN, proto=None, outputs=node.outputs, attributes=alpha), source
    return None
