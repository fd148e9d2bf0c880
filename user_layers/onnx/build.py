"""A model into a graph: folding, fusing, the parts for TPU and CPU, the layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from firmware_sim.chip import MAX_TENSORS
from firmware_sim.errors import CompileError, UsageError
from user_layers.graph import GraphBuilder
from user_layers.onnx.custom import MapFunction, resolve_map
from user_layers.onnx.expand import Expansion
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.fuse import fuse_affine
from user_layers.onnx.load import infer_values
from user_layers.onnx.lower import Lowering
from user_layers.onnx.model import Array, Model
from user_layers.onnx.observe import observe_shapes
from user_layers.onnx.partition import Part, partition
from user_layers.onnx.types import obstacle

if TYPE_CHECKING:
    from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Built:
    """A graph made of a model. parts: what runs where, in order. empty: outputs without elements, which a
    net cannot have. layers: how many the graph has now."""

    graph: GraphBuilder
    parts: tuple[Part, ...]
    empty: Mapping[str, Array]
    layers: int

    @property
    def on_cpu(self) -> list[str]:
        """Each node that runs on the CPU, and why."""
        return [
            f"{node.title}: {reason.text}"
            for part in self.parts
            if part.on_cpu
            for node, reason in zip(part.nodes, part.reasons, strict=True)
        ]


def build(
    model: Model,
    name: str,
    *,
    custom: Mapping[str, str | MapFunction] | None = None,
    toolkit: Toolkit | None = None,
    cpu: bool = True,
    allow_empty: bool = False,
    graph_type: type[GraphBuilder] = GraphBuilder,
) -> Built:
    """The graph of a model; see `graph_from_onnx`. allow_empty: outputs without elements are left out.
    graph_type: the class of the graph."""
    functions = resolve_map(custom)
    unknown = set(functions) - {text for node in model.nodes for text in (node.name, node.op)}
    if unknown:
        raise UsageError(
            f"the model has no node {min(unknown)!r} that a layer could be mapped to",
            hint="give a node's name or its operation",
        )
    nodes = (replace(n, mapped=True) if {n.name, n.op} & set(functions) else n for n in model.nodes)
    model = replace(model, nodes=tuple(nodes))
    model = fold_constants(observe_shapes(fold_constants(model)))
    empty = {
        value.name: model.constants[value.name]
        for value in model.outputs
        if value.name in model.constants and not model.constants[value.name].size
    }
    if empty and not allow_empty:
        raise CompileError(
            f"output {next(iter(empty))!r} has no elements: a net has no such tensors",
            hint="leave the output out of the model",
        )
    wanted = [value.name for value in model.outputs if value.name not in empty]
    graph = graph_type(name=name, toolkit=toolkit)
    try:
        expansion = Expansion(model)
        trial = Lowering(fuse_affine(model), graph, functions)
        refused = trial.survey()
        while refused and expansion.review(trial.model, refused):
            written = fold_constants(infer_values(expansion.written_out()))
            trial = Lowering(fuse_affine(written), graph_type(name=name, toolkit=graph.toolkit), functions)
            refused = trial.survey()
        model, graph = trial.model, trial.graph
        if refused and not cpu:
            lines = [
                f"{model.nodes[index].title}: {reason.text}"
                for index, reason in refused.items()
                if not reason.follows
            ]
            raise CompileError("no layer does this:\n  " + "\n  ".join(lines))
        parts = partition(
            model, refused, lambda value: obstacle(model.value(value)), MAX_TENSORS, trial.operands
        )
        inputs = {value.name for value in model.inputs}
        used = inputs.intersection([*wanted, *(value for part in parts for value in part.inputs)])
        if not used and any(part.on_cpu and not part.inputs for part in parts):
            used = {value.name for value in model.inputs[:1]}
        if any(part.on_cpu for part in parts) or used != inputs:
            graph = graph_type(name=name, toolkit=graph.toolkit)
            final = Lowering(model, graph, functions)
            final.build(parts, used)
            final.finish(wanted)
        else:
            trial.finish(wanted)
    except BaseException:
        if toolkit is None:
            graph.close()
        raise
    return Built(graph, tuple(parts), empty, len(graph.nodes))
