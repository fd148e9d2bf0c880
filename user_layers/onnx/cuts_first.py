"""Parts of the columns of a product, cut out before what is done to all of them alike.

Queries, keys and values are often one product, of which a transpose brings each part to the front before it
is taken; gates are halves of what went through a function. Cut out first, they are parts of columns of a
product with constants, which then makes each by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from user_layers.onnx.channels import ONE_BY_ONE
from user_layers.onnx.column_parts import pays
from user_layers.onnx.model import ARITHMETIC, Array, Model, Node, Rewriting, Value
from user_layers.onnx.views import RESHAPES, cut_of

Shape = tuple[int, ...]
_CUTS = ("Split", "Slice", "Gather", "GatherND")


@dataclass(frozen=True)
class _Part:
    """What a node cuts out of a value that is seen in more dimensions, and perhaps transposed. end: the value
    that is made of it; first, count, axis: along which of these dimensions; dropped: that is one element, and
    gone; order: of the dimensions, as they were; reader: the node, by its first output."""

    end: str
    first: int
    count: int
    axis: int
    dropped: bool
    order: tuple[int, ...]
    reader: str


@dataclass
class _Pass(Rewriting):
    def shape(self, name: str) -> Shape | None:
        value = self.model.value(name)
        return value.fixed if value.dtype == np.float32 else None

    def width(self, name: str) -> int:
        return (self.shape(name) or (0,))[-1]

    def constant(self, name: str, numbers: Sequence[int]) -> str:
        self.constants[name] = np.array(numbers, np.int64)
        return name

    def made(self, name: str, shape: Shape) -> str:
        self.values[name] = Value(name, shape, np.dtype(np.float32))
        return name

    def columns(self, source: str, end: str, first: int, count: int) -> Node:
        """`end`: some columns of a value."""
        given = [
            self.constant(f"{end}:{what}", [n])
            for what, n in (("from", first), ("to", first + count), ("along", -1))
        ]
        return Node("Slice", "", "", (source, *given), (end,))


def cut_before_transposes(model: Model) -> Model:
    """Put cuts of columns in the place of those of a product with constants that is seen in more dimensions,
    and perhaps transposed; and transposes of each part behind them."""
    pass_ = _Pass(model)
    for node in model.nodes:
        if node.is_a("Reshape") and len(node.inputs) == 2:
            _cut_before(pass_, node)
    return pass_.rewritten()


def cut_before_functions(model: Model) -> Model:
    """Put cuts of columns before a function of elements of a product with constants."""
    pass_ = _Pass(model)
    for node in model.nodes:
        if node.op in ONE_BY_ONE and node.is_known and len(node.inputs) == len(node.outputs) == 1:
            _cut_argument(pass_, node)
    return pass_.rewritten()


def _cut_before(pass_: _Pass, view: Node) -> None:
    """Cut what is seen by a view, and then perhaps transposed, before that."""
    model = pass_.model
    source, target, seen = view.inputs[0], model.constants.get(view.inputs[1]), view.outputs[0]
    whole, split = pass_.shape(source), pass_.shape(seen)
    if target is None or whole is None or split is None or 0 in split or seen in model.results:
        return
    inner = rows_of_product(model, source)
    if model.only_reader(source) is None or not inner:
        return
    found = _Cuts(pass_)
    straight = list(range(len(split)))
    for reader in model.consumers.get(seen, ()):
        turned = reader.outputs[0]
        order = [int(i) for i in reader.attributes.get("perm", straight[::-1])]
        if not reader.is_a("Transpose"):
            fits = found.add(reader, seen, straight)
        else:
            fits = turned not in model.results and all(
                found.add(one, turned, order) for one in model.consumers.get(turned, ())
            )
            found.gone.append(turned)
        if not fits:
            return
    axes = {part.axis for part in found.parts}
    if len(axes) != 1 or len(found.parts) < 2:
        return
    axis = axes.pop()
    start = next((d for d in straight if math.prod(split[d:]) == whole[-1]), len(split))
    if axis < start or (axis == len(split) - 1 > 2 and not _are_thirds(found.parts, split[-1])):
        return
    places = np.arange(whole[-1]).reshape(split[start:])
    columns = [
        places.take(range(one.first, one.first + one.count), axis - start).ravel() for one in found.parts
    ]
    if sum(map(len, columns)) > whole[-1] or not pays([len(one) for one in columns], inner):
        return  # what is cut out twice would be computed twice
    firsts = [int(one[0]) for one in columns]
    if any(np.diff(one).max(initial=1) != 1 for one in columns):  # they lie between one another
        source = _ordered(pass_, source, np.concatenate(columns))
        firsts = [sum(map(len, columns[:k])) for k in range(len(columns))]
    known = [split[d] if n == 0 and d >= start else int(n) for d, n in enumerate(target)]
    pass_.instead |= {name: [] for name in (seen, *found.gone)}
    for part, first, count in zip(found.parts, firsts, map(len, columns), strict=True):
        cut = pass_.made(f"{part.end}:columns", (*whole[:-1], count))
        nodes = [pass_.columns(source, cut, first, count)]
        kept = slice(axis, axis + 1) if part.dropped else slice(0, 0)
        extents, numbers, rest = list(split), list(known), list(part.order)
        extents[axis] = numbers[axis] = part.count
        del extents[kept], numbers[kept]
        if part.dropped:
            rest = [d - (d > axis) for d in part.order if d != axis]
        turns = rest != list(range(len(rest)))
        parted = pass_.made(f"{part.end}:parted", tuple(extents)) if turns else part.end
        nodes.append(Node("Reshape", "", "", (cut, pass_.constant(f"{parted}:as", numbers)), (parted,)))
        if turns:
            nodes.append(Node("Transpose", "", "", (parted,), (part.end,), {"perm": rest}))
        pass_.instead.setdefault(part.reader, []).extend(nodes)


def _are_thirds(parts: Sequence[_Part], extent: int) -> bool:
    """Whether elements of heads are cut into queries, keys and values. What else is cut out of heads is put
    together again (rotary embedding of a part of each), and stays there."""
    return sorted((part.first, part.count) for part in parts) == [
        (i * extent // 3, extent // 3) for i in range(3)
    ]


@dataclass
class _Cuts:
    """What is cut out of a value that is seen in more dimensions. gone: what goes beside the cuts."""

    pass_: _Pass
    parts: list[_Part] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def add(self, reader: Node, name: str, order: list[int]) -> bool:
        """Whether a node cuts out parts along a dimension. order: of the dimensions of what it reads."""
        model, shape = self.pass_.model, self.pass_.shape(name)
        if not reader.is_a(*_CUTS) or reader.inputs[0] != name or name in reader.inputs[1:] or shape is None:
            return False
        for made in reader.makes:
            after = self.pass_.shape(made)
            cut = cut_of(model, reader, made, shape, after) if after is not None else None
            if cut is None or after is None:
                return False
            axis, first, count = cut
            without, one = shape[:axis] + shape[axis + 1 :], (*shape[:axis], count, *shape[axis + 1 :])
            if after not in (without, one) or first + count > shape[axis]:
                return False
            end, dropped = made, len(after) < len(shape)
            squeeze = model.only_reader(made) if count == 1 and not dropped else None
            if (
                squeeze is not None
                and squeeze.is_a(*RESHAPES)
                and self.pass_.shape(squeeze.outputs[0]) == without
            ):
                end, dropped = squeeze.outputs[0], True
                self.gone.append(end)
            self.parts.append(_Part(end, first, count, order[axis], dropped, tuple(order), reader.outputs[0]))
        return True


def _ordered(pass_: _Pass, name: str, order: Array) -> str:
    """A product with its columns in another order, under another name."""
    model, made = pass_.model, f"{name}:ordered"
    node = model.makers[name]
    inputs = list(node.inputs)
    for k, given in enumerate(node.inputs):
        constant = model.constants.get(given)
        if constant is None:
            if node.op != "MatMul":
                inputs[k] = _ordered(pass_, given, order)
        elif constant.ndim:
            own = np.broadcast_to(constant, (*constant.shape[:-1], pass_.width(name)))[..., order]
            inputs[k] = f"{made}:{k}"
            pass_.constants[inputs[k]] = np.ascontiguousarray(own)
    pass_.made(made, (*(pass_.shape(name) or ())[:-1], len(order)))
    pass_.instead[name] = [replace(node, inputs=tuple(inputs), outputs=(made,), proto=None)]
    return made


def rows_of_product(model: Model, name: str) -> int:
    """Rows of the constant matrix that a value is a product with, perhaps with constants of its columns; 0
    where it is none."""
    while (node := model.makers.get(name)) is not None and node.is_plain and len(node.inputs) == 2:
        given = [model.constants[one] for one in node.inputs if one in model.constants]
        if node.op == "MatMul":
            fits = node.inputs[1] in model.constants and len(given) == 1 and given[0].ndim == 2
            return given[0].shape[0] if fits else 0
        if node.op not in ARITHMETIC or len(given) != 1 or given[0].ndim > 1:
            return 0
        name = next(one for one in node.inputs if one not in model.constants)
        if model.only_reader(name) is None:
            return 0
    return 0


def _cut_argument(pass_: _Pass, node: Node) -> None:
    model, source, made = pass_.model, node.inputs[0], node.outputs[0]
    maker, shape, readers = model.makers.get(source), pass_.shape(made), model.consumers.get(made, ())
    if maker is None or maker.op != "MatMul" or not maker.is_known or shape is None or made in model.results:
        return
    if model.only_reader(source) is None or pass_.shape(source) != shape or len(maker.inputs) < 2:
        return
    if maker.inputs[1] not in model.constants or model.constants[maker.inputs[1]].ndim != 2:
        return
    cuts: list[tuple[str, int, int]] = []
    for reader in readers:
        if not reader.is_a("Split", "Slice") or reader.inputs[0] != made:
            return
        for end in reader.makes:
            after = pass_.shape(end)
            cut = cut_of(model, reader, end, shape, after) if after is not None else None
            if cut is None or cut[0] != len(shape) - 1:
                return
            cuts.append((end, *cut[1:]))
    counts = [count for *_, count in cuts]
    if sum(counts) > shape[-1] or not pays(counts, len(model.constants[maker.inputs[1]])):
        return  # what is cut out twice would be computed twice
    pass_.instead |= {reader.outputs[0]: [] for reader in readers}
    nodes: list[Node] = []
    for end, first, count in cuts:
        part = pass_.made(f"{end}:columns", (*shape[:-1], count))
        nodes.append(pass_.columns(source, part, first, count))
        nodes.append(Node(node.op, node.domain, node.name, (part,), (end,), node.attributes))
    pass_.instead[made] = nodes
