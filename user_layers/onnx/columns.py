"""What is done to the columns of a product with a constant matrix goes into the matrix and the bias: factors
and summands of columns (a layer's scale, batch normalisation behind a linear layer), through views that keep
the columns; and views that only take other views back.

Numbers are multiplied in double precision and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from user_layers.onnx.fuse import Affine, batch_normalization
from user_layers.onnx.model import ARITHMETIC, DOMAIN, Array, Model, Node
from user_layers.onnx.views import RESHAPES


@dataclass
class _Product:
    """A product with a constant matrix, where it stands among the nodes, and what its columns go through."""

    at: int
    step: Affine


def fuse_columns(model: Model) -> Model:
    """Mul, Div, Add, Sub with one constant number per column, and BatchNormalization of rows, behind MatMul
    with a constant matrix: into that matrix and a bias, its third input."""
    constants = dict(model.constants)
    nodes: list[Node] = []
    products: dict[str, _Product] = {}  # by a value that only one node reads: a product, or a view of it
    views: dict[str, int] = {}  # of these the last view before the value
    for node in model.nodes:
        name = node.outputs[0] if node.outputs else ""
        found = _columns(model, node)
        if found is not None and found[0] in products:
            source, step = found
            product = products[source]
            product.step = product.step.then(step)
            at = views.get(source, product.at)
            nodes[at] = replace(nodes[at], outputs=(name,))
            if model.only_reader(name) is not None:
                products[name] = product
                views[name] = at
            continue
        nodes.append(node)
        if model.only_reader(name) is None or len(node.makes) != 1:
            continue
        if is_product(model, node):
            columns = model.constants[node.inputs[1]].shape[1]
            products[name] = _Product(len(nodes) - 1, Affine(np.ones(columns), np.zeros(columns)))
        elif node.inputs and node.inputs[0] in products and _keeps_columns(model, node):
            products[name] = products[node.inputs[0]]
            views[name] = len(nodes) - 1
    for product in {id(one): one for one in products.values()}.values():
        if (product.step.factor != 1).any() or product.step.summand.any():
            nodes[product.at] = _folded(nodes[product.at], product.step, constants)
    return without_detours(replace(model, nodes=tuple(nodes), constants=constants))


def without_detours(model: Model) -> Model:
    """The model without views that give a value the shape back that it had before other views."""
    taken = {name for node in model.nodes for name in node.captured}
    same: dict[str, str] = {}
    nodes: list[Node] = []
    for node in model.nodes:
        back = None if node.outputs and node.outputs[0] in taken else _shape_before(model, node)
        if back is not None:
            same[node.outputs[0]] = same.get(back, back)
            continue
        if not same.keys().isdisjoint(node.inputs):
            node = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes)) if same else model


def _shape_before(model: Model, node: Node) -> str | None:
    """The value that a view of a view is, where it has its shape again and is no output."""
    if not is_view(model, node) or node.outputs[0] in model.results:
        return None
    wanted, name = model.value(node.outputs[0]), node.inputs[0]
    while wanted.fixed is not None:
        maker = model.makers.get(name)
        if maker is None or not is_view(model, maker):
            return None
        name = maker.inputs[0]
        before = model.value(name)
        if before.fixed == wanted.fixed and before.dtype == wanted.dtype and name not in model.constants:
            return name
    return None


def is_view(model: Model, node: Node) -> bool:
    """Whether a node keeps the order of all elements: a transpose, too, that moves extents of 1 only."""
    if not node.is_a("Transpose"):
        return node.is_a(*RESHAPES)
    shape = model.value(node.inputs[0]).fixed
    order = [int(d) for d in node.attributes.get("perm", ())]
    moved = [d for d in order if shape is not None and shape[d] != 1]
    return shape is not None and len(order) == len(shape) and moved == sorted(moved)


def is_product(model: Model, node: Node) -> bool:
    """Whether a node is a product with a constant matrix, perhaps with a constant bias, of float32."""
    if node.op != "MatMul" or not node.is_known:
        return False
    given = [model.constants.get(name) for name in node.inputs[1:]]
    floats = all(array is not None and array.dtype == np.float32 for array in given)
    return floats and given[0] is not None and given[0].ndim == 2 and node.inputs[0] not in model.constants


def _keeps_columns(model: Model, node: Node) -> bool:
    """Whether a view has the columns of its input."""
    before, after = (model.value(name).fixed for name in (node.inputs[0], node.outputs[0]))
    return node.is_a(*RESHAPES) and bool(before and after) and before[-1:] == after[-1:]  # type: ignore[index]


def _columns(model: Model, node: Node) -> tuple[str, Affine] | None:
    """The input of a node that scales and shifts columns alone, and how; None for any other node."""
    shape = model.value(node.outputs[0]).fixed if node.outputs else None
    if not shape or not node.is_plain:
        return None
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = (
            _batch(model, node, shape) if node.op == "BatchNormalization" else _numbers(model, node, shape)
        )
    return found if found and np.isfinite([found[1].factor, found[1].summand]).all() else None


def _batch(model: Model, node: Node, shape: tuple[int, ...]) -> tuple[str, Affine] | None:
    return batch_normalization(model, node, shape[1]) if len(shape) == 2 else None


def _numbers(model: Model, node: Node, shape: tuple[int, ...]) -> tuple[str, Affine] | None:
    if node.op not in ARITHMETIC or len(node.inputs) != 2 or "axis" in node.attributes:
        return None
    for source, name in (node.inputs, node.inputs[::-1]):
        values = model.constants.get(name)
        if values is None or model.value(source).fixed != shape or values.dtype != np.float32:
            continue
        if values.size not in (1, shape[-1]) or values.shape[-1:] not in ((values.size,), ()):
            return None
        if node.op in ("Sub", "Div") and source != node.inputs[0]:
            return None
        numbers = np.broadcast_to(values.reshape(-1).astype(np.float64), shape[-1:])
        ones, zeros = np.ones(shape[-1]), np.zeros(shape[-1])
        if node.op in ("Mul", "Div"):
            return source, Affine(numbers if node.op == "Mul" else 1 / numbers, zeros)
        return source, Affine(ones, numbers if node.op == "Add" else -numbers)
    return None


def _folded(product: Node, step: Affine, constants: dict[str, Array]) -> Node:
    """The product with another matrix and bias, so that its columns have gone through `step`."""
    output = product.outputs[0]
    names = (f"{output}:scaled", f"{output}:shifted")
    bias = constants[product.inputs[2]].astype(np.float64) if len(product.inputs) > 2 else 0.0
    constants[names[0]] = (constants[product.inputs[1]].astype(np.float64) * step.factor).astype(np.float32)
    constants[names[1]] = (bias * step.factor + step.summand).astype(np.float32)
    return replace(product, domain=DOMAIN, proto=None, inputs=(product.inputs[0], *names))
