"""The order of the nodes (before pass 4 takes them apart), so that branches lie one after the other.

Groups are runs of nodes that follow one another, so what belongs together should not be interleaved with
other branches. Depth first: next comes the node that reads the newest tensor; of several the one after which
the least is alive. The given order stays where that is no better.
"""

from __future__ import annotations

from collections.abc import Sequence

from user_layers.net.net import Net


def order_nodes(net: Net) -> tuple[int, ...]:
    """Indices of the nodes in the order in which they are to run; each after all that it reads. The result
    depends on the net only."""
    given = tuple(range(len(net.nodes)))
    found = _depth_first(net)
    return found if alive_bytes(net, found) < alive_bytes(net, given) else given


def alive_bytes(net: Net, order: Sequence[int]) -> int:
    """Bytes of the tensors between nodes that are alive while a node runs, summed over all nodes."""
    at = {k: i for i, k in enumerate(order)}
    total = 0
    for name, maker in net.producer.items():
        last = len(order) - 1 if name in net.outputs else max((at[k] for k in net.consumers[name]), default=0)
        total += net.tensors[name].nbytes * (max(last, at[maker]) - at[maker] + 1)
    return total


def _depth_first(net: Net) -> tuple[int, ...]:
    missing = [len({n for n in node.inputs if n in net.producer}) for node in net.nodes]
    left = {
        name: len(net.consumers[name]) + (name in net.outputs) for name in net.producer
    }  # readers still to come
    made: dict[str, int] = {}  # tensor: position of its node
    ready = [k for k, count in enumerate(missing) if not count]
    order: list[int] = []

    def growth(k: int) -> int:
        node = net.nodes[k]
        freed = sum(net.tensors[n].nbytes for n in dict.fromkeys(node.inputs) if left.get(n) == 1)
        return sum(net.tensors[n].nbytes for n in node.outputs) - freed

    while ready:
        newest = {k: max((made[n] for n in net.nodes[k].inputs if n in made), default=-1) for k in ready}
        k = min(ready, key=lambda k: (-newest[k], growth(k), k))
        ready.remove(k)
        for name in dict.fromkeys(net.nodes[k].inputs):
            if name in left:
                left[name] -= 1
        for name in net.nodes[k].outputs:
            made[name] = len(order)
            for reader in net.consumers[name]:
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
        order.append(k)
    return tuple(order)
