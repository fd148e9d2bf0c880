"""Convolutions whose channels are used in parts: one convolution for each part.

A part of a tensor's channels lies in other lanes than it is needed in, so it goes through DDR; the kernels of
these channels can be a convolution of their own, which leaves its result where the next layer wants it. That
costs as many cycles more as lanes stay empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.chip import NPU_NUM
from user_layers.onnx.channels import ONE_BY_ONE
from user_layers.onnx.model import Array, Model, Node, Value
from user_layers.onnx.views import cut_of

_MACS = 32  # multiply-accumulates of a lane in a cycle, fp32
_PIXELS = 16  # of them where there is one input channel
MOVED = 11  # bytes that a cycle brings to DDR and back, with what is stored before and loaded behind


@dataclass(frozen=True)
class _Part:
    """Channels from `first` on that a node takes out as `name`."""

    name: str
    first: int
    count: int


def split_convolutions(model: Model) -> Model:
    """Put convolutions for parts of channels in the place of one whose result, perhaps after functions of
    each element and depthwise convolutions, is only read in parts, where that takes fewer cycles."""
    constants, values = dict(model.constants), dict(model.values)
    instead: dict[str, list[Node]] = {}  # by the outputs of nodes that go
    for conv in model.nodes:
        chain = _chain(model, conv)
        parts = _parts(model, chain[-1]) if chain else None
        if not parts or not _pays(model, chain, [part.count for part in parts]):
            continue
        made: list[Node] = []
        for i, part in enumerate(parts):
            made += _with_part(model, chain, part, i, constants, values)
        instead.update((name, []) for node in chain for name in node.makes)
        for reader in model.consumers[chain[-1].outputs[0]]:
            instead.update((name, []) for name in reader.makes)
        instead[conv.outputs[0]] = made
    return model.with_instead(instead, constants, values)


def _chain(model: Model, conv: Node) -> list[Node]:
    """A convolution with constant weights and what works on each channel by itself behind it: functions and
    depthwise convolutions that alone read what is before them."""
    if not _is_constant(model, conv) or conv.attributes.get("group", 1) != 1:
        return []
    if model.value(conv.outputs[0]).dtype != np.float32:
        return []
    chain = [conv]
    while True:
        name = chain[-1].outputs[0]
        readers = model.consumers.get(name, ())
        if name in model.results or not readers or model.value(name).fixed is None:
            return []
        node = readers[0]
        if len(readers) > 1 or not (_is_function(node) or _is_depthwise(model, node)):
            return chain
        chain.append(node)


def _is_constant(model: Model, node: Node) -> bool:
    """Whether it is a convolution with constant weights."""
    return node.is_a("Conv") and not any(n not in model.constants for n in node.inputs[1:] if n)


def _is_function(node: Node) -> bool:
    return node.op in ONE_BY_ONE and node.is_known and len(node.makes) == len(node.reads) == 1


def _is_depthwise(model: Model, node: Node) -> bool:
    """Whether it is a convolution that makes one channel of each."""
    if not _is_constant(model, node):
        return False
    weights = model.constants[node.inputs[1]]
    return bool(weights.shape[1] == 1 and node.attributes.get("group", 1) == weights.shape[0])


def _parts(model: Model, last: Node) -> list[_Part] | None:
    """The parts in which a node's result is read; None where something reads it otherwise."""
    name = last.outputs[0]
    shape = model.value(name).fixed
    found: list[_Part] = []
    for node in model.consumers.get(name, ()):
        if not node.is_a("Split", "Slice") or node.inputs[0] != name:
            return None
        for made in node.makes:
            after = model.value(made).fixed
            cut = cut_of(model, node, made, shape, after) if shape is not None and after is not None else None
            if cut is None or cut[0] != 1 or made in model.results:
                return None
            found.append(_Part(made, *cut[1:]))
    return found


def _pays(model: Model, chain: list[Node], counts: list[int]) -> bool:
    """Whether the lanes that stay empty cost less than moving the parts."""
    shape = model.value(chain[-1].outputs[0]).fixed
    assert shape is not None
    slots = sum(math.ceil(count / NPU_NUM) for count in counts) - math.ceil(shape[1] / NPU_NUM)
    more = slots * sum(_cycles(model, node) for node in chain)
    return more < 4 * _positions(shape) * sum(counts) / MOVED


def _positions(shape: tuple[int, ...]) -> int:
    return shape[0] * math.prod(shape[2:])


def _cycles(model: Model, node: Node) -> float:
    """Of one channel of each lane."""
    shape = model.value(node.outputs[0]).fixed
    assert shape is not None
    if not node.is_a("Conv"):
        return 2.0 * _positions(shape)
    weights = model.constants[node.inputs[1]]
    at_once = _PIXELS if _is_depthwise(model, node) else _MACS
    return _positions(shape) * math.prod(weights.shape[1:]) / at_once


def _with_part(
    model: Model,
    chain: list[Node],
    part: _Part,
    index: int,
    constants: dict[str, Array],
    values: dict[str, Value],
) -> list[Node]:
    """The chain for one part."""
    made: list[Node] = []
    name = ""
    for node in chain:
        inputs, attributes = [name or node.inputs[0]], node.attributes
        if node.is_a("Conv"):
            if node is not chain[0]:
                attributes = {**attributes, "group": part.count}
            for k, constant in enumerate(n for n in node.inputs[1:] if n):
                own = f"{node.outputs[0]}:part{index}:{k}"
                constants[own] = np.ascontiguousarray(
                    model.constants[constant][part.first : part.first + part.count]
                )
                inputs.append(own)
        name = part.name if node is chain[-1] else f"{node.outputs[0]}:part{index}"
        if name != part.name:
            shape = model.value(node.outputs[0]).fixed
            assert shape is not None
            values[name] = Value(name, (shape[0], part.count, *shape[2:]), np.dtype(np.float32))
        title = f"{node.name}:{index}" if node.name and index else node.name
        made.append(
            replace(
                node,
                name=title,
                inputs=tuple(inputs),
                outputs=(name,),
                attributes=attributes,
                proto=None,
            )
        )
    return made
