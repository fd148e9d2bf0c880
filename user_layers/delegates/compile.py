"""A part of a framework's model into a partition: one net, and where its inputs and outputs come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firmware_sim.errors import CompileError, UsageError
from user_layers.bmodel import write
from user_layers.compiler.pipeline import compile_graph
from user_layers.delegates.program import LayerTime, Partition
from user_layers.graph import GraphBuilder
from user_layers.net.nodes import called
from user_layers.onnx.build import Built, build
from user_layers.onnx.flexible import fixed_extents_of, restricted
from user_layers.onnx.load import from_proto
from user_layers.onnx.model import Model
from user_layers.product import compile_net
from user_layers.report.model import NodeReport, StageReport
from user_layers.spelling.foreign import ForeignModel
from user_layers.spelling.spell import Border, Spelled, Spellings, spell
from user_layers.toolkit import Toolkit


def compile_partition(
    model: ForeignModel,
    spellings: Spellings,
    *,
    name: str,
    toolkit: Toolkit,
    opt: int = 2,
    dynamic: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Partition:
    """Compile all operations of a model into one net called `name`, all of it on the TPU.

    opt, dynamic: as of `Graph.compile`; a dynamic net takes inputs up to the model's shapes, and the cycles
    of its layers are those for these shapes. shapes: of inputs, in the framework's order, where they are to
    be others than the model says: for models whose operations do not say how large their results are.
    Errors: CompileError that names the operations without a layer; UsageError for shapes that do not fit;
    DeviceError when a layer's function fails.
    """
    made = build_partition(model, spellings, name=name, toolkit=toolkit, shapes=shapes)
    spelled, loaded, built = made.spelled, made.loaded, made.built
    with called(made.place):
        net = compile_net(built.graph, dynamic, opt=opt, report=not dynamic)
        if dynamic:

            def read(shapes: Mapping[str, Sequence[int]]) -> Model:
                return from_proto(spelled.proto, shapes, made.place)

            net = restricted(net, fixed_extents_of(built, loaded, read, None, False))
            reports = _measured_fixed(built.graph, opt)
        else:
            reports = net.report
    inputs = {tensor.name: i for i, tensor in enumerate(net.stages[0].inputs)}
    given = [value.name for value in loaded.outputs if value.name not in built.empty]
    outputs = {value: i for i, value in enumerate(given)}
    borders = {border.name: _as_compiled(border, loaded) for border in (*spelled.inputs, *spelled.outputs)}
    return Partition(
        name,
        write([net]),
        _borders(borders, model.inputs),
        _borders(borders, model.outputs),
        tuple(inputs.get(one, -1) for one in model.inputs),
        tuple(outputs.get(one, -1) for one in model.outputs),
        _layers(spelled, built.graph, reports[0] if reports else None),
        dynamic,
    )


@dataclass(frozen=True)
class BuiltPartition:
    """The layers of a partition, before they are compiled. place: what messages call it."""

    spelled: Spelled
    loaded: Model
    built: Built
    place: str


def build_partition(
    model: ForeignModel,
    spellings: Spellings,
    *,
    name: str,
    toolkit: Toolkit,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> BuiltPartition:
    """The first half of `compile_partition`, which finds nearly all that cannot be compiled. Errors: as
    there."""
    spelled = spell(model, spellings, free_borders=True)
    _drop_unread(spelled.proto)
    place = f"{model.what} {model.name or name}"
    loaded = from_proto(spelled.proto, _permuted(spelled, shapes or {}), place)
    with called(place):
        built = build(loaded, name, toolkit=toolkit, cpu=False, allow_empty=True)
    return BuiltPartition(spelled, loaded, built, place)


def _borders(borders: Mapping[str, Border], names: Iterable[str]) -> tuple[Border, ...]:
    return tuple(borders[name] for name in names)


def _permuted(spelled: Spelled, shapes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Shapes of inputs in the order of axes that the ONNX model has. Errors: UsageError."""
    borders = {border.name: border for border in spelled.inputs}
    for name, shape in shapes.items():
        if name not in borders or len(shape) != len(borders[name].shape):
            raise UsageError(f"there is no input {name!r} that could have the shape {list(shape)}")
    return {name: [shape[axis] for axis in borders[name].order] for name, shape in shapes.items()}


def _as_compiled(border: Border, model: Model) -> Border:
    """A border with the shape that its value has in the model."""
    shape = model.value(border.name).fixed
    if shape is None:  # nothing reads it
        return border
    return replace(border, shape=tuple(shape[border.order.index(axis)] for axis in range(len(shape))))


def _drop_unread(proto: Any) -> None:
    """Take the inputs away that no node reads and no output is: a net has only those that it needs."""
    graph = proto.graph
    read = {value for node in graph.node for value in node.input} | {value.name for value in graph.output}
    kept = [value for value in graph.input if value.name in read]
    del graph.input[:]
    graph.input.extend(kept)


def _measured_fixed(graph: GraphBuilder, opt: int) -> tuple[StageReport, ...]:
    """What the layers of a dynamic net take for the largest shapes: as those of a net for these, in as many
    groups, whose commands the controller issues. () where a layer has no such net."""
    try:
        return compile_graph(graph, opt=opt, report=True, issued=True).report
    except CompileError:
        return ()


def _layers(spelled: Spelled, graph: GraphBuilder, report: StageReport | None) -> tuple[LayerTime, ...]:
    """The layers with their cycles and the operations that they do."""
    names = [node.name for node in graph.nodes]
    sources = dict(zip(names, layer_sources(spelled, graph), strict=True))
    if report is None:
        return tuple(LayerTime(name, sources[name], 0) for name in names)
    reports = [node for part in report.parts for node in part.nodes]
    found = []
    for place, (node, time) in enumerate(zip(reports, _shares(report), strict=True)):
        # what cuts pictures into strips, and joins them, is of the layer that this is for, or was
        near = (*reports[place:], *reversed(reports[:place]))
        of = next((sources[one.name] for one in near if one.name in sources), ())
        found.append(LayerTime(node.name, of, round(time)))
    return tuple(found)


def _shares(report: StageReport) -> list[float]:
    """Cycles of each layer. Layers of a group overlap: they share its time as they keep the engines busy."""

    def busy(node: NodeReport) -> float:
        return node.work.bd_cycles + node.work.gdma_cycles if node.work is not None else 0.0

    found = []
    for part in report.parts:
        whole: dict[int | None, float] = defaultdict(float)
        for node in part.nodes:
            whole[node.group] += busy(node)
        groups = {group.index: group.work.cycles for group in part.groups}
        for node in part.nodes:
            if node.group is not None and whole[node.group] > 0:
                found.append(groups[node.group] * busy(node) / whole[node.group])
            else:
                found.append(node.work.cycles if node.work is not None else 0.0)
    return found


def layer_sources(spelled: Spelled, graph: GraphBuilder) -> list[tuple[int, ...]]:
    """For each layer of the graph the operations that it comes from.

    A layer that makes a value of the spelled model does the node of that value, and all nodes before it that
    have no layer of their own (they were fused into it). Other layers are pieces of the node whose value
    follows from theirs.
    """
    nodes = spelled.proto.graph.node
    maker = {value: i for i, node in enumerate(nodes) for value in node.output}
    readers: dict[str, list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        for value in node.input:
            readers[value].append(i)
    layers: dict[int, set[int]] = defaultdict(set)  # of each node
    of_layer: list[set[int]] = [set() for _ in graph.nodes]
    takers: dict[str, list[int]] = defaultdict(list)
    for k in reversed(range(len(graph.nodes))):
        layer = graph.nodes[k]
        makes = {maker[name] for name in layer.outputs if name in maker}
        behind = (i for name in layer.outputs for taker in takers[name] for i in of_layer[taker])
        of_layer[k] = makes or set(behind)
        for i in of_layer[k]:
            layers[i].add(k)
        for name in layer.inputs:
            takers[name].append(k)
    for i in reversed(range(len(nodes))):
        if i not in layers:
            layers[i] = {k for value in nodes[i].output for j in readers[value] for k in layers[j]}
            for k in layers[i]:
                of_layer[k].add(i)
    operations = [{spelled.sources.get(nodes[i].name, -1) for i in found} for found in of_layer]
    return [tuple(sorted(found - {-1})) for found in operations]
