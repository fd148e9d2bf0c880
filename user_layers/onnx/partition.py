"""Which nodes run on the TPU and which on the CPU, and in how few parts.

Nodes that no layer computes run on onnxruntime. Values go from one part of a net to the next in tensors of
the device; a value that the device cannot hold (float64, texts, sequences, shapes unknown until the model
runs) stays inside one part on the CPU, with everything that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from firmware_sim.errors import CompileError
from user_layers.onnx.model import Model, Node
from user_layers.onnx.work import macs


@dataclass(frozen=True)
class Reason:
    """Why a node is not on the TPU. follows: only because of others that are not."""

    text: str
    follows: bool = False


@dataclass(frozen=True)
class Part:
    """Nodes that run one after the other on one side. reasons: of each node, for those on the CPU.

    inputs: computed values that it reads from outside, constants not among them; outputs: its values that
    others or the model's outputs need.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()

    @property
    def on_cpu(self) -> bool:
        """Whether onnxruntime runs it: then every node has a reason."""
        return bool(self.reasons)


def partition(
    model: Model,
    refused: Mapping[int, Reason],
    obstacle: Callable[[str], str | None],
    most: int,
    operands: Mapping[int, Collection[str]] | None = None,
    varying: Collection[str] = (),
) -> list[Part]:
    """Parts in an order in which they can run: alternately all that can run on the TPU, all on the CPU.

    refused: nodes (by index) without a layer. obstacle: why the device cannot hold a value, or None.
    most: inputs, and outputs, of one part on the CPU; larger parts are cut, and those that cannot be draw in
    what makes their inputs for them alone, but products. operands: what the layers of a
    node take, where that is not all that the node reads. varying: outputs whose shapes vary; parts on the CPU
    that make some make no others. What no output depends on is left out.
    Errors: CompileError when nodes that cannot be cut apart have more.
    """
    reasons = dict(refused)
    drawn: set[int] = set()
    while True:
        wires = _Wires(model, {i: names for i, names in (operands or {}).items() if i not in reasons})
        pulled = dict(reasons)
        clusters = _clusters(wires, pulled, obstacle, drawn)
        more = _drawn_in(wires, clusters, pulled, most)
        if not more and (len(pulled) == len(reasons) or not operands):
            return _ordered(wires, clusters, pulled, most, varying)
        drawn |= more
        reasons = pulled | dict.fromkeys(more, Reason(_MANY.format(most), follows=True))
        # The nodes pulled in read all that they read.


_MANY = "it makes one of more than {} values that nodes which cannot be parted read"


def _drawn_in(wires: _Wires, clusters: list[list[int]], reasons: Mapping[int, Reason], most: int) -> set[int]:
    """What makes inputs of clusters on the CPU that have too many of them, and of nothing else."""
    found: set[int] = set()
    for cluster in clusters:
        if cluster[0] not in reasons:
            continue
        part, inside = wires.part(cluster, {}), set(cluster)
        if len(part.inputs) <= most:
            continue
        for index in {wires.maker[name] for name in part.inputs if name in wires.maker}:
            node = wires.model.nodes[index]
            alone = all(
                name not in wires.model.results and inside.issuperset(wires.readers.get(name, ()))
                for name in node.makes
            )
            if alone and index not in reasons and not node.is_own and not macs(wires.model, node):
                found.add(index)
    return found


def _ordered(
    wires: _Wires,
    waiting: list[list[int]],
    reasons: Mapping[int, Reason],
    most: int,
    varying: Collection[str],
) -> list[Part]:
    model = wires.model
    known = {value.name for value in model.inputs} | set(model.constants)
    parts: list[Part] = []
    on_cpu = False
    while waiting:
        ready = _take_ready(wires, waiting, known, reasons, on_cpu)
        if on_cpu:
            parts += [wires.part(nodes, reasons) for nodes in _cut(wires, ready, most, varying)]
        elif ready:
            parts.append(wires.part([index for cluster in ready for index in cluster], {}))
        on_cpu = not on_cpu
    return parts


class _Wires:
    """Who makes and who reads the values of a model; nodes by index."""

    def __init__(self, model: Model, operands: Mapping[int, Collection[str]]) -> None:
        self.model = model
        self.reads = [tuple(operands.get(i, node.reads)) for i, node in enumerate(model.nodes)]
        self.maker: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        wanted = set(model.results)
        for i in reversed(range(len(model.nodes))):
            if not wanted.isdisjoint(model.nodes[i].makes):
                wanted.update(self.reads[i])
                made = (name for name in model.nodes[i].makes if name not in model.constants)
                self.maker.update((name, i) for name in made)
                for name in self.reads[i]:
                    self.readers.setdefault(name, []).append(i)

    @property
    def nodes(self) -> list[int]:
        """The nodes that an output depends on, in order."""
        return sorted(set(self.maker.values()))

    def sources(self, index: int) -> list[int]:
        """The nodes whose values a node reads."""
        return [self.maker[name] for name in self.reads[index] if name in self.maker]

    def part(self, indices: Iterable[int], reasons: Mapping[int, Reason]) -> Part:
        order = sorted(indices)
        inside = set(order)
        nodes = [self.model.nodes[i] for i in order]
        made = {name for node in nodes for name in node.makes}
        read = dict.fromkeys(name for i in order for name in self.reads[i])
        inputs = tuple(n for n in read if n not in made and n not in self.model.constants)
        outputs = tuple(
            name
            for node in nodes
            for name in node.makes
            if name in self.model.results or not inside.issuperset(self.readers.get(name, ()))
        )
        return Part(tuple(nodes), inputs, outputs, tuple(reasons[i] for i in order) if reasons else ())


def _take_ready(
    wires: _Wires, waiting: list[list[int]], known: set[str], reasons: Mapping[int, Reason], on_cpu: bool
) -> list[list[int]]:
    """The clusters of one side that can run now, in order; they leave `waiting`, what they make is known."""
    taken, left = [], []
    for cluster in waiting:
        made = {name for index in cluster for name in wires.model.nodes[index].makes}
        read = {name for index in cluster for name in wires.reads[index]}
        if (cluster[0] in reasons) == on_cpu and read - made <= known:
            taken.append(cluster)
            known |= made
        else:
            left.append(cluster)
    waiting[:] = left
    return taken


def _cut(wires: _Wires, clusters: list[list[int]], most: int, varying: Collection[str]) -> list[list[int]]:
    """Clusters of one side, in order, into as few groups as have at most so many inputs and outputs, and of
    which each makes either what varies or what does not."""

    def varies(group: list[int]) -> bool:
        return any(name in varying for index in group for name in wires.model.nodes[index].makes)

    groups: list[list[int]] = []
    for cluster in clusters:
        if (
            groups
            and varies(groups[-1]) == varies(cluster)
            and _fits(wires.part([*groups[-1], *cluster], {}), most)
        ):
            groups[-1] += cluster
            continue
        part = wires.part(cluster, {})
        if not _fits(part, most):
            more = f" and {len(part.nodes) - 1} more nodes" if len(part.nodes) > 1 else ""
            raise CompileError(
                f"{part.nodes[0].title}{more} on the CPU: {len(part.inputs)} inputs and {len(part.outputs)} "
                f"outputs; a part of a net has at most {most} of each"
            )
        groups.append(list(cluster))
    return groups


def _fits(part: Part, most: int) -> bool:
    return len(part.inputs) <= most and len(part.outputs) <= most


def _clusters(
    wires: _Wires,
    reasons: dict[int, Reason],
    obstacle: Callable[[str], str | None],
    drawn: Collection[int],
) -> list[list[int]]:
    """Nodes that stay together, in an order in which they can run; `reasons` grows by those pulled in.

    A value that the device cannot hold ties its maker to its readers as they are tied to it, and so is a node
    that was drawn in: what is then connected in both directions stays together, with all that lies between.
    """
    together: dict[int, set[int]] = {index: set() for index in wires.nodes}
    for name, maker in sorted(wires.maker.items(), key=lambda item: item[1]):
        readers = wires.readers.get(name, [])
        if maker in drawn:
            together[maker].update(readers)
        why = obstacle(name) if readers else None
        if why is None:
            continue
        for index in (maker, *readers):
            reasons.setdefault(index, Reason(f"{name!r} {why}", follows=True))
        together[maker].update(readers)
    components = _components({i: wires.sources(i) + sorted(tied) for i, tied in together.items()})
    for component in components:
        if len(component) > 1:
            for index in component:
                reasons.setdefault(index, Reason("it lies between nodes that cannot be parted", follows=True))
    return components


def _components(edges: Mapping[int, list[int]]) -> list[list[int]]:
    """The strongly connected components of a graph (edges: node -> nodes that it needs), those that are
    needed first; nodes in order. Tarjan's algorithm, without recursion."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    open_: set[int] = set()
    found: list[list[int]] = []
    for start in edges:
        if start in number:
            continue
        todo = [(start, iter(edges[start]))]
        number[start] = low[start] = len(number)
        stack.append(start)
        open_.add(start)
        while todo:
            node, rest = todo[-1]
            following = next(rest, None)
            if following is None:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
                if low[node] == number[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    open_.difference_update(component)
                    found.append(sorted(component))
            elif following not in number:
                number[following] = low[following] = len(number)
                stack.append(following)
                open_.add(following)
                todo.append((following, iter(edges[following])))
            elif following in open_:
                low[node] = min(low[node], number[following])
    return found
