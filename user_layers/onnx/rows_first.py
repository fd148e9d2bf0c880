"""What is done to each row comes before the transposes in front of it, which leave rows as they are:
normalisations and rotations of queries and keys. So attention sees through those, and nothing is moved for
its operands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from user_layers.onnx.columns import is_product
from user_layers.onnx.model import ARITHMETIC, Array, Model, Node, Rewriting, Value
from user_layers.onnx.rows import NORMS
from user_layers.onnx.views import RESHAPES

_BETWEEN = ("Transpose", "Mul", "Div", "Expand", *RESHAPES)  # and a product that makes scores


@dataclass(frozen=True)
class _Row:
    """A value behind transposes of one order. turn: the transpose that makes it; node: what makes it of
    others of the kind instead, with the constants that it needs in the order before."""

    order: tuple[int, ...]
    shape: tuple[int, ...]  # before
    turn: Node | None = None
    node: Node | None = None
    constants: tuple[tuple[int, Array], ...] = ()


def rows_before_transposes(model: Model) -> Model:
    """Put transposes that keep the last dimension behind what is done to it whose results are multiplied by
    matrices."""
    seen: dict[str, _Row] = {}
    for node in model.nodes:
        row = _row(model, node, seen)
        if row is not None:
            seen[node.outputs[0]] = row
    to = Rewriting(model)
    for name, row in seen.items():
        if row.node is None or any(reader.outputs[0] in seen for reader in model.consumers.get(name, ())):
            continue
        if _is_multiplied(model, name):
            _put_first(to, seen, name)
    return to.rewritten()


def _row(model: Model, node: Node, seen: dict[str, _Row]) -> _Row | None:
    """A node's result, where it is behind transposes or made of what is, row by row."""
    if len(node.outputs) != 1 or not node.inputs or not node.is_known:
        return None
    value = model.value(node.outputs[0])
    if value.fixed is None or value.dtype != np.float32 or len(value.fixed) < 3:
        return None
    if node.op == "Transpose":
        order = tuple(int(i) for i in node.attributes.get("perm", ()))
        before = model.value(node.inputs[0]).fixed
        if before is None or order[-1:] != (len(before) - 1,) or node.inputs[0] in model.constants:
            return None
        return _Row(order, before, turn=node)
    rows = [seen[name] for name in node.inputs if name in seen]
    if not rows or len({row.order for row in rows}) > 1:
        return None
    order, rank = rows[0].order, len(value.fixed)
    if len(order) != rank:
        return None
    shape = tuple(value.fixed[order.index(d)] for d in range(rank))
    constants: list[tuple[int, Array]] = []
    if node.op in ARITHMETIC and "axis" not in node.attributes:
        for i, name in enumerate(node.inputs):
            array = model.constants.get(name)
            if name in seen and model.value(name).fixed == value.fixed:
                continue
            if array is None or array.ndim > rank:
                return None
            whole = array.reshape((1,) * (rank - array.ndim) + array.shape)
            constants.append((i, whole.transpose([order.index(d) for d in range(rank)])))
    elif not _of_rows(model, node) and not (len(node.inputs) == 2 and is_product(model, node)):
        return None
    return _Row(order, shape, node=node, constants=tuple(constants))


def _put_first(to: Rewriting, seen: dict[str, _Row], end: str) -> None:
    """The nodes that make a value, of which nothing else is made, on rows as they are before the transposes,
    and one of these behind."""
    model = to.model
    inner = _made_of(seen, end)
    inside = {*inner, end}
    for name in inner:
        readers = model.consumers.get(name, ())
        if name in model.results or any(reader.outputs[0] not in inside for reader in readers):
            return
    nodes: list[Node] = []
    turn: Node | None = None
    for name in (*inner, end):
        row = seen[name]
        turn = row.turn or turn
        to.instead[name] = []
        if row.node is None:
            continue
        rows = f"{name}:before"
        inputs = [_before(seen, source) for source in row.node.inputs]
        for i, array in row.constants:
            inputs[i] = f"{rows}:{i}"
            to.constants[inputs[i]] = array
        to.values[rows] = Value(rows, row.shape, np.dtype(np.float32))
        nodes.append(replace(row.node, inputs=tuple(inputs), outputs=(rows,), proto=None))
    assert turn is not None  # where all of it begins
    last = replace(turn, inputs=(f"{end}:before",), outputs=(end,), proto=None)
    to.instead[end] = [*nodes, last]


def _made_of(seen: dict[str, _Row], end: str) -> list[str]:
    """What lies between transposes and a value, with what they make, in the order of the model."""
    found, open_ = set[str](), [end]
    while open_:
        node = seen[open_.pop()].node
        new = {name for name in node.inputs if name in seen} - found if node is not None else set[str]()
        found |= new
        open_ += new
    return [name for name in seen if name in found]


def _before(seen: dict[str, _Row], name: str) -> str:
    """The name of a value as it is before the transposes."""
    if name not in seen:
        return name
    turn = seen[name].turn
    return turn.inputs[0] if turn is not None else f"{name}:before"


def _of_rows(model: Model, node: Node) -> bool:
    """Whether a node normalises the last dimension of an fp32 value alone, by constants of one row."""
    if node.op not in NORMS:
        return False
    shape = model.value(node.inputs[0]).fixed
    if shape is None or int(node.attributes.get("axis", -1)) not in (-1, len(shape) - 1):
        return False
    given = [model.constants.get(name) for name in node.inputs[1:] if name]
    return all(one is not None and one.ndim <= 1 for one in given)


def _is_multiplied(model: Model, name: str) -> bool:
    """Whether what a value becomes is an operand of a product of two matrices that are computed."""
    while (reader := model.only_reader(name)) is not None and reader.is_plain and reader.outputs:
        if reader.op == "MatMul":
            return not any(one in model.constants for one in reader.inputs)
        if reader.op not in _BETWEEN:
            return False
        name = reader.outputs[0]
    return False
