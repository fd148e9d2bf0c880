"""The net cut into subnets of one kind, which run one after the other.

Nodes are taken as they become ready: all of one kind that can run, then the kind of the first that is left.
That keeps the number of subnets small, and the order is the given one wherever it can be. Each part on the
host is a subnet of its own, because a CPU subnet of a bmodel has one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from firmware_sim.chip import MAX_TENSORS
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.mode import Kind
from user_layers.compiler.order import order_nodes
from user_layers.net.net import Net


@dataclass(frozen=True)
class Part:
    """A subnet: nodes of the net that follow one another.

    inputs: what it reads and does not make, but constants; outputs: what others read of it, or the net gives
    out. A part on the host has all inputs and outputs of its node, constants too, in their order.
    """

    kind: Kind
    nodes: range
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def partition(described: DescribedNet, kinds: Sequence[Kind]) -> tuple[DescribedNet, tuple[Part, ...]]:
    """The net with its nodes in the order in which they run, and its parts. kinds: of each node."""
    order, cuts = _order(described.net, kinds)
    net = replace(described.net, nodes=tuple(described.net.nodes[k] for k in order))
    sorted_net = replace(described, net=net, attrs=tuple(described.attrs[k] for k in order))
    parts: list[Part] = []
    for start, stop in zip(cuts, [*cuts[1:], len(order)], strict=True):
        parts += _parts(net, kinds[order[start]], range(start, stop))
    return sorted_net, tuple(parts)


def part_net(described: DescribedNet, part: Part) -> DescribedNet:
    """One part as a net of its own; what it takes from other parts are its inputs."""
    net = described.net
    nodes = net.nodes[part.nodes.start : part.nodes.stop]
    names = dict.fromkeys((*part.inputs, *(n for node in nodes for n in (*node.inputs, *node.outputs))))
    tensors = {name: net.tensors[name] for name in names}
    attrs = described.attrs[part.nodes.start : part.nodes.stop]
    return replace(described, net=Net(net.name, tensors, nodes, part.inputs, part.outputs), attrs=attrs)


def _order(net: Net, kinds: Sequence[Kind]) -> tuple[list[int], list[int]]:
    """The order of the nodes, and where in it each part begins."""
    waiting = {
        k: {net.producer[n] for n in net.nodes[k].inputs if n in net.producer} for k in order_nodes(net)
    }
    order: list[int] = []
    cuts: list[int] = []
    while waiting:
        ready = [k for k, before in waiting.items() if not before]
        # Of the kind that other nodes wait for; a part on the host only when nothing else is ready.
        kind = next((kinds[k] for k in ready if kinds[k] != Kind.CPU), Kind.CPU)
        start = len(order)
        while True:
            found = next((k for k, before in waiting.items() if not before and kinds[k] == kind), None)
            if found is None:
                break
            if kind == Kind.CPU or len(order) == start:
                cuts.append(len(order))
            order.append(found)
            del waiting[found]
            for before in waiting.values():
                before.discard(found)
    return order, cuts


def _parts(net: Net, kind: Kind, nodes: range) -> list[Part]:
    """One part, or more where the firmware cannot take as many tensors."""
    part = _part(net, kind, nodes)
    if kind != Kind.DYNAMIC or max(len(part.inputs), len(part.outputs)) <= MAX_TENSORS or len(nodes) == 1:
        return [part]
    middle = (nodes.start + nodes.stop) // 2
    return _parts(net, kind, range(nodes.start, middle)) + _parts(net, kind, range(middle, nodes.stop))


def _part(net: Net, kind: Kind, nodes: range) -> Part:
    inside = net.nodes[nodes.start : nodes.stop]
    if kind == Kind.CPU:  # as its model names them: one twice, or one that nobody reads
        return Part(kind, nodes, inside[0].inputs, inside[0].outputs)
    made = [name for node in inside for name in node.outputs]
    read = dict.fromkeys(name for node in inside for name in node.inputs if name not in made)
    inputs = tuple(name for name in read if net.tensors[name].data is None)
    outputs = tuple(
        name for name in made if name in net.outputs or any(k not in nodes for k in net.consumers[name])
    )
    return Part(kind, nodes, inputs, outputs)
