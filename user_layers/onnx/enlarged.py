"""Convolutions of one tap behind pictures that are made larger: done before that, on fewer pixels.

What a decoder brings to one size is often joined along the channels and mixed by such a convolution. It is
the sum of convolutions of the parts, and each is linear as interpolation is, so they may change places. The
sums of a pixel are rounded in another order then.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from firmware_sim.chip import NPU_NUM
from user_layers.onnx.model import Model, Node, Rewriting, Value

Shape = tuple[int, ...]

_STEP = 16  # pixels of a lane that an instruction computes at a time
_PAIR = 0.56  # cycles of such a step for each channel that a convolution reads
_AXIS = 5  # for each axis along which a picture is made larger by interpolation
_ADD = 1


@dataclass(frozen=True)
class _Part:
    """Channels [first, end) of what a convolution reads. node: what makes a value larger to get them; without
    one they are read as they are."""

    name: str
    first: int
    end: int
    node: Node | None

    @property
    def small(self) -> str:
        """The value that is made larger."""
        assert self.node is not None
        return self.node.inputs[0]


def convolve_before_enlarging(model: Model, ranges: Collection[str] | None = None) -> Model:
    """Put convolutions of single parts, before these are made larger, in the place of those behind, where
    that takes fewer cycles. ranges: tensors whose ranges are known, where those of others are needed."""
    to = Rewriting(model)
    for conv in model.nodes:
        parts = _parts(model, conv)
        early = [part for part in parts if part.node and _pays(model, conv, part, len(parts) == 1)]
        if early:
            made = _divided(model, conv, parts, early)
            fresh = made.values.keys() - {conv.outputs[0]}
            if fresh & (model.values.keys() | model.constants.keys()):
                continue  # names that the model has
            if ranges is None or fresh <= set(ranges):
                to.constants.update(made.constants)
                to.values.update(made.values)
                to.instead.update(made.instead)
    return to.rewritten()


def _parts(model: Model, conv: Node) -> list[_Part]:
    """What a convolution of one tap reads, where nothing else does."""
    if not _one_tap(model, conv):
        return []
    maker = model.makers.get(conv.inputs[0])
    if model.only_reader(conv.inputs[0]) is None or maker is None:
        return []
    names = [conv.inputs[0]]
    if maker.is_a("Concat") and int(maker.attributes.get("axis", 1)) in (1, -3):
        names = list(maker.inputs)
    parts: list[_Part] = []
    for name in names:
        first = parts[-1].end if parts else 0
        shape = model.value(name).fixed
        if shape is None or len(shape) != 4:
            return []
        node = model.makers.get(name)
        alone = len(model.consumers[name]) == names.count(name) == 1 and name not in model.results
        made_larger = node is not None and alone and _enlarges(model, node)
        parts.append(_Part(name, first, first + shape[1], node if made_larger else None))
    return parts


def _one_tap(model: Model, conv: Node) -> bool:
    value = model.value(conv.outputs[0]) if conv.is_a("Conv") else None
    if value is None or value.fixed is None or len(value.fixed) != 4 or value.dtype != np.float32:
        return False
    attributes, weights = conv.attributes, model.constants.get(conv.inputs[1])
    if weights is None or any(name not in model.constants for name in conv.inputs[1:] if name):
        return False
    alone = (*attributes.get("strides", ()), attributes.get("group", 1), *weights.shape[2:])
    return all(n == 1 for n in alone) and not any(attributes.get("pads", ()))


def _enlarges(model: Model, node: Node) -> bool:
    """Whether it makes pictures larger by sums whose factors add up to 1."""
    if not node.is_a("Resize", "Upsample"):
        return False
    before, after = (model.value(name).fixed for name in (node.inputs[0], node.outputs[0]))
    get = node.attributes.get
    if before is None or after is None or len(before) != 4 or before[:2] != after[:2]:
        return False
    if get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return False
    if get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False
    if any(name not in model.constants for name in node.inputs[1:] if name):
        return False
    return before[2] <= after[2] and before[3] <= after[3] and math.prod(before[2:]) < math.prod(after[2:])


def _pays(model: Model, conv: Node, part: _Part, only: bool) -> bool:
    """Whether it takes fewer cycles to convolve first, and to make the results larger."""
    before, after = (model.value(name).fixed or () for name in (part.small, part.name))
    made = (model.value(conv.outputs[0]).fixed or ())[1]
    assert part.node is not None
    axes = sum(a != b for a, b in zip(before[2:], after[2:], strict=True))
    weighted = "nearest" not in str(part.node.attributes.get("mode", "nearest"))
    larger = axes * (_AXIS if weighted else 2)

    def cycles(pixels: int, channels: int, each: float) -> float:
        return -(-pixels // _STEP) * -(-channels // NPU_NUM) * each

    many, few = (math.prod(shape[2:]) for shape in (after, before))
    read = part.end - part.first
    late = cycles(many, made, read * _PAIR) + cycles(many, read, larger)
    early = cycles(few, made, read * _PAIR) + cycles(many, made, larger + (0 if only else _ADD))
    return early < late


@dataclass
class _Division:
    """What is put in the place of a convolution: nodes, and what they add up to."""

    to: Rewriting
    conv: Node
    nodes: list[Node] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)

    def add(
        self, op: str, title: str, inputs: Sequence[str], output: str, shape: Shape, **how: object
    ) -> str:
        """A node with one output of this shape."""
        self.to.values[output] = Value(output, shape, np.dtype(np.float32))
        self.nodes.append(Node(op, "", title, tuple(inputs), (output,), how))
        return output

    def convolve(self, read: str, pixels: Shape, parts: Sequence[_Part], output: str) -> str:
        """The convolution of these channels. The first has the bias: what makes pixels larger keeps it."""
        conv, model = self.conv, self.to.model
        weights = model.constants[conv.inputs[1]]
        name = f"{output}:weights"
        self.to.constants[name] = np.concatenate([weights[:, p.first : p.end] for p in parts], 1)
        bias = () if self.sums else tuple(name for name in conv.inputs[2:] if name)
        shape = (pixels[0], len(weights), *pixels[2:])
        return self.add("Conv", conv.name, (read, name, *bias), output, shape, kernel_shape=[1, 1])

    def behind(self, parts: Sequence[_Part]) -> None:
        """The convolution of what is read as it is."""
        name, whole = self.conv.outputs[0], self.to.model.value(self.conv.outputs[0]).fixed or ()
        read = parts[0].name
        if len(parts) > 1:
            shape = (whole[0], sum(p.end - p.first for p in parts), *whole[2:])
            read = self.add("Concat", name, [p.name for p in parts], f"{name}:behind", shape, axis=1)
        self.sums.append(self.convolve(read, whole, parts, f"{name}:late"))

    def before(self, part: _Part, only: bool) -> None:
        """The convolution of what is made larger, before that. A pixel alone is added to all."""
        node, model = part.node, self.to.model
        assert node is not None
        name = self.conv.outputs[0]
        pixels, whole = (model.value(value).fixed or () for value in (part.small, name))
        self.to.instead[part.name] = []
        small = self.convolve(part.small, pixels, [part], f"{part.name}:small")
        if math.prod(pixels[2:]) == 1 and self.sums:
            self.sums.append(small)
            return
        inputs = [small, *node.inputs[1:]]
        if len(inputs) > 3 and inputs[3]:  # sizes, of which one may be that of the channels
            sizes = model.constants[inputs[3]].copy()
            axes = [int(axis) % len(whole) for axis in node.attributes.get("axes", range(len(whole)))]
            if 1 in axes:
                sizes[axes.index(1)] = whole[1]
            inputs[3] = f"{small}:sizes"
            self.to.constants[inputs[3]] = sizes
        made = name if only else f"{part.name}:large"
        self.sums.append(self.add(node.op, node.name, inputs, made, whole, **node.attributes))

    def add_up(self) -> None:
        """The sum, under the convolution's name."""
        name = self.conv.outputs[0]
        shape = self.to.model.value(name).fixed or ()
        total = self.sums[0]
        for i, other in enumerate(self.sums[1:], 1):
            output = name if i == len(self.sums) - 1 else f"{name}:sum{i}"
            total = self.add("Add", self.conv.name, (total, other), output, shape)
        self.to.instead[name] = self.nodes


def _divided(model: Model, conv: Node, parts: Sequence[_Part], early: Sequence[_Part]) -> Rewriting:
    """The convolutions of single parts before these are made larger, one of those that stay behind, and
    their sum."""
    division = _Division(Rewriting(model), conv)
    late = [part for part in parts if part not in early]
    if late:
        division.behind(late)
    # A pixel alone is added to a whole picture.
    for part in sorted(early, key=lambda part: -math.prod((model.value(part.small).fixed or ())[2:])):
        division.before(part, only=len(parts) == 1)
    division.add_up()
    if conv.inputs[0] != parts[0].name:
        division.to.instead[conv.inputs[0]] = []
    return division.to
