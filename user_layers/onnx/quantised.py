"""Quantised models (QDQ and QOperator) in float, and what their scales say of every tensor's range.

QuantizeLinear and DequantizeLinear between layers become nothing, QLinearConv and its like the operation
that they stand for; the layers become 8-bit ones again from the ranges, on the grids that the chip has.
Weights are what the integers of the file stand for. Zero points other than 0 say that a range is not
symmetric: the chip has none, so its larger side counts. Where a range begins at 0, the model's integers cut
what is below; a Relu does that here. A range whose ends have at most two places is that of a Clip (ReLU6, or
from -1 to 1.5) which was left out because the integers cut: it comes back. Other ends are the largest values
that were seen, and cutting there would only cost steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from firmware_sim.errors import ModelError
from user_layers.graph.prepared import free_name
from user_layers.onnx.kinds import KEEPING, MOVING, POSITIVE, TURNING, WITHIN
from user_layers.onnx.model import STANDARD, Array, Model, Node, Value, shown
from user_layers.quantize.table import LEAST, MOST, Range

_MICROSOFT = "com.microsoft"
_FLOAT = np.dtype(np.float32)
_INTEGERS = (np.dtype(np.int8), np.dtype(np.uint8))
_WHOLE = 1e-6  # of a number: how far its 255th part in single precision may take it
_PARTS = (1, 10, 100)  # of 1: numbers at which clips end are written with up to two places
_WIDEST = 1024  # of such parts: large numbers in single precision are all whole
_WIDE = (np.dtype(np.int16), np.dtype(np.uint16))
_CODES: Mapping[int, np.dtype[Any]] = dict(zip((3, 2, 5, 4), (*_INTEGERS, *_WIDE), strict=True))
"""By TensorProto's numbers."""
_NOTHING_KNOWN = (-math.inf, math.inf)
_ONE_AXIS = 13  # ONNX's version from which on Softmax goes along one
_FEW = 64  # constants that are looked at


def in_float(model: Model) -> tuple[Model, dict[str, Range], bool]:
    """The model without its integers, the ranges of tensors of 8 bits by names, and whether there were some
    of 16 bits, which have none: they are finer than what the chip multiplies. A model without integers stays
    as it is. What has no scale for the whole tensor, and what inputs and outputs of the model have in
    integers, stays too. Errors: ModelError for a scale that is none."""
    walk = _Walk(model)
    for node in model.nodes:
        walk.node(node)
    return walk.result()


class _Walk:
    """Over the nodes in their order."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.opset = model.opset
        self._nodes: list[Node] = []
        self._values = dict(model.values)
        self._constants = dict(model.constants)
        self._makers = model.makers
        # Integers of the model that are float now: names of their scales and zero points.
        self._grids: dict[str, tuple[str, str]] = {}
        self.ranges: dict[str, Range] = {}
        self._wide: dict[str, Range] = {}  # of integers of 16 bits
        self._zeros: dict[str, str] = {}  # zero points of integers of which the file says the type alone
        self._ends: dict[str, tuple[float, float]] = {}
        self._stand_for: dict[str, str] = {}  # what DequantizeLinear makes of constants
        self._tables: set[str] = set()  # results of Gather that are float now, though nothing rounds them

    def result(self) -> tuple[Model, dict[str, Range], bool]:
        ranges = {name: one for name, one in self.ranges.items() if LEAST <= one.threshold <= MOST}
        if not self._grids and self._constants.keys() == self._model.constants.keys():
            return self._model, ranges, False
        made = replace(self._model, nodes=tuple(self._nodes), values=self._values, constants=self._constants)
        return made, ranges, bool(self._wide)

    def node(self, node: Node) -> None:
        """Take one node over, or what it stands for."""
        rule = None if node.is_own else _RULES.get((_domain(node), node.op))
        if rule is not None:
            self._check_scales(node)
        made = rule(self, node) if rule is not None else None
        if made is not None:
            self._nodes += made
        elif (table := self._table(node)) is not None:
            self._nodes.append(table)
        elif self._moves(node):
            self._nodes.append(self._moving(node))
        else:
            self._nodes.append(self._in_integers_again(node))

    def _check_scales(self, node: Node) -> None:
        """Errors: ModelError for a scale that is not finite, or not above 0; a channel of constant weights
        may have 0 or less."""
        if node.op in ("Clip", "Relu"):
            return
        linear = node.op in ("QuantizeLinear", "DequantizeLinear")
        for at, name in enumerate(node.inputs):
            scale = self.constant(name) if name else None
            if scale is None or scale.dtype.kind != "f" or (linear and at != 1):
                continue
            data = self.constant(node.inputs[at - 1]) if at else None
            weights = data is not None and data.ndim > 0 and node.op != "QuantizeLinear"
            wrong = scale[~np.isfinite(scale) | ((scale <= 0) & (not weights))]
            if wrong.size:
                raise ModelError(
                    f"{node.title}: the scale {shown(name)} is {wrong.reshape(-1)[0]:g}",
                    hint="scales are finite and above 0; quantise the model again",
                )

    def _table(self, node: Node) -> Node | None:
        """A Gather of rows of constant integers that alone a DequantizeLinear with one scale reads, in
        float."""
        reader = self._model.only_reader(node.outputs[0])
        if not node.is_a("Gather") or reader is None or reader.op != "DequantizeLinear" or reader.is_own:
            return None
        scale = self.constant(reader.inputs[1])
        if scale is None or scale.size != 1 or scale.dtype != _FLOAT or self.constant(node.inputs[0]) is None:
            return None
        rows = self.operand(node.inputs[0], reader.inputs[1], _at(reader, 2), 0)
        if rows is None:
            return None
        made = node.outputs[0]
        self._values[made] = Value(made, self._model.value(made).shape, _FLOAT)
        self._tables.add(made)
        return replace(node, inputs=(rows, *node.inputs[1:]), proto=None)

    def _moves(self, node: Node) -> bool:
        """Whether a node does with floats what it does with integers, and makes no result of the model."""
        if node.is_own or node.op not in MOVING or _domain(node):
            return False
        moved = [name for name in node.inputs if name in self._grids]
        if any(not self.stands_for(name, *self._grids[moved[0]]) for name in moved):
            return False
        others = (name for name in node.inputs if name not in self._grids and name not in self._constants)
        if moved and any(self._model.value(name).dtype in _INTEGERS for name in others):
            return False
        return not any(self.is_result(name) for name in node.outputs)

    def _moving(self, node: Node) -> Node:
        """What moves integers, or picks the greatest, does the same with the floats that they stand for."""
        source = next((name for name in node.inputs if name in self._grids), None)
        if source is None:
            if node.op in TURNING and node.inputs[0] in self.ranges:
                self.ranges.setdefault(node.outputs[0], self.ranges[node.inputs[0]])
            return node
        scale, zero = self._grids[source]
        inputs = list(node.inputs)
        if node.op == "Pad" and node.attributes.get("mode", "constant") == "constant":
            inputs += [""] * (3 - len(inputs))
            inputs[2] = inputs[2] or self.add(f"{node.outputs[0]}:fill", np.zeros((), self._integer(zero)))
        for at, name in enumerate(inputs):
            array = self.constant(name)
            if array is not None and array.dtype == self._integer(zero):
                inputs[at] = self.operand(name, scale, zero, 0) or name
        made = node.outputs[:1] if node.op == "MaxPool" else node.outputs  # its others are positions
        for name in filter(None, made):
            self.now_float(name, scale, zero)
            self.same(source, name)
        return replace(node, inputs=tuple(inputs), proto=None)

    def _in_integers_again(self, node: Node) -> Node:
        """What computes with the integers themselves gets them."""
        inputs = list(node.inputs)
        for at, name in enumerate(inputs):
            if name not in self._grids:
                continue
            scale, zero = self._grids[name]
            inputs[at] = f"{name}:integers"
            if inputs[at] not in self._values:
                self._values[inputs[at]] = Value(
                    inputs[at], self._model.value(name).shape, self._integer(zero)
                )
                operands = (name, scale, zero) if zero else (name, scale)
                self._nodes.append(Node("QuantizeLinear", "", "", operands, (inputs[at],)))
        return node if inputs == list(node.inputs) else replace(node, inputs=tuple(inputs), proto=None)

    def _integer(self, zero: str) -> np.dtype[Any]:
        """The type of integers with this zero point."""
        return self._constants[zero].dtype if zero else np.dtype(np.uint8)

    def now_float(self, name: str, scale: str, zero: str) -> None:
        """A tensor of the model's is float from now on; its integers had this scale and zero point."""
        self._grids[name] = scale, zero
        self._values[name] = Value(name, self._model.value(name).shape, _FLOAT)

    def narrowed(self, node: Node, source: str, made: str) -> list[Node] | None:
        """A Clip of integers at constant ends, or a Relu, on the floats that they stand for."""
        if source not in self._grids:
            return None
        scale, zero = self._grids[source]
        known, limits = self.ends(source), [self.constant(_at(node, at)) for at in (1, 2)]
        if node.op == "Relu":
            limits = [np.array(0), np.array(np.iinfo(self._integer(zero)).max)]
        step, point = self._numbers(scale), self._numbers(zero)
        if known is None or any(one is None or one.size != 1 for one in (*limits, step, point)):
            return None
        least, most = (float(one.reshape(-1)[0]) - float(point[0]) for one in limits if one is not None)
        low, high = max(least * float(step[0]), known.low), min(most * float(step[0]), known.high)
        if low >= high:
            return None
        self.now_float(made, scale, zero)
        narrow = Range.between(low, high)
        ranges = self._wide if source in self._wide else self.ranges
        ranges[made] = narrow
        if self._model.only_reader(source) is not None:  # what others read is not cut
            ranges[source] = narrow
            maker = self._makers.get(source)
            if (
                maker is not None
                and maker.op == "QuantizeLinear"
                and self._model.only_reader(maker.inputs[0])
            ):
                ranges[maker.inputs[0]] = narrow
        if low <= known.low and high >= known.high:
            return [Node("Identity", "", node.name, (source,), (made,))]
        if low == 0 and high >= known.high:
            return [Node("Relu", "", node.name, (source,), (made,))]
        ends = (self.add(f"{made}:end", np.array(end, np.float32)) for end in (low, high))
        return [Node("Clip", "", node.name, (source, *ends), (made,))]

    def whole(self, name: str) -> str:
        """A name for the numbers of a tensor before its range cuts them."""
        made = f"{name}:whole"
        self._values[made] = Value(made, self._model.value(name).shape, _FLOAT)
        return made

    def cut(self, title: str, source: str, made: str, node: Node | None = None) -> Node:
        """What integers that end at 0, at short numbers, or before those that others make of a tensor, do to
        it; `node` makes it, or whatever does in the model."""
        node = node or self._makers.get(source)
        known, ends = self.ends(made), self._narrower(source, made)
        if known is None or (node is None and ends is None):
            return Node("Identity", "", title, (source,), (made,))
        least, most = _NOTHING_KNOWN if node is None else self._within(node)
        ends = ends or self._clip(made)
        near = _WHOLE * (known.high - known.low)  # constants have been rounded, too
        if ends is not None and (least < ends[0] - near or most > ends[1] + near):
            names = (self.add(f"{made}:end", np.array(end, np.float32)) for end in ends)
            return Node("Clip", "", title, (source, *names), (made,))
        cuts = known.low >= 0 and least < -near
        return Node("Relu" if cuts else "Identity", "", title, (source,), (made,))

    def _narrower(self, source: str, made: str) -> tuple[float, float] | None:
        """The ends of integers that a tensor goes beyond by more than one of its own steps, because others
        read it with a wider range."""
        whole, own = self.ends(source), self.ends(made)
        if whole is None or own is None:
            return None
        step = whole.threshold / np.iinfo(np.int8).max
        beyond = whole.low < own.low - step or whole.high > own.high + step
        return (own.low, own.high) if beyond else None

    def _clip(self, made: str) -> tuple[float, float] | None:
        """Short decimal numbers at which a range ends. A quantiser that has them keeps their distance, and
        moves both by the rounding of the zero point."""
        scale, zero = self._grids[made]
        step, point = (float(self._numbers(name)[0]) for name in (scale, zero))
        ends = np.iinfo(self._integer(zero))
        low, width = (ends.min - point) * step, (ends.max - ends.min) * step
        for parts in _PARTS:
            least, wide = round(low * parts), round(width * parts)
            near = abs(width * parts - wide) <= _WHOLE * wide and abs(low * parts - least) <= step * parts
            if wide <= _WIDEST and near:
                return least / parts, (least + wide) / parts
        return None

    def _within(self, node: Node) -> tuple[float, float]:
        """Between what the results of a node lie, as far as it is known; cubic Resize goes further."""
        if (op := node.op.removeprefix("QLinear")) in WITHIN:
            return WITHIN[op]
        if node.op in KEEPING and node.attributes.get("mode") != "cubic":
            joined = {"Concat": node.inputs, "Where": node.inputs[1:]}.get(node.op, node.inputs[:1])
            inputs = [self._ends_of(name) for name in joined]
            return min(low for low, _ in inputs), max(high for _, high in inputs)
        if node.op == "Clip":
            return self._number(node, 1, -math.inf), self._number(node, 2, math.inf)
        if node.op in ("Add", "Mul") and len(node.inputs) == 2:
            for one, other in (node.inputs, node.inputs[::-1]):
                number = self._known(other)
                if number is not None and number.size == 1:
                    low, high = self._ends_of(one)
                    c = float(number.reshape(-1)[0])
                    if node.op == "Add":
                        return low + c, high + c
                    return (low * c, high * c) if c > 0 else _NOTHING_KNOWN
        square = (node.op == "Pow" and self._number(node, 1, 1.0) == 2) or (
            node.op == "Mul" and len({*node.inputs}) == 1
        )
        return (0.0, math.inf) if square or self._stays_positive(node) else _NOTHING_KNOWN

    def _stays_positive(self, node: Node) -> bool:
        """Whether an operation makes nothing below 0 of what is not, and gets nothing else."""
        return node.op in POSITIVE and all(self._ends_of(name)[0] >= 0 for name in node.inputs if name)

    def _ends_of(self, name: str) -> tuple[float, float]:
        """Between what a tensor of the model lies, and is cut to."""
        if name not in self._ends:
            number = self._known(name)
            if number is not None and 0 < number.size <= _FEW and number.dtype == _FLOAT:
                return float(number.min()), float(number.max())
            maker = self._makers.get(name)
            low, high = _NOTHING_KNOWN if maker is None else self._within(maker)
            if name in self._grids:
                known, ends = self.ends(name), self._clip(name)
                low = max(low, 0.0) if known is not None and known.low >= 0 else low
                low, high = (max(low, ends[0]), min(high, ends[1])) if ends is not None else (low, high)
            self._ends[name] = low, high
        return self._ends[name]

    def _known(self, name: str) -> Array | None:
        """A constant, or what one stands for."""
        return self.constant(self._stand_for.get(name, name))

    def named(self, node: Node, found: str, made: str) -> Node:
        """A constant of its own by the name that it has in the model."""
        self._stand_for[made] = found
        return Node("Identity", "", node.name, (found,), (made,))

    def _number(self, node: Node, at: int, default: float) -> float:
        """An input of one constant number; the default where it is left out or computed."""
        array = self._known(_at(node, at))
        return default if array is None or array.size != 1 else float(array.reshape(-1)[0])

    def is_result(self, name: str) -> bool:
        """Whether a tensor is an output of the model, which keeps its type."""
        return name in self._model.results

    def is_table(self, name: str) -> bool:
        """Whether these are rows of constant integers, in float now."""
        return name in self._tables

    def is_float(self, name: str) -> bool:
        """Whether a tensor is, or has become, float."""
        value = self._model.value(name)  # behind onnxruntime's operations nobody infers a type
        return name in self._grids or value.dtype is None or value.is_float

    def stands_for(self, name: str, scale: str, zero: str) -> bool:
        """Whether a tensor is float by now, made from integers with this scale and zero point."""
        return name in self._grids and all(
            np.array_equal(self._numbers(mine), self._numbers(theirs))
            for mine, theirs in zip(self._grids[name], (scale, zero), strict=True)
        )

    def _numbers(self, name: str) -> Array:
        """Of a scale or a zero point; nothing where they are no constant."""
        array = self.constant(name) if name else np.zeros(1, np.uint8)
        return np.zeros(0) if array is None else array.reshape(-1)

    def seen(self, scale: str, zero: str, *names: str) -> bool:
        """Note the range of these tensors; False where there is no single scale."""
        found = self._range(scale, zero)
        if found is None:
            return False
        (self._wide if self._is_wide(zero) else self.ranges).update(dict.fromkeys(names, found))
        return True

    def _is_wide(self, zero: str) -> bool:
        """Whether integers with this zero point have 16 bits."""
        return bool(zero) and self._constants[zero].dtype in _WIDE

    def read(self, source: str, made: str) -> None:
        """Note the range of a tensor that QuantizeLinear nodes read, if nothing before says one: what all of
        theirs hold, in whichever order they come. Where something does, what one of them makes goes no
        further."""
        known, own = self.ends(source), self.ends(made)
        if known is not None and own is not None:
            low, high = max(known.low, own.low), min(known.high, own.high)
            if low < high:
                (self._wide if made in self._wide else self.ranges)[made] = Range.between(low, high)
            return
        found: list[tuple[Range, bool]] = []
        for node in self._model.consumers.get(source, ()):
            if node.op == "QuantizeLinear" and not node.is_own and node.inputs[0] == source:
                zero = self.whole_zero(node)
                one = self._range(node.inputs[1], zero)
                found += [] if one is None else [(one, self._is_wide(zero))]
        if found:
            ranges = self._wide if all(wide for _, wide in found) else self.ranges
            ranges[source] = reduce(Range.joined, (one for one, _ in found))

    def same(self, name: str, made: str) -> None:
        """A tensor has the range of another, which may be narrower than its scale says."""
        for ranges in (self.ranges, self._wide):
            if name in ranges:
                ranges[made] = ranges[name]

    def ends(self, name: str) -> Range | None:
        """What a tensor's integers reach, of 8 or of 16 bits."""
        return self.ranges.get(name) or self._wide.get(name)

    def whole_zero(self, node: Node) -> str:
        """The zero point of what a QuantizeLinear makes; where its type alone is said, one of that type."""
        if _at(node, 2) or node.attributes.get("output_dtype", 0) not in _CODES:
            return _at(node, 2)
        made = node.outputs[0]
        if made not in self._zeros:
            kind = _CODES[node.attributes["output_dtype"]]
            self._zeros[made] = self.add(f"{made}:zero", np.zeros((), kind))
        return self._zeros[made]

    def _range(self, scale: str, zero: str) -> Range | None:
        steps = self._constants.get(scale)
        zeros = self._constants.get(zero) if zero else np.zeros((), np.uint8)
        if steps is None or zeros is None or steps.size != 1 or zeros.size != 1:
            return None
        if zeros.dtype not in (*_INTEGERS, *_WIDE) or not float(steps.reshape(-1)[0]) > 0:
            return None
        step, point = float(steps.reshape(-1)[0]), int(zeros.reshape(-1)[0])
        ends = np.iinfo(zeros.dtype)
        # -128 belongs to 127: a symmetric grid is the one on which both ends are as far.
        least = max(ends.min, -ends.max) if point == 0 else ends.min
        low, high = (least - point) * step, (ends.max - point) * step
        return Range.between(low, high)

    def constant(self, name: str) -> Array | None:
        """A constant of the model."""
        return self._constants.get(name)

    def operand(self, name: str, scale: str, zero: str, axis: int) -> str | None:
        """The float tensor that an operand of a node in integers stands for, None for one that is neither
        float by now nor a constant; axis: along which a constant has scales for each channel."""
        if name in self._grids:
            return name if self.stands_for(name, scale, zero) and self._range(scale, zero) else None
        integers, steps = self.constant(name), self.constant(scale)
        zeros = self.constant(zero) if zero else np.zeros((), np.int32)
        if integers is None or steps is None or zeros is None:
            return None
        return self.add(f"{name}:float", dequantised(integers, steps, zeros, axis))

    def has_channel_scales(self, node: Node) -> bool:
        """Whether a DequantizeLinear has one scale in float32, or one for each channel of its axis."""
        integers, scale = self.constant(node.inputs[0]), self.constant(node.inputs[1])
        if integers is None or scale is None or scale.dtype != _FLOAT or node.attributes.get("block_size", 0):
            return False
        if scale.size == 1:
            return True
        axis = node.attributes.get("axis", 1)
        return -integers.ndim <= axis < integers.ndim and scale.shape == (integers.shape[axis],)

    def add(self, name: str, array: Array) -> str:
        """A constant of its own."""
        name = free_name(name, self._constants, self._values)
        self._constants[name] = array
        return name


def dequantised(integers: Array, steps: Array, points: Array, axis: int) -> Array:
    """What integers stand for; scales and zero points are one, one for each channel of an axis, or as many as
    are broadcast."""

    def beside(one: Array) -> Array:
        along = [1] * integers.ndim
        if one.size > 1 and one.ndim == 1:
            along[axis] = -1  # of a constant with one scale the axis says nothing, and may be none
        return one.astype(_FLOAT).reshape(() if one.size == 1 else along if one.ndim == 1 else one.shape)

    step, point = beside(steps), beside(points)
    return (integers.astype(_FLOAT) - point) * step


def _domain(node: Node) -> str:
    return "" if node.domain in STANDARD else node.domain


def _at(node: Node, index: int) -> str:
    return node.inputs[index] if index < len(node.inputs) else ""


Rule = Callable[[_Walk, Node], "list[Node] | None"]
"""What a node stands for in float; None where it stays as it is."""

_RULES: dict[tuple[str, str], Rule] = {}


def _rule(domain: str, op: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        _RULES[domain, op] = rule
        return rule

    return add


@_rule("", "QuantizeLinear")
@_rule(_MICROSOFT, "QuantizeLinear")
def _quantize(walk: _Walk, node: Node) -> list[Node] | None:
    """To integers: nothing, where everything behind is float too."""
    source, made = node.inputs[0], node.outputs[0]
    if walk.constant(source) is not None:
        return None
    zero = walk.whole_zero(node)
    if not walk.seen(node.inputs[1], zero, made):
        return None
    walk.read(source, made)
    if walk.is_result(made) or not walk.is_float(source):
        return None
    walk.now_float(made, node.inputs[1], zero)
    return [walk.cut(node.name, source, made)]


@_rule("", "DequantizeLinear")
@_rule(_MICROSOFT, "DequantizeLinear")
def _dequantize(walk: _Walk, node: Node) -> list[Node] | None:
    """From integers: nothing, where they are float. Integers that are inputs of the model stay. Constants are
    what they stand for, but with a scale for each block: that is computed when constants are."""
    source, made = node.inputs[0], node.outputs[0]
    if walk.constant(source) is not None:
        if not walk.has_channel_scales(node):
            return None
        found = walk.operand(source, node.inputs[1], _at(node, 2), node.attributes.get("axis", 1))
        return None if found is None else [walk.named(node, found, made)]
    if walk.is_table(source):
        return [Node("Identity", "", node.name, (source,), (made,))]
    walk.seen(node.inputs[1], _at(node, 2), made)
    if not walk.stands_for(source, node.inputs[1], _at(node, 2)):
        return None
    walk.same(source, made)
    return [Node("Identity", "", node.name, (source,), (made,))]


@_rule("", "Clip")
@_rule("", "Relu")
def _clip_integers(walk: _Walk, node: Node) -> list[Node] | None:
    """Fewer bits than 8 (or no -128), between QuantizeLinear and DequantizeLinear: a narrower range."""
    source, made = node.inputs[0], node.outputs[0]
    return None if walk.is_result(made) else walk.narrowed(node, source, made)


def _spelled(
    walk: _Walk,
    node: Node,
    op: str,
    operands: Sequence[tuple[int, int]],
    result: int,
    bias: int | None = None,
) -> list[Node] | None:
    """The operation on floats. operands: where each one's tensor, scale and zero point begin, and the axis of
    scales for each channel; result: where scale and zero point of the result are; bias: an int32 operand in
    the product of the first two scales."""
    made = node.outputs[0]
    if walk.is_result(made):
        return None
    inputs = [
        walk.operand(node.inputs[at], node.inputs[at + 1], _at(node, at + 2), axis) for at, axis in operands
    ]
    if None in inputs or not walk.seen(node.inputs[result], _at(node, result + 1), made):
        return None
    if bias is not None and _at(node, bias):
        integers = walk.constant(node.inputs[bias])
        steps = [walk.constant(node.inputs[at + 1]) for at, _ in operands[:2]]
        if integers is None or steps[0] is None or steps[1] is None:
            return None
        scale = steps[0].reshape(-1).astype(np.float64) * steps[1].reshape(-1)
        scale = scale * float(node.attributes.get("alpha", 1.0))  # of QGemm
        wide = (integers.astype(np.float64) * scale).astype(np.float32)
        inputs.append(walk.add(f"{node.inputs[bias]}:float", wide))
    walk.now_float(made, node.inputs[result], _at(node, result + 1))
    whole = walk.whole(made)
    walk.seen(node.inputs[result], _at(node, result + 1), whole)
    kept = {key: value for key, value in node.attributes.items() if key != "channels_last"}
    one = Node(op, "", node.name, tuple(map(str, inputs)), (whole,), kept)
    return [one, walk.cut("", whole, made, replace(one, inputs=tuple(node.inputs[at] for at, _ in operands)))]


@_rule("", "QLinearConv")
def _conv(walk: _Walk, node: Node) -> list[Node] | None:
    return _spelled(walk, node, "Conv", [(0, 0), (3, 0)], 6, bias=8)


@_rule("", "QLinearMatMul")
def _matmul(walk: _Walk, node: Node) -> list[Node] | None:
    return _spelled(walk, node, "MatMul", [(0, 0), (3, -1)], 6)


@_rule(_MICROSOFT, "QGemm")
def _gemm(walk: _Walk, node: Node) -> list[Node] | None:
    return _spelled(walk, node, "Gemm", [(0, 0), (3, 0 if node.attributes.get("transB") else 1)], 7, bias=6)


@_rule(_MICROSOFT, "QLinearConcat")
def _concat(walk: _Walk, node: Node) -> list[Node] | None:
    return _spelled(walk, node, "Concat", [(at, 0) for at in range(2, len(node.inputs), 3)], 0)


def _simple(op: str, operands: int) -> Rule:
    def rule(walk: _Walk, node: Node) -> list[Node] | None:
        if node.attributes.get("channels_last"):
            return None
        flattens = int(node.attributes.get("opset", walk.opset)) < _ONE_AXIS
        if op == "Softmax" and flattens != (walk.opset < _ONE_AXIS):
            return None  # another version's, over all dimensions from the axis on or over one
        return _spelled(walk, node, op, [(3 * i, 0) for i in range(operands)], 3 * operands)

    return rule


for _op, _operands in {
    "Add": 2,
    "Mul": 2,
    "Sigmoid": 1,
    "LeakyRelu": 1,
    "AveragePool": 1,
    "GlobalAveragePool": 1,
    "Softmax": 1,
}.items():
    _RULES[_MICROSOFT, f"QLinear{_op}"] = _simple(_op, _operands)
