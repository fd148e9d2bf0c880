"""A model into a graph: the passes in their order. Each takes what earlier ones returned and reaches back to
none; why each stands where it stands is said beside its call.

Model -> mapped -> float32 -> folded -> observed -> folded -> outputs -> survey (fused, written out) -> parts
-> inputs -> Graph
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from firmware_sim.chip import MAX_TENSORS
from firmware_sim.errors import CompileError, UsageError
from user_layers.graph import GraphBuilder
from user_layers.onnx.custom import MapFunction, resolve_map
from user_layers.onnx.einsum import without_single_letters
from user_layers.onnx.fitting import check_shapes
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.lengths import with_lengths
from user_layers.onnx.lower import Converter, Lowering, OwnLayers
from user_layers.onnx.model import Array, Model, Value
from user_layers.onnx.observe import observe_shapes
from user_layers.onnx.partition import Part, partition
from user_layers.onnx.precision import in_float32, narrow_types
from user_layers.onnx.steps_first import with_steps_first
from user_layers.onnx.survey import Survey, is_beyond_host, survey_layers
from user_layers.onnx.types import obstacle
from user_layers.onnx.unrounded import unquantised
from user_layers.onnx.varying import largest_shapes
from user_layers.quantize.noise import with_means
from user_layers.quantize.report import Quantised
from user_layers.quantize.rewrite import Int8, QuantiseOptions, quantise
from user_layers.quantize.table import Range, Table
from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Built:
    """A graph made of a model. model: folded, fused and with shapes, whose nodes are in `parts`. parts: what
    runs where, in order. empty: outputs without elements, which a net cannot have. layers: how many the graph
    has now. observed: values whose shapes were seen by running the model, because nothing infers them.
    narrow: types and roundings of the model in place of which it computes in float32. varying: the largest
    shapes of outputs whose shapes are known only when a net has run. own: the layers of the user's nodes, by
    the node's first output, as `floats` has them: the graph as it was in float. quantised: what became of it
    where `graph` is in integers; int8: what makes the same of this model with other shapes."""

    graph: GraphBuilder
    floats: GraphBuilder
    model: Model
    parts: tuple[Part, ...]
    empty: Mapping[str, Array]
    layers: int
    observed: tuple[Value, ...] = ()
    narrow: tuple[str, ...] = ()
    varying: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    own: Mapping[str, OwnLayers] = field(default_factory=dict)
    quantised: Quantised[GraphBuilder] | None = None
    int8: Int8 | None = None

    @property
    def on_cpu(self) -> list[str]:
        """Each node that runs on the CPU, and why."""
        return [
            f"{node.title}: {reason.text}"
            for part in self.parts
            if part.on_cpu
            for node, reason in zip(part.nodes, part.reasons, strict=True)
        ]


FOLDED = {"BatchNormalization": "", "Relu": "_relu"}
"""Operations that become part of others, and how the vendor's tables mark what they did to a name."""


def build(
    model: Model,
    name: str,
    *,
    custom: Mapping[str, str | MapFunction] | None = None,
    toolkit: Toolkit | None = None,
    cpu: bool = True,
    allow_empty: bool = False,
    graph_type: type[GraphBuilder] = GraphBuilder,
    int8: Int8 | None = None,
    integers: bool = True,
) -> Built:
    """The graph of a model; see `graph_from_onnx`. allow_empty: outputs without elements are left out.
    graph_type: the class of the graph. int8: the graph shall be in 8-bit integers; a model that is quantised
    brings ranges of its own, and its graph is in integers too. integers: False for the graph in float."""
    functions = resolve_map(custom)
    # First, for no pass may touch a node that the user maps.
    model = mark_mapped(model, functions)
    # Behind the marks: what the user maps stays. Before all that goes by inferred shapes.
    model = without_single_letters(model)
    # Behind the marks, too; before the rest, for which 8-bit numbers would be in the way.
    model, ranges, rounded = unquantised(model)
    if int8 is not None and not (int8.table.ranges or ranges):
        raise UsageError(
            f"{int8.asked or '8-bit integers'} without --int8: the model has no 8-bit scales of its own",
            hint="`tpulayer calibrate` makes the table for it",
        )
    # Before nodes become part of what is before them.
    folded = {node.outputs[0]: (node.inputs[0], FOLDED[node.op]) for node in model.nodes if node.op in FOLDED}
    # Behind the marks: what the user maps keeps its types. Before all that computes or asks for types.
    model, narrow = in_float32(model), [*narrow_types(model), *rounded]
    # Before folding, which makes constants of turned ones.
    model = with_steps_first(model)
    # Before folding, for what asks for a shape becomes a constant there.
    model = with_lengths(model)
    # Before observing: an operand that says how large a result is must be a constant by then.
    model = fold_constants(model)
    # Again: scales that were computed are constants now.
    model = with_lengths(model)
    # Behind folding, which infers shapes as far as possible: this runs the model for the rest.
    model = observe_shapes(model)
    # Again: what reads a shape that was observed is constant now.
    model = fold_constants(model)
    # Behind all that makes constants and shapes known, before anything asks whether there are layers.
    check_shapes(model)
    # Behind folding, which makes a constant of every value without elements.
    wanted, empty = _part_outputs(model, allow_empty)
    opened = toolkit or Toolkit()

    known = {*ranges, *(int8.table.ranges if int8 else ())} if int8 or ranges else None

    def new_graph() -> GraphBuilder:
        return graph_type(name=name, toolkit=opened)

    try:
        # Nodes that have layers may go to the host with those that they cannot be parted from: then plain
        # operations again.
        for plain in (False, True):
            # Behind all that makes shapes and constants known, because converters ask for both. It fuses and
            # writes out in turn: a node without a layer may get some, and only then its neighbours can fuse.
            survey = survey_layers(model, new_graph, functions, cpu=cpu, plain=plain, ranges=known)
            # Behind the survey, which made all shapes known that can be.
            varying = largest_shapes(survey.model)
            # Behind the survey, which says why nodes cannot run on the TPU and what the layers read.
            parts = _partition(survey, varying)
            if not is_beyond_host(node for part in parts if part.on_cpu for node in part.nodes):
                break
        # Behind the partition: only now it is known which inputs anything reads.
        inputs = _used_inputs(survey.model, parts, wanted)
        # Last: layers and parts on the CPU, with the outputs named.
        lowering = _lower(survey, parts, inputs, wanted, functions, varying, new_graph)
        graph, done, written, made_with = lowering.graph, survey.model, None, None
        if integers and (int8 is not None or ranges):
            # Behind all of that: what is rewritten are layers, whatever operations they come from.
            table, options = _asked(int8, ranges, folded)
            written = quantise(graph, table, options, int8.choices if int8 is not None else None)
            own = int8 is None or not int8.table.ranges
            means = with_means(graph, table, written.rows) if own else None
            if means is not None:
                written = quantise(graph, means, options)
            graph, made_with = written.graph, Int8(written.table, options, choices=written.choices)
    except BaseException:
        if toolkit is None:
            opened.close()
        raise
    return Built(
        graph,
        lowering.graph,
        done,
        tuple(parts),
        empty,
        len(graph.nodes),
        done.observed,
        tuple(narrow),
        varying,
        lowering.own,
        written,
        made_with,
    )


def _asked(
    int8: Int8 | None, ranges: Mapping[str, Range], folded: Mapping[str, tuple[str, str]]
) -> tuple[Table, QuantiseOptions]:
    """The table: what the user gave before what the model says. folded: as `Table.behind` takes it."""
    given = int8 or Int8(Table({}))
    table = replace(given.table, ranges={**ranges, **given.table.ranges})
    return table.behind(folded), given.options


def mark_mapped(model: Model, functions: Mapping[str, object]) -> Model:
    """The model with the nodes marked of which the user says what they become. Errors: UsageError for one
    that it does not have."""
    unknown = set(functions) - {text for node in model.nodes for text in (node.name, node.op)}
    if unknown:
        raise UsageError(
            f"the model has no node {min(unknown)!r} that a layer could be mapped to",
            hint="give a node's name or its operation",
        )
    nodes = (replace(n, mapped=True) if {n.name, n.op} & set(functions) else n for n in model.nodes)
    return replace(model, nodes=tuple(nodes))


def _part_outputs(model: Model, allow_empty: bool) -> tuple[list[str], dict[str, Array]]:
    """The outputs that the net has, and those without elements, which it cannot have. Errors: CompileError
    for the latter unless they are allowed."""
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
    return [value.name for value in model.outputs if value.name not in empty], empty


def _partition(survey: Survey, varying: Collection[str]) -> list[Part]:
    """The parts for TPU and CPU. Errors: CompileError for too many tensors between them."""
    model = survey.model
    return partition(
        model,
        survey.refused,
        lambda value: obstacle(model.value(value)),
        MAX_TENSORS,
        survey.lowering.operands,
        varying,
    )


def _used_inputs(model: Model, parts: Sequence[Part], wanted: Collection[str]) -> set[str]:
    """The inputs that a part or an output reads; the first one for a part that reads none but needs one."""
    inputs = {value.name for value in model.inputs}
    used = inputs.intersection([*wanted, *(value for part in parts for value in part.inputs)])
    if not used and any(part.on_cpu and not part.inputs for part in parts):
        return {value.name for value in model.inputs[:1]}
    return used


def _lower(
    survey: Survey,
    parts: Sequence[Part],
    inputs: Collection[str],
    wanted: Sequence[str],
    functions: Mapping[str, Converter],
    varying: Mapping[str, tuple[int, ...]],
    new_graph: Callable[[], GraphBuilder],
) -> Lowering:
    """The graph of the parts: the survey's own where every node has a layer and no input is left out."""
    lowering = survey.lowering
    if any(part.on_cpu for part in parts) or len(inputs) < len(survey.model.inputs):
        lowering = Lowering(survey.model, new_graph(), functions)
        lowering.build(parts, inputs, varying)
    lowering.finish(wanted)
    return lowering
