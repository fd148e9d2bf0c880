"""Matrices of several heads, [1, H, R, C], as batches of three dimensions, [H, R, C], between their products.

In four dimensions heads lie over the lanes, and products and transposes of matrices have no version for local
memory; in three, rows do. So what is done to each matrix by itself around a product of two computed ones is
written with three dimensions, with views at the edges. Where layers on pictures come before or behind, those
that are no products stay with them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from user_layers.graph.prepared import free_name
from user_layers.onnx.channels import ONE_BY_ONE
from user_layers.onnx.columns import without_detours
from user_layers.onnx.fold import needed
from user_layers.onnx.model import ARITHMETIC, Array, Model, Node, Value
from user_layers.onnx.views import RESHAPES, last_two_swapped

Shape = tuple[int, ...]
_RANK = 4
_AXIS_ALONE = 13  # the opset from which a softmax is of one axis
_MOVES = (*RESHAPES, "Transpose", "Slice", "Split", "Gather", "Concat", "Expand", "Identity")
_AXES = (2, 3, -1, -2)  # of a matrix
_LAST = (3, -1)


def heads_as_batches(model: Model) -> Model:
    """The model with them."""
    allowed = {k: node for k, node in enumerate(model.nodes) if _alone(model, node)}
    regions = [region for region in _regions(model, allowed) if _worth(model, allowed, region)]
    if not regions:
        return model
    inside = {id(allowed[k]) for region in regions for k in region}
    writing = _Writing(model, inside)
    nodes: list[Node] = []
    for node in model.nodes:
        nodes += writing.written(node) if id(node) in inside else (node,)
    return needed(without_detours(writing.model_of(nodes)))


# ---- which nodes ----


def _heads(model: Model, name: str) -> int:
    """How many matrices a computed value is; 0 where it is something else."""
    value = model.value(name)
    shape = value.fixed or ()
    fits = len(shape) == _RANK and shape[0] == 1 and 0 not in shape
    return shape[1] if fits and value.dtype == np.float32 and name not in model.constants else 0


def _computed(model: Model, node: Node) -> list[str]:
    return [name for name in node.inputs if name and name not in model.constants]


def _alone(model: Model, node: Node) -> bool:
    """Whether a node does something to each matrix by itself that can be said of three dimensions."""
    if not node.is_known or node.captured or not _computed(model, node):
        return False
    if len(node.outputs) != 1 and node.op != "Split":  # a mean, a mask: there are no layers for these
        return False
    counts = {_heads(model, name) for name in (*_computed(model, node), *node.makes)}
    return len(counts) == 1 and 0 not in counts and _in_matrices(model, node)


def _in_matrices(model: Model, node: Node) -> bool:
    given = [model.constants.get(name) for name in node.inputs[1:] if name]
    constants = [array for array in given if array is not None]
    if node.op == "MatMul":  # perhaps with a factor and a bias
        return node.inputs[0] not in model.constants and all(array.ndim < 3 for array in constants)
    if not node.is_plain:
        return False
    axis = int(node.attributes.get("axis", 0 if node.op == "Split" else -1))
    match node.op:
        case "Transpose":
            return list(node.attributes.get("perm", ())) == last_two_swapped(_RANK)
        case "Softmax":
            return model.opset >= _AXIS_ALONE and axis in _LAST
        case "LayerNormalization" | "RMSNormalization":
            return axis in _LAST and len(constants) == len(given) and all(one.ndim < 2 for one in constants)
        case "Concat":
            known = "axis" in node.attributes and axis in _AXES
            return known and len(_computed(model, node)) == len(node.inputs)
        case "Split":
            return axis in _AXES and len(constants) == len(given)
        case "Slice":
            axes = (
                constants[2]
                if len(constants) == len(given) and len(node.inputs) > 3 and node.inputs[3]
                else None
            )
            return axes is not None and all(int(one) in _AXES for one in np.ravel(axes))
        case "Pad":
            pads = constants[0] if len(constants) == len(given) and len(node.inputs) in (2, 3) else None
            return pads is not None and pads.size == 2 * _RANK and not pads.reshape(2, _RANK)[:, :2].any()
    if node.op in ONE_BY_ONE or node.op == "Clip":
        return len(_computed(model, node)) == 1
    return node.op in ARITHMETIC and "axis" not in node.attributes and all(map(_broadcasts, constants))


def _broadcasts(array: Array) -> bool:
    """Whether a constant has no more than a matrix for each head."""
    return array.dtype == np.float32 and (array.ndim < _RANK or array.shape[:1] == (1,))


def _regions(model: Model, allowed: dict[int, Node]) -> Iterator[list[int]]:
    """The allowed nodes that hand values to one another, each region in order."""
    maker = {name: k for k, node in allowed.items() for name in node.makes}
    root = {k: k for k in allowed}

    def find(k: int) -> int:
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        return k

    for k, node in allowed.items():
        for name in _computed(model, node):
            if name in maker:
                root[find(k)] = find(maker[name])
    found: dict[int, list[int]] = {}
    for k in allowed:
        found.setdefault(find(k), []).append(k)
    yield from found.values()


def _worth(model: Model, allowed: dict[int, Node], region: list[int]) -> bool:
    """Drop from a region what belongs to pictures around it. Whether a product of two matrices is left."""
    inside = {k: allowed[k] for k in region}
    dropped = True
    while dropped:
        made = {name for node in inside.values() for name in node.makes}
        read = {name for node in inside.values() for name in node.inputs}
        dropped = False
        for k, node in list(inside.items()):
            if node.op in ("MatMul", "Transpose"):
                continue
            first = made.isdisjoint(node.inputs) and any(
                _is_picture(model.makers.get(name)) for name in node.inputs
            )
            last = read.isdisjoint(node.makes) and any(
                _is_picture(reader) for name in node.makes for reader in model.consumers.get(name, ())
            )
            if first or last:
                del inside[k]
                dropped = True
    region[:] = inside
    return any(node.op == "MatMul" and len(_computed(model, node)) > 1 for node in inside.values())


def _is_picture(node: Node | None) -> bool:
    """Whether a node outside works on what lies in four dimensions, and is no mere move."""
    return node is not None and not node.is_a(*_MOVES)


# ---- what is in their place ----


@dataclass
class _Writing:
    """Regions written anew. Values that nothing else reads keep their names, and so their ranges."""

    model: Model
    region: Container[int]  # ids of the nodes that are written anew

    def __post_init__(self) -> None:
        self._constants: dict[str, Array] = dict(self.model.constants)
        self._values = dict(self.model.values)
        self._known = {name for node in self.model.nodes for name in (*node.reads, *node.makes)}
        self._known |= {value.name for value in self.model.inputs}
        self._names: dict[str, str] = {}  # of values with three dimensions
        self._axis = ""  # the constant that views name their axis by, where there is one

    def model_of(self, nodes: Sequence[Node]) -> Model:
        return replace(self.model, nodes=tuple(nodes), constants=self._constants, values=self._values)

    def written(self, node: Node) -> list[Node]:
        """A node with three dimensions, views of what it takes before it and of what it makes behind."""
        nodes: list[Node] = []
        inputs = list(node.inputs)
        for i, name in enumerate(node.inputs):
            if name and name not in self.model.constants:
                nodes += self._entering(name)
                inputs[i] = self._names[name]
            elif node.op in ARITHMETIC:
                inputs[i] = self._constant(name)
        outputs, views = list(node.outputs), []
        for i, name in enumerate(node.outputs):
            if name and self._inside(name):
                self._names[name] = self._named(name, name)
            elif name:
                outputs[i] = self._names[name] = self._named(self._free(f"{name}:heads"), name)
                views.append(self._view("Unsqueeze", outputs[i], name))
        written = replace(node, inputs=tuple(inputs), outputs=tuple(outputs), proto=None)
        return [*nodes, self._in_three(written), *views]

    def _entering(self, name: str) -> list[Node]:
        """What makes a value of three dimensions of one from outside, where nothing has yet. Heads that are
        brought to the front for it are so with three dimensions: that can be the load of the matrices."""
        if name in self._names:
            return []
        self._names[name] = self._named(self._free(f"{name}:heads"), name)
        maker = self.model.makers.get(name)
        order = maker.attributes.get("perm") if maker is not None and maker.is_a("Transpose") else None
        brought = order == [0, 2, 1, 3] and self._inside(name)
        if maker is None or not brought or not _heads(self.model, maker.inputs[0]):
            return [self._view("Squeeze", name, self._names[name])]
        (source,) = maker.inputs
        nodes = self._entering(source)
        turned = replace(maker, inputs=(self._names[source],), outputs=(self._names[name],), proto=None)
        return [*nodes, replace(turned, attributes={"perm": [1, 0, 2]})]

    def _inside(self, name: str) -> bool:
        """Whether only nodes that are written anew read a value."""
        readers = self.model.consumers.get(name, ())
        return name not in self.model.results and all(id(one) in self.region for one in readers)

    def _named(self, name: str, source: str) -> str:
        shape = self.model.value(source).fixed
        assert shape is not None
        self._values[name] = Value(name, shape[1:], np.dtype(np.float32))
        return name

    def _view(self, op: str, source: str, made: str) -> Node:
        if self.model.opset < 13:
            return Node(op, "", "", (source,), (made,), {"axes": [0]})
        if not self._axis:
            self._axis = self._added("head batches:axis", np.zeros(1, np.int64))
        return Node(op, "", "", (source, self._axis), (made,))

    def _constant(self, name: str) -> str:
        array = self._constants[name]
        if array.ndim < _RANK:
            return name
        return self._added(f"{name}:heads", array[0])

    def _added(self, stem: str, array: Array) -> str:
        """A constant more; its name."""
        name = self._free(stem)
        self._constants[name] = array
        return name

    def _free(self, stem: str) -> str:
        """A name that the model does not have, nor what was written so far."""
        return free_name(stem, self._values, self._constants, self._known)

    def _in_three(self, node: Node) -> Node:
        """The node with the axes of three dimensions."""
        match node.op:
            case "Transpose":
                return replace(node, attributes={"perm": last_two_swapped(_RANK - 1)})
            case "Softmax" | "LayerNormalization" | "RMSNormalization":
                return replace(node, attributes={**node.attributes, "axis": -1})
            case "Concat" | "Split":
                axis = int(node.attributes["axis"])
                return replace(node, attributes={**node.attributes, "axis": axis if axis < 0 else axis - 1})
            case "Slice":
                axes = self._constants[node.inputs[3]]
                name = self._added(f"{node.outputs[0]}:axes", np.where(axes < 0, axes, axes - 1))
                return replace(node, inputs=(*node.inputs[:3], name, *node.inputs[4:]))
            case "Pad":
                pads = self._constants[node.inputs[1]].reshape(2, _RANK)[:, 1:].reshape(-1)
                name = self._added(f"{node.outputs[0]}:pads", pads)
                return replace(node, inputs=(node.inputs[0], name, *node.inputs[2:]))
        return node
