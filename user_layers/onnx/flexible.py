"""Which extents of its inputs a dynamic net must be given as it was compiled.

Converters write what follows from shapes into parameters and constants: pads that keep the size, positions
to gather, shapes that are expanded to. The graph of the same model with smaller inputs shows whether one did:
then it is another graph, and the compiled one would compute something else for such inputs. Of a net in
integers that graph is in integers too, of the same table, and 8 bits or not as there, whatever is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from firmware_sim.errors import CompileError, DeviceError, ModelError, UsageError
from user_layers.graph import GraphBuilder
from user_layers.net.compiled import CompiledNet
from user_layers.onnx.build import Built, build
from user_layers.onnx.custom import MapFunction
from user_layers.onnx.model import Model

Shapes = Mapping[str, tuple[int, ...]]
_Change = Callable[[int, int], int]  # (dimension, extent) -> extent
_NO_MODEL = (CompileError, DeviceError, ModelError, UsageError)


@dataclass(frozen=True)
class _Difference:
    """The first layer that another graph has otherwise. on_host: of that, more runs on the host."""

    layer: str
    on_host: bool


@dataclass(frozen=True)
class Fixed:
    """The first layer that depends on the first extent of the inputs, and on the third and later ones; None
    where no layer does."""

    n: str | None
    h_w: str | None


def fixed_extents(
    graph: GraphBuilder, shapes: Shapes, smaller: Callable[[Shapes], GraphBuilder], layers: int
) -> Fixed:
    """shapes: of the inputs that the graph was made for; smaller: makes the graph for others; layers: how
    many of the graph's count, from the first.

    Inputs with which there is no model tell nothing: the layers refuse them when the net runs. Where some
    cannot become smaller like the others (initial states of both directions), those that can are tried apart.
    """

    def tried(names: Iterable[str], change: _Change) -> _Difference | None:
        """What is different where these inputs become smaller. Raises what making the graph does."""
        small = dict(shapes)
        for name in names:
            small[name] = tuple(change(i, extent) for i, extent in enumerate(shapes[name]))
        return None if small == shapes else _first_difference(graph, smaller(small), layers)

    def alone(name: str, change: _Change) -> _Difference | None:
        try:
            return tried([name], change)
        except _NO_MODEL:
            return _Difference("", on_host=True)

    def probe(change: _Change) -> str | None:
        try:
            found = tried(shapes, change)
            if found is None or not found.on_host:
                return None if found is None else found.layer
        except _NO_MODEL:
            found = None
        each = {name: alone(name, change) for name in shapes}
        others = [one.layer for one in each.values() if one is not None and not one.on_host]
        if others:
            return others[0]
        able = [name for name, one in each.items() if one is None]
        if any(change(i, extent) != extent for name in able for i, extent in enumerate(shapes[name])):
            try:
                found = tried(able, change)
            except _NO_MODEL:
                found = None
        return None if found is None else found.layer

    n = probe(lambda i, extent: max(1, extent - 1) if i == 0 else extent)
    odd = probe(lambda i, extent: max(1, extent - 1) if i >= 2 else extent)
    half = probe(lambda i, extent: extent - extent // 2 if i >= 2 else extent)
    return Fixed(n, odd or half)


def fixed_extents_of(
    built: Built,
    model: Model,
    read: Callable[[Shapes], Model],
    custom: Mapping[str, str | MapFunction] | None = None,
    cpu: bool = True,
) -> Fixed:
    """The same for what `build` made of a model; read: the model for other shapes of its inputs. Layers that
    were added to the graph since do not count."""
    shapes = {value.name: value.fixed for value in model.inputs if value.fixed is not None}
    graph = built.graph

    def smaller(given: Shapes) -> GraphBuilder:
        return build(
            read(given),
            graph.name,
            custom=custom,
            toolkit=graph.toolkit,
            cpu=cpu,
            int8=built.int8,
            integers=built.quantised is not None,
        ).graph

    return fixed_extents(graph, shapes, smaller, built.layers)


def restricted(net: CompiledNet, fixed: Fixed) -> CompiledNet:
    """The net with stages that refuse inputs of other fixed extents."""
    stages = tuple(
        replace(
            stage,
            n_dynamic=stage.n_dynamic and fixed.n is None,
            h_w_dynamic=stage.h_w_dynamic and fixed.h_w is None,
        )
        for stage in net.stages
    )
    return replace(net, stages=stages)


def _first_difference(a: GraphBuilder, b: GraphBuilder, layers: int) -> _Difference | None:
    """The first of so many layers of `a` that has other parameters, operands, or another model for the host
    in `b`."""
    on_host = sum(node.cpu is not None for node in b.nodes) > sum(node.cpu is not None for node in a.nodes)
    for i, node in enumerate(a.nodes[:layers]):
        if i >= len(b.nodes):
            return _Difference(node.name, on_host)
        other = b.nodes[i]
        constants = [
            [graph.tensors[name].data if name in graph.tensors else name for name in of.inputs]
            for graph, of in ((a, node), (b, other))
        ]
        models = [None if of.cpu is None else of.cpu.model for of in (node, other)]
        if (
            (node.op, node.param, node.outputs) != (other.op, other.param, other.outputs)
            or constants[0] != constants[1]
            or models[0] != models[1]
        ):
            return _Difference(node.name, on_host)
    return _Difference(a.nodes[layers - 1].name, on_host) if len(b.nodes) > layers else None
