"""Channels that are cut out or shuffled: chosen by the weights of the convolutions that read them.

Moving channels to other lanes goes through DDR. A convolution sums up all channels anyway: with zeros for
those that it is not to see, and its weights in another order, it reads the tensor as it was. Where something
else reads the channels, a convolution whose weights are ones and zeros puts them into their lanes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firmware_sim.isa import timing
from user_layers.onnx.fold import needed
from user_layers.onnx.model import Array, Model, Node
from user_layers.onnx.parts import MOVED
from user_layers.onnx.views import Picked, picked_channels

_PICKS = ("Reshape", "Slice", "Split", "Transpose", "Gather")  # what may be the last that moves channels


def pick_channels(model: Model) -> Model:
    """Put convolutions of whole tensors in the place of those of some of their channels, where that takes
    fewer cycles than moving these. An infinity or a NaN in a channel then reaches all results."""
    constants, values = dict(model.constants), dict(model.values)
    changed: dict[str, Node] = {}  # readers, by their first outputs
    behind: dict[str, list[Node]] = {}  # what is put behind a node
    for node in model.nodes:
        plan = _plan(model, node)
        for name, picked in plan.items():
            convolutions, others = _readers(model, name)
            for reader in convolutions:
                weights = f"{reader.outputs[0]}:picked"
                constants[weights] = _spread(constants[reader.inputs[1]], picked, model)
                inputs = (picked.source, weights, *reader.inputs[2:])
                changed[reader.outputs[0]] = replace(reader, inputs=inputs, proto=None)
            if not others:
                continue
            own, ones = f"{name}:picked", f"{name}:ones"
            channels = len(picked.channels)
            rank = len(model.value(name).shape or ())
            identity = np.eye(channels, dtype=np.float32).reshape(channels, channels, *[1] * (rank - 2))
            constants[ones] = _spread(identity, picked, model)
            values[own] = replace(model.value(name), name=own)
            made = Node("Conv", "", node.name, (picked.source, ones), (own,))
            behind.setdefault(node.outputs[0], []).append(made)
            for reader in others:
                reader = changed.get(reader.outputs[0], reader)
                inputs = tuple(own if given == name else given for given in reader.inputs)
                changed[reader.outputs[0]] = replace(reader, inputs=inputs, proto=None)
    if not changed:
        return model
    nodes = [
        one
        for node in model.nodes
        for one in (changed.get(node.outputs[0], node), *behind.get(node.outputs[0], ()))
    ]
    return needed(replace(model, nodes=tuple(nodes), constants=constants, values=values))


def _plan(model: Model, node: Node) -> dict[str, Picked]:
    """What each value that a node makes is picked from, where all of them are better chosen by weights."""
    plan: dict[str, Picked] = {}
    moved, more = 0.0, 0.0
    for name in node.makes if node.op in _PICKS else ():
        picked = picked_channels(model, name)
        made, source = model.value(name).fixed, model.value(picked.source).fixed if picked else None
        if picked is None or made is None or source is None or not picked.moves or len(made) not in (3, 4):
            return {}
        if np.array_equal(picked.channels, np.arange(source[1])):  # all of it, and where it was
            return {}
        convolutions, others = _readers(model, name)
        if name in model.results or any(name in reader.captured or reader.is_own for reader in others):
            return {}
        plan[name] = picked
        moved += 4 * math.prod(made) * picked.moves / MOVED
        for reader in convolutions:
            result = model.value(reader.outputs[0]).fixed
            assert result is not None  # _readers looks at nothing else
            taps = math.prod(model.constants[reader.inputs[1]].shape[2:])
            more += _cycles(result, taps, source[1]) - _cycles(result, taps, made[1])
        if others:
            more += _cycles(made, 1, source[1])
    return plan if more < moved else {}


def _readers(model: Model, name: str) -> tuple[list[Node], list[Node]]:
    """Convolutions whose weights can choose, and the others."""
    found: tuple[list[Node], list[Node]] = ([], [])
    for node in model.consumers.get(name, ()):
        plain = node.is_a("Conv") and not node.captured
        weights = model.constants.get(node.inputs[1]) if plain else None
        fits = (
            weights is not None
            and weights.dtype == np.float32
            and node.attributes.get("group", 1) == 1
            and node.inputs.count(name) == 1
            and model.value(node.outputs[0]).fixed is not None
            and weights.ndim == len(model.value(name).shape or ())
            and weights.shape[1:2] == (model.value(name).shape or ())[1:2]
        )
        found[0 if fits else 1].append(node)
    return found


def _cycles(made: tuple[int, ...], taps: int, channels: int) -> float:
    """Of a convolution of so many channels that makes a value of this shape."""
    n, c, h, w = (*made, 1)[:4]
    return float(timing.convolution((n, c, h, w), 0, channels, (taps, 1), 1, bias=False).chip)


def _spread(weights: Array, picked: Picked, model: Model) -> Array:
    """Weights of the picked channels as those of all channels of the source."""
    source = model.value(picked.source).fixed
    assert source is not None
    wide = np.zeros((weights.shape[0], source[1], *weights.shape[2:]), np.float32)
    for channel, own in zip(picked.channels, np.moveaxis(weights, 1, 0), strict=True):
        wide[:, channel] += own
    return wide
