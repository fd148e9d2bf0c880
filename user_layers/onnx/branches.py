"""Convolutions of one value whose results are summed: one convolution, whose kernel is the sum of theirs.

Networks are trained with several branches (RepVGG, MobileOne, RepViT and others: kernels of several sizes,
one tap, channels that are only scaled) and often exported so. Weights are summed in double precision and
rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from user_layers.onnx.fuse import Affine, affine_of
from user_layers.onnx.model import Array, Model, Node, Value

_MOST = 1 << 24  # weights of what one convolution becomes


@dataclass(frozen=True)
class _Branch:
    """A summand. source: what it is made of; conv: None for one that only scales channels; step: what its
    results go through; gone: the nodes that make it."""

    source: str
    conv: Node | None
    step: Affine | None
    gone: tuple[Node, ...]


def merge_branches(model: Model) -> Model:
    """Put one convolution in the place of several of the same value, and of that value's scaled channels,
    that are summed, where one of their kernels covers the others and nothing else reads what they make."""
    constants, values = dict(model.constants), dict(model.values)
    instead: dict[str, list[Node]] = {}
    seen: set[str] = set()
    for root in reversed(model.nodes):
        if not root.is_a("Add") or root.outputs[0] in seen or not _plain_sum(model, root):
            continue
        sums, leaves = _terms(model, root)
        seen.update(node.outputs[0] for node in sums)
        branches = {name: branch for name in leaves if (branch := _branch(model, name)) is not None}
        kept = list(leaves)
        nodes: list[Node] = []
        for group in _groups(model, branches):
            while members := _members(model, group):
                name = f"{root.outputs[0]}:branches{len(nodes)}"
                nodes.append(_merged(model, [group.pop(one) for one in members], constants, name))
                kept = [*(one for one in kept if one not in members), name]
                instead |= {node.outputs[0]: [] for one in members for node in branches[one].gone}
        if nodes:
            end = root.outputs[0]
            if len(kept) == 1:  # nothing is left to add
                nodes = [replace(nodes[0], outputs=(end,))]
            values |= {made: replace(values[end], name=made) for node in nodes for made in node.outputs}
            instead |= {node.outputs[0]: [] for node in sums}
            instead[end] = [*nodes, *_summed(root, kept, values)]
    return model.with_instead(instead, constants, values)


def _terms(model: Model, root: Node) -> tuple[list[Node], list[str]]:
    """The sums that make a sum, and their terms, in order; each of the sum's own shape."""
    shape = model.value(root.outputs[0]).fixed
    sums, leaves = [root], list[str]()
    for node in sums:
        for name in node.inputs:
            maker = model.makers.get(name)
            fits = maker is not None and maker.is_a("Add") and model.only_reader(name) is not None
            if fits and maker is not None and model.value(name).fixed == shape and _plain_sum(model, maker):
                sums.append(maker)
            else:
                leaves.append(name)
    return sums, leaves


def _plain_sum(model: Model, node: Node) -> bool:
    shape = model.value(node.outputs[0]).fixed
    if shape is None or len(shape) < 3 or "axis" in node.attributes or node.inputs[0] == node.inputs[1]:
        return False
    return all(model.value(n).fixed == shape and n not in model.constants for n in node.inputs)


def _branch(model: Model, name: str) -> _Branch | None:
    step: Affine | None = None
    gone: list[Node] = []
    while (node := model.makers.get(name)) is not None and model.only_reader(name) is not None:
        found = affine_of(model, node)
        if found is not None:
            gone.append(node)
            name, step = found[0], found[1] if step is None else found[1].then(step)
            continue
        constant = all(one in model.constants for one in node.inputs[1:] if one)
        if node.is_a("Conv") and constant and node.attributes.get("auto_pad", "NOTSET") == "NOTSET":
            weights = model.constants[node.inputs[1]]
            if weights.dtype == np.float32 and 0 < weights.size <= _MOST:
                return _Branch(node.inputs[0], node, step, (*gone, node))
        break
    return _Branch(name, None, step, tuple(gone)) if gone else None


def _groups(model: Model, branches: Mapping[str, _Branch]) -> Iterator[dict[str, _Branch]]:
    """Branches of one value that may be one convolution."""
    found: dict[tuple[Any, ...], dict[str, _Branch]] = {}
    for name, branch in branches.items():
        if branch.conv is not None:
            axes = model.constants[branch.conv.inputs[1]].ndim - 2
            strides = tuple(int(n) for n in branch.conv.attributes.get("strides", [1] * axes))
            key = (branch.source, int(branch.conv.attributes.get("group", 1)), strides)
            found.setdefault(key, {})[name] = branch
    for (source, _, strides), group in found.items():
        scaled = {n: b for n, b in branches.items() if b.conv is None and b.source == source}
        yield {**group, **scaled} if set(strides) == {1} else group


def _members(model: Model, group: Mapping[str, _Branch]) -> list[str]:
    """Most of those whose taps the kernel of one of them has, too, with that one first; none where there are
    no two."""
    best: list[str] = []
    for first, branch in group.items():
        if branch.conv is not None:
            others = [
                name for name, one in group.items() if name != first and _place(model, branch.conv, one)
            ]
            best = max(best, [first, *others], key=len)
    return best if len(best) > 1 else []


def _merged(model: Model, members: Sequence[_Branch], constants: dict[str, Array], made: str) -> Node:
    """One convolution of all, whose kernel is that of the first."""
    first = members[0]
    assert first.conv is not None
    whole = model.constants[first.conv.inputs[1]].shape
    weights, bias = np.zeros(whole), np.zeros(whole[0])
    for branch in members:
        place = _place(model, first.conv, branch)
        assert place is not None
        own, summand = _kernel(model, branch, whole)
        taps = (slice(None), slice(None), *place)
        weights[taps] += own
        bias += summand
    names = f"{made}:weights", f"{made}:bias"
    constants[names[0]], constants[names[1]] = weights.astype(np.float32), bias.astype(np.float32)
    return replace(first.conv, inputs=(first.source, *names), outputs=(made,), proto=None)


def _kernel(model: Model, branch: _Branch, whole: tuple[int, ...]) -> tuple[Array, Array]:
    """Weights and bias of a branch, in double precision; whole: the shape of the largest kernel."""
    if branch.conv is None:
        assert branch.step is not None
        weights = np.zeros((*whole[:2], *[1] * (len(whole) - 2)))
        channels = np.arange(whole[0])
        weights[channels, channels % whole[1]] = branch.step.factor.reshape(-1, *[1] * (len(whole) - 2))
        return weights, branch.step.summand
    weights = model.constants[branch.conv.inputs[1]].astype(np.float64)
    named = branch.conv.inputs[2] if len(branch.conv.inputs) > 2 else ""
    bias = model.constants[named].astype(np.float64) if named else np.zeros(len(weights))
    if branch.step is not None:
        weights = weights * branch.step.factor.reshape(-1, *[1] * (weights.ndim - 1))
        bias = bias * branch.step.factor + branch.step.summand
    return weights, bias


def _place(model: Model, first: Node, branch: _Branch) -> tuple[slice, ...] | None:
    """Where the taps of a branch are among those of the largest kernel; None where they are not."""
    shape = model.constants[first.inputs[1]].shape
    axes = len(shape) - 2
    pads, dilations = _window(first, axes)
    own, kernel, own_dilations = [0] * axes, [1] * axes, [1] * axes
    if branch.conv is None:
        if model.value(branch.source).fixed != model.value(first.outputs[0]).fixed:
            return None  # channels are multiplied, or windows leave some out
    else:
        own, own_dilations = _window(branch.conv, axes)
        outputs, inputs, *kernel = model.constants[branch.conv.inputs[1]].shape
        if (outputs, inputs) != shape[:2]:
            return None
    place: list[slice] = []
    for i in range(axes):
        offset, step = pads[i] - own[i], own_dilations[i] if kernel[i] > 1 else dilations[i]
        if offset % dilations[i] or step % dilations[i]:
            return None
        start, step = offset // dilations[i], step // dilations[i]
        last = start + (kernel[i] - 1) * step
        if start < 0 or last >= shape[2 + i]:
            return None
        place.append(slice(start, last + 1, step))
    return tuple(place)


def _window(conv: Node, axes: int) -> tuple[list[int], list[int]]:
    """The pads before, and the dilations."""
    pads = [int(n) for n in conv.attributes.get("pads", [0] * 2 * axes)]
    return pads[:axes], [int(n) for n in conv.attributes.get("dilations", [1] * axes)]


def _summed(root: Node, terms: list[str], values: dict[str, Value]) -> list[Node]:
    """The sum of what is left, by the root's own name; none of one term."""
    end, nodes = root.outputs[0], list[Node]()
    so_far = terms[0]
    for i, name in enumerate(terms[1:], 1):
        made = end if i == len(terms) - 1 else f"{end}:sum{i}"
        values[made] = replace(values[end], name=made)
        nodes.append(replace(root, inputs=(so_far, name), outputs=(made,), proto=None))
        so_far = made
    return nodes
