"""A graph in fp32 becomes one in 8-bit integers where its layers can.

Node by node in their order: the rule of its kind writes an 8-bit layer, or says why not, and then the node
stays as it is. Tensors are converted where one side needs the other's numbers, once for all who do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from firmware_sim.errors import UsageError
from firmware_sim.suggest import did_you_mean
from firmware_sim.wire import DType
from user_layers.graph import GraphBuilder
from user_layers.graph.prepared import free_name
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import LayerNode, Tensor, called
from user_layers.quantize.channels import channels_last
from user_layers.quantize.equalise import Equalised, equalise
from user_layers.quantize.even_tokens import even_tokens
from user_layers.quantize.permuted import with_permuted
from user_layers.quantize.report import G, Quantised, Row, some
from user_layers.quantize.scales import Step, multiplier
from user_layers.quantize.sites import Site, sites
from user_layers.quantize.table import Range, Table
from user_layers.quantize.ties import tied
from user_layers.quantize.zeros import with_zeros

_ROWS, _TOKENS = 2, 3  # dimensions of [T, C] and [N, T, C]
_IN_A_ROW = {"height": 0, "width": 0}  # what TPU_TURN makes has three dimensions

Rule = Callable[["Rewriting", Site], str | None]
"""Writes a site in integers; or says why it cannot, and has added nothing then."""

RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Registers the rule of these layers."""

    def add(function: Rule) -> Rule:
        for op in ops:
            assert op not in RULES
            RULES[op] = function
        return function

    return add


@dataclass(frozen=True)
class QuantiseOptions:
    """fp32: layers that stay, by their names or those of their outputs. quant_input, quant_output: inputs and
    outputs of the net are integers, with a scale, where layers on them take or make such. equalise: channels
    between layers are brought to like sizes before."""

    fp32: Collection[str] = ()
    quant_input: bool = False
    quant_output: bool = False
    equalise: bool = True


@dataclass(frozen=True)
class Int8:
    """A net that shall be in integers: the ranges of its tensors, which a quantised model may bring itself,
    and what else is known. asked: the command's option that wants it where there is no table. choices: those
    of a net for larger inputs, as of `Rewriting`, which this one shall be like."""

    table: Table
    options: QuantiseOptions = field(default_factory=QuantiseOptions)
    asked: str = ""
    choices: Mapping[str, bool] = field(default_factory=dict)


@dataclass
class Rewriting:
    """The graph that is being made, and what every tensor of the old one has become in it.

    bytes: names and steps of tensors in integers; second: of those whose last dimension, channels, is second
    there, and the others are one behind it; plain: names of tensors in fp32 (or in what they were); kept:
    those that the same layers make as before. steps: what tensors that share a scale have got, by the name
    that stands for them. ranges: from the table; tokens: those whose channels are last; together:
    of all that share a scale. layer_of: the layer of the old graph after which what makes a tensor is named.
    details, short: for the report (report.py), by the layer's name. choices: whether 8 bits are faster, by
    the names of layers that asked.
    """

    graph: GraphBuilder
    net: Net
    made: GraphBuilder
    ranges: dict[str, Range]
    options: QuantiseOptions
    tokens: Collection[str]
    group_of: Mapping[str, str]
    together: dict[str, Range]
    bytes: dict[str, tuple[str, Step]] = field(default_factory=dict)
    second: dict[str, tuple[str, Step]] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    steps: dict[str, Step] = field(default_factory=dict)
    layer_of: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    choices: dict[str, bool] = field(default_factory=dict)

    # ---- looking ----

    def info(self, name: str) -> NetTensorInfo:
        """Shape and type in the old graph."""
        return self.net.tensors[name]

    def stays(self, node: LayerNode) -> str | None:
        """The name by which the user keeps a node in fp32."""
        return next((n for n in (node.name, *node.outputs) if n in self.options.fp32), None)

    def pays(self, node: LayerNode, faster: Callable[[], bool]) -> bool:
        """Whether 8 bits are faster for a node; it stays so where inputs become smaller."""
        if node.name not in self.choices:
            self.choices[node.name] = faster()
        return self.choices[node.name]

    def missing(self, *names: str) -> str | None:
        """Why these tensors cannot be integers: nobody knows their range."""
        for name in names:
            if not self.is_bytes(name) and self.range_of(name) is None:
                return f"the table has no range of {name!r}"
        return None

    def is_bytes(self, name: str) -> bool:
        """Whether a tensor is at hand in integers, in whichever order."""
        return name in self.bytes or name in self.second

    def given(self, name: str) -> tuple[str, Step]:
        """Name and step of a tensor that is at hand in integers; with channels second if it is so."""
        return self.second[name] if name in self.second else self.bytes[name]

    def shape_given(self, name: str) -> tuple[int, ...]:
        """The shape of what `given` names."""
        shape = self.info(name).shape
        return second_shape(shape) if name in self.second else shape

    def wanted(self, name: str, signed: bool, limit: float | None = None) -> tuple[Step, bool]:
        """The step for a tensor that a layer is about to make, and whether it may be larger: it may not where
        others have it already, or where a clip must cut at the largest integer."""
        group = self.group_of.get(name, name)
        known = self.steps.get(group)
        if known is not None and known.signed == signed and limit is None:
            return known, False
        threshold = self.threshold(name)
        if limit is not None:
            return Step.for_threshold(min(threshold, limit), signed), False
        return Step.for_threshold(threshold, signed), True

    def is_free(self, name: str) -> bool:
        """Whether no other tensor has decided the step of this one yet."""
        return self.group_of.get(name, name) not in self.steps

    def threshold(self, name: str) -> float:
        """Of a tensor, with those that shall have the same scale."""
        return self.together[self.group_of.get(name, name)].threshold

    def step_of(self, name: str, signed: bool | None = None) -> Step:
        """What `as_bytes` will give a tensor."""
        if self.is_bytes(name):
            return self.given(name)[1]
        one = self.range_of(name)
        assert one is not None  # missing() was asked
        step = self.steps.get(self.group_of.get(name, name))
        if step is None or signed not in (None, step.signed) or (one.signed and not step.signed):
            return Step.for_threshold(self.threshold(name), one.signed if signed is None else signed)
        return step

    def power(self, name: str) -> float:
        """The expected mean square of a tensor's values."""
        one = self.range_of(name)
        assert one is not None  # missing() was asked
        return one.mean_square

    def range_of(self, name: str) -> Range | None:
        """Of a tensor, or of those that share its scale."""
        return self.ranges.get(name) or self.together.get(self.group_of.get(name, name))

    def learn(self, name: str, step: Step) -> None:
        """The range of a tensor that the table does not know: what the integers reach that a layer makes."""
        if self.range_of(name) is None:
            low = -128 * step.scale if step.signed else 0.0
            one = Range(low, step.largest * step.scale, step.largest * step.scale)
            self.ranges[name] = self.together[self.group_of.get(name, name)] = one

    # ---- writing ----

    def layer(
        self,
        site: Site,
        op: str,
        inputs: Sequence[str],
        values: Mapping[str, Any],
        output: str,
        *,
        beside: bool = False,
    ) -> str:
        """Add a layer that stands for a site and is called as its node is; beside: one that goes with it, as
        conversions do. Returns `output`."""
        self._add(site.node, op, inputs, values, output, beside=site.node.name if beside else "")
        return output

    def result(self, site: Site, step: Step, name: str | None = None, like: str | None = None) -> str:
        """The name for the integers of a site's result (or of tensor `name`), which are noted as `step`.
        like: their channels are second if those of this tensor are."""
        tensor = name or site.output
        if like in self.second:
            return self.result_second(tensor, step)
        return self.note(tensor, self._own(tensor, step), step)

    def result_second(self, tensor: str, step: Step) -> str:
        """The name for a tensor's integers with channels second."""
        return self.note(tensor, self._free(f"{tensor}:second"), step, second=True)

    def note(self, tensor: str, own: str, step: Step, *, second: bool = False) -> str:
        """That `own` is a tensor in integers, with channels second or not. Returns `own`."""
        (self.second if second else self.bytes)[tensor] = own, step
        self.steps.setdefault(self.group_of.get(tensor, tensor), step)
        return own

    def _own(self, tensor: str, step: Step) -> str:
        if tensor in self.net.outputs and not self.options.quant_output:
            return self._free(f"{tensor}:{step.dtype.numpy_name}")
        return tensor

    def between(self, site: Site, what: str) -> str:
        """A free name for what lies inside of a site."""
        return self._free(f"{site.output}:{what}")

    def as_bytes(self, node: LayerNode, name: str, signed: bool | None = None) -> tuple[str, Step]:
        """Name and step of a tensor in integers, in the order of its own dimensions; it is converted if it is
        not; signed: what a tensor that is converted shall be, by default what its range says."""
        shape = self.info(name).shape
        if name in self.second and name not in self.bytes and not are_rows(shape):
            source, step = self.second[name]
            own = self._own(name, step)
            if len(shape) == _TOKENS:
                self._convert(node, "TPU_TURN", source, _IN_A_ROW, own)
            else:
                tokens = self._convert(node, "TPU_TURN", source, _IN_A_ROW, self._free(f"{name}:tokens"))
                self._convert(node, "TPU_RESHAPE", tokens, _view(0, *shape[1:]), own)
            self.bytes[name] = own, step
        if name not in self.bytes:
            step = self.step_of(name, signed)
            own = self._free(f"{name}:{step.dtype.numpy_name}")
            values = {"dtype": int(step.dtype), "scale": step.scale}
            self._convert(node, "TPU_QUANTIZE", self.as_plain(node, name), values, own)
            self.bytes[name] = own, step
            self.steps.setdefault(self.group_of.get(name, name), step)
        return self.bytes[name]

    def as_second(self, node: LayerNode, name: str) -> tuple[str, Step]:
        """Name and step of a tensor in integers with its last dimension, channels, second: as of
        `second_shape`."""
        if name in self.second:
            return self.second[name]
        shape = self.info(name).shape
        if not are_rows(shape):
            source, step = self.as_bytes(node, name)
            if len(shape) != _TOKENS:
                tokens = self._free(f"{name}:tokens")
                source = self._convert(node, "TPU_RESHAPE", source, _view(0, -1, shape[-1]), tokens)
        else:  # integers of one batch cannot become those of another
            step = self.step_of(name)
            tokens, source = self._free(f"{name}:tokens"), self._free(f"{name}:{step.dtype.numpy_name}")
            self._convert(node, "TPU_RESHAPE", self.as_plain(node, name), _view(1, -1, shape[-1]), tokens)
            values = {"dtype": int(step.dtype), "scale": step.scale}
            self._convert(node, "TPU_QUANTIZE", tokens, values, source)
        own = self.result_second(name, step)
        self._convert(node, "TPU_TURN", source, _IN_A_ROW, own)
        return own, step

    def rescaled(self, site: Site, source: str, own: Step, step: Step, what: str) -> str:
        """The name of the same values in another step; `what`: names them inside of the site."""
        if own == step:
            return source
        m, k = multiplier(own.scale / step.scale)
        values = {"multiplier": m, "rshift": k, "dtype": int(step.dtype), "scale": step.scale}
        return self.layer(site, "TPU_REQUANTIZE", [source], values, self.between(site, what), beside=True)

    def reshaped(
        self, site: Site, source: str, shape: Sequence[int], output: str, *, beside: bool = False
    ) -> str:
        """Integers in another shape with the same batches; beside: as of `layer`."""
        values = {"dims": len(shape), "shape": shape}
        return self.layer(site, "TPU_RESHAPE", [source], values, output, beside=beside)

    def move(self, site: Site, inputs: Sequence[str], values: Mapping[str, Any], step: Step) -> None:
        """The site's own layer on integers, which keep their step."""
        outputs = [self.result(site, step, name) for name in site.node.outputs]
        self._add(site.node, site.op, inputs, values, *outputs)

    def as_plain(self, node: LayerNode, name: str) -> str:
        """The name of a tensor in fp32, or in whatever else the old graph has it."""
        if name not in self.plain and name not in self.bytes and are_rows(self.info(name).shape):
            turned, tokens = self._free(f"{name}:tokens"), self._free(f"{name}:rows")
            shape, made = _view(-1, *self.info(name).shape[1:]), self.layer_of.get(name)
            self._convert(node, "TPU_TURN", self.second[name][0], _IN_A_ROW, turned, made)
            self._convert(node, "TPU_DEQUANTIZE", turned, {}, tokens, made)
            self.plain[name] = self._convert(node, "TPU_RESHAPE", tokens, shape, name, made)
        if name not in self.plain:
            source, _ = self.as_bytes(node, name)
            free = name if source != name else self._free(f"{name}:float32")
            made = self.layer_of.get(name)
            self.plain[name] = self._convert(node, "TPU_DEQUANTIZE", source, {}, free, made)
        return self.plain[name]

    def constant(self, site: Site, what: str, array: Any) -> str:
        """A constant of a site."""
        return self.made.add_const(self.between(site, what), array)

    def keep(self, node: LayerNode) -> None:
        """Take a node over as it is."""
        names = [self.as_plain(node, name) for name in node.inputs]
        self.made.add_node(node, names, node.outputs)
        self.plain.update((name, name) for name in node.outputs)
        self.kept.update(node.outputs)

    def _convert(
        self,
        node: LayerNode,
        op: str,
        source: str,
        values: Mapping[str, Any],
        output: str,
        beside: str | None = None,
    ) -> str:
        """A layer that gives a node one of its tensors in another form; beside: the layer that it is named
        after, by default the node. Returns `output`."""
        self._add(node, op, [source], values, output, beside=beside or node.name)
        return output

    def _add(
        self,
        node: LayerNode,
        op: str,
        inputs: Sequence[str],
        values: Mapping[str, Any],
        *outputs: str,
        beside: str = "",
    ) -> None:
        """beside: the layer of the old graph that the new one goes with and is named after; else it has the
        node's own name. So log, report and --fp32 speak of the layers of the model."""
        stem = f"{beside}:{op.removeprefix('TPU_').lower()}" if beside else node.name
        title, taken = stem, {one.name for one in self.made.nodes}
        if beside or stem in taken:
            title = free_name(stem, self._layers, taken)
        with called(node.where):
            self.made.add_tpu_layer(op, inputs, values or None, outputs, name=title)

    @cached_property
    def _layers(self) -> frozenset[str]:
        """The names of the old graph's layers."""
        return frozenset(node.name for node in self.net.nodes)

    def _free(self, stem: str) -> str:
        return free_name(stem, self.net.tensors, self.made.tensor_names)


def quantise(
    graph: G,
    table: Table,
    options: QuantiseOptions = QuantiseOptions(),
    choices: Mapping[str, bool] | None = None,
) -> Quantised[G]:
    """The graph in 8-bit integers, as far as its layers can; inputs and outputs keep names and order.
    choices: as of `Int8`.

    Errors: UsageError for layers to be left in fp32 that the graph does not have, or a table of another
    graph; CompileError of shape functions.
    """
    # Imported for what they register.
    from user_layers.quantize import (  # noqa: F401
        rules_attention,
        rules_deconv,
        rules_linear,
        rules_movement,
        rules_pointwise,
        rules_tokens,
    )

    net = as_given(graph, table)
    _check_names(net, options)
    options = _with_parts(net, options)
    known = table.for_tensors(net.tensors).ranges
    if known and not known.keys() & net.tensors.keys():
        raise UsageError(
            f"the calibration table names no tensor of this net: it has {some(list(known))}, and the net "
            f"{some(list(net.tensors))}",
            hint="calibrate this model; names are the model's own",
        )
    known = with_permuted(net, with_zeros(net, known, graph.toolkit), graph.toolkit)
    even = Equalised(net, dict(known))
    if options.equalise:
        even = even_tokens(equalise(net, even.ranges, graph.toolkit), graph.toolkit, options.fp32)
    net, known = even.net, even.ranges
    group_of, together = tied(net, known, graph.toolkit)
    made = type(graph)(graph.chip, graph.name, toolkit=graph.toolkit)
    tokens = channels_last(net.nodes, net.tensors, graph.toolkit)
    state = Rewriting(
        graph, net, made, known, options, tokens, group_of, together, choices=dict(choices or {})
    )
    for tensor in graph.tensors.values():
        _take_over(state, tensor.name)
    for one in net.tensors.values():
        if one.data is not None and one.name not in graph.tensors:
            made.add_tensor(Tensor(one.name, one.shape, one.dtype, one.data))
            state.plain[one.name] = one.name
    rows: list[Row] = []
    for site in sites(net, graph.toolkit):
        state.layer_of.update((name, site.node.name) for node in site.covered for name in node.outputs)
        reason = _reason(state, site)
        if reason is not None:
            for node in site.covered:
                state.keep(node)
        name = site.node.name
        rows.append(Row.of(net, site, reason, state.details.get(name, ""), state.short.get(name, 0)))
    last = net.nodes[-1]
    for name in net.outputs:
        if options.quant_output and state.is_bytes(name):
            made.add_output(state.as_bytes(last, name)[0])
        else:
            made.add_output(state.as_plain(last, name))
    second = frozenset(state.second.keys() - state.bytes.keys())
    integers = {name: (own, step.scale) for name, (own, step) in (state.second | state.bytes).items()}
    return Quantised(made, tuple(rows), table, integers, second, even.factors, even.note, state.choices)


def are_rows(shape: Sequence[int]) -> bool:
    """Whether tokens are one batch although they lie along the first dimension: [T, C], or [T, 1, C]."""
    return len(shape) <= _ROWS or (shape[0] > 1 and math.prod(shape[1:-1]) == 1)


def second_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """[N, C, T] for tokens [N, ..., C], and [1, C, T] for rows of one batch."""
    batches = 1 if are_rows(shape) else shape[0]
    return batches, shape[-1], math.prod(shape[:-1]) // batches


def _view(*shape: int) -> dict[str, Any]:
    """Parameters of TPU_RESHAPE."""
    return {"dims": len(shape), "shape": shape}


def with_ranges(graph: GraphBuilder, table: Table) -> GraphBuilder:
    """The same graph with scales for layers of the user's that take integers of it while it is in float."""
    known = table.for_tensors(graph.tensor_names).ranges
    return graph.with_scales(
        {name: Step.for_threshold(one.threshold, True).scale for name, one in known.items()}
    )


def as_given(graph: GraphBuilder, table: Table) -> Net:
    """The graph's own constants and the nodes that its outputs need, with the shapes of all tensors; those do
    not depend on scales, but a layer of the user's that takes integers asks for one."""
    tensors = dict(with_ranges(graph, table).resolve().tensors)
    for one in graph.tensors.values():
        tensors[one.name] = NetTensorInfo(
            one.name, one.shape, one.dtype, data=one.data, store_mode=one.store_mode, scale=one.scale
        )
    needed = tuple(node for node in graph.nodes if all(name in tensors for name in node.outputs))
    return Net(graph.name, tensors, needed, graph.inputs, graph.outputs)


def _take_over(state: Rewriting, name: str) -> None:
    """An input or a constant of the old graph."""
    tensor = state.graph.tensors[name]
    one = state.range_of(name)
    if state.options.quant_input and tensor.data is None and tensor.dtype is DType.FP32 and one is not None:
        step = Step.for_threshold(state.threshold(name), one.signed)
        state.made.add_input(name, tensor.shape, step.dtype.numpy_name, scale=step.scale)
        state.bytes[name] = name, step
        return
    state.made.add_tensor(tensor if tensor.data is None else replace(tensor, data=state.info(name).data))
    state.plain[name] = name


def _reason(state: Rewriting, site: Site) -> str | None:
    """None: the site is written in integers now."""
    asked = [name for node in site.covered if (name := state.stays(node))]
    if asked:  # the layer's own name stands beside the reason
        return "asked for" if asked[0] == site.node.name else f"asked for as {asked[0]!r}"
    if site.node.cpu is not None:
        return "on the host"
    if any(name in state.graph.statistics for node in site.covered for name in node.outputs):
        return "part of a normalisation"
    if not site.node.op.is_builtin:
        from user_layers.quantize.rules_custom import custom

        return custom(state, site)
    found = RULES.get(site.op)
    if found is None:
        return "no 8-bit layer does it"
    if any(math.prod(state.info(name).shape) == 0 for name in site.node.inputs):
        return "no elements"
    return found(state, site)


def _with_parts(net: Net, options: QuantiseOptions) -> QuantiseOptions:
    """With the other parts of products that were made in parts, NAME:1 and so on, to stay in fp32 too."""
    parts = [node.name for node in net.nodes if re.sub(r":\d+$", "", node.name) in options.fp32]
    return replace(options, fp32=tuple(dict.fromkeys((*options.fp32, *parts))))


def _check_names(net: Net, options: QuantiseOptions) -> None:
    known = [n for node in net.nodes for n in (node.name, *node.outputs)]
    for name in options.fp32:
        if name not in known:
            raise UsageError(
                f"--fp32 {name}: the net has no layer or tensor of that name{did_you_mean(name, known)}",
                hint="names of layers are those of the report (NAME:quantize and its like go with NAME), of "
                "tensors those of the model",
            )
