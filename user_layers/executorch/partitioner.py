"""`TpuLayerPartitioner`: which nodes of an edge program go to the BM1684, and why the others stay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from executorch.exir.graph_module import get_control_flow_submodules
from executorch.exir.print_program import inspect_node
from torch.fx.passes.operator_support import OperatorSupportBase

from user_layers.delegates.divide import divide
from user_layers.delegates.verdicts import verdicts
from user_layers.executorch.backend import TpuLayerBackend, line_of
from user_layers.executorch.options import Options
from user_layers.executorch.toolkits import remembered_of, toolkit_of
from user_layers.spelling.foreign import ForeignModel
from user_layers.torch.call import full_name
from user_layers.torch.program import constants_of, kind_of, read_graph
from user_layers.torch.spellings import TORCH

_WHOLE = {
    full_name(name)
    for name in (
        *("linear", "baddbmm", "scaled_dot_product_attention", "rms_norm", "group_norm", "instance_norm"),
        *("hardswish", "hardsigmoid", "silu", "mish", "softplus", "glu", "celu", "selu", "log_sigmoid"),
        *("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_bilinear2d.vec"),
        *("upsample_bicubic2d.vec", "upsample_linear1d.vec", "pixel_shuffle", "pixel_unshuffle"),
        *("channel_shuffle", "adaptive_avg_pool1d", "adaptive_max_pool2d", "addcmul", "std.correction"),
    )
}
"""Operators that lose something when they are written out in core ones: the others know them better so."""

_CONTROL = ("cond", "map_impl", "scan", "while_loop")


@dataclass(frozen=True)
class Verdict:
    """On one node. reason: why it stays, None for one that goes to the device. shown: what ExecuTorch's
    `inspect_node` shows of one that stays, where that was asked for."""

    node: Any
    kind: str
    reason: str | None
    shown: str = ""

    @property
    def line(self) -> str:
        """The line of Python that the node comes from; "" where none is known."""
        return line_of(self.node)


@final
class TpuLayerPartitioner(Partitioner):  # type: ignore[misc]
    """Gives ExecuTorch's `to_edge_transform_and_lower` and `to_backend` the partitions for the BM1684.

    Every operation that the compiler makes layers of goes there, with its constants.
    operators: the only ones that may, by their names ("aten.convolution.default", or "convolution").
    custom, opt, dynamic, device, workspace: see `Options`. report: a file that gets a line for each node
    that stays; inspect: with the node in its graph and where it comes from, as ExecuTorch's `inspect_node`
    shows it.
    Errors: UsageError for options that do not fit.
    """

    def __init__(
        self,
        *,
        operators: Collection[str] | None = None,
        custom: Mapping[str, str] | None = None,
        opt: int = 2,
        dynamic: bool | None = None,
        device: int = 0,
        workspace: str | Path = "",
        report: str | Path | None = None,
        inspect: bool = False,
    ) -> None:
        self.options = Options(opt, dynamic, device, str(workspace), dict(custom or {}))
        self.delegation_spec = DelegationSpec(TpuLayerBackend.__name__, self.options.specs())
        self.operators = None if operators is None else frozenset(operators)
        self.report_file = None if report is None else Path(report)
        self.inspect = inspect
        self.verdicts: list[Verdict] = []

    def supported(self, program: Any) -> set[Any]:
        """The nodes of a program (and of the branches in it) that the compiler makes layers of; `verdicts`
        then says it of each. For partitioners that tag nodes for several backends."""
        self.verdicts = list(self._judged(program.graph_module, constants_of(program), program))
        return {verdict.node for verdict in self.verdicts if verdict.reason is None}

    def partition(self, exported_program: Any) -> PartitionResult:
        """Tag the nodes that go to the device; writes the report."""
        support = _Supported(self.supported(exported_program))
        tags = {}
        for place, module in enumerate(modules_of(exported_program.graph_module)):
            runs = [
                part.nodes
                for part in generate_partitions_from_list_of_nodes(module, op_support=support)
                if not all(_is_constant(node, exported_program) for node in part.nodes)
            ]
            for number, nodes in enumerate(self._pieces(module, runs, exported_program)):
                tag = f"tpulayer_{place}_{number}"
                tags[tag] = self.delegation_spec
                for node in nodes:
                    node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        if self.inspect:
            self.verdicts = [
                replace(one, shown=inspect_node(one.node.graph, one.node)) if one.reason is not None else one
                for one in self.verdicts
            ]
        if self.report_file is not None:
            from user_layers.files import write_atomic

            write_atomic(self.report_file, self.report())
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)

    def ops_to_not_decompose(self, ep: Any) -> tuple[list[Any], None]:
        """Those operators made of several core ones of which the compiler makes layers wherever they stand in
        this program."""
        targets: dict[Any, bool] = {}
        for verdict in self._judged(ep.graph_module, constants_of(ep), ep):
            target = verdict.node.target
            if verdict.kind in _WHOLE:
                targets[target] = targets.get(target, True) and verdict.reason is None
        return [target for target, good in targets.items() if good], None

    @property
    def counted(self) -> tuple[int, int]:
        """How many operations of the newest partitioning go, and how many there are."""
        return sum(verdict.reason is None for verdict in self.verdicts), len(self.verdicts)

    def report(self) -> str:
        """Of the newest partitioning: how many nodes go, and each that stays with its reason and line."""
        stays = [verdict for verdict in self.verdicts if verdict.reason is not None]
        going, total = self.counted
        lines = [f"{going} of {total} operations go to the BM1684"]
        for verdict in stays:
            place = f"  ({verdict.line})" if verdict.line else ""
            lines.append(f"{verdict.node.name} {verdict.kind}: {verdict.reason}{place}")
            lines += [f"    {line}" for line in verdict.shown.splitlines()]
        return "\n".join(lines) + "\n"

    def _pieces(self, module: Any, runs: list[Collection[Any]], program: Any) -> Iterator[list[Any]]:
        """The nodes of the pieces of runs that compile; `verdicts` learns of the nodes that are in none."""
        model = self._model(module, constants_of(program) if module is program.graph_module else {}, program)
        index = {operation.name: i for i, operation in enumerate(model.operations)}
        for nodes in runs:
            run = [index[node.name] for node in nodes if node.name in index]
            (found,) = divide(
                model,
                [run],
                TORCH,
                toolkit_of(self.options.workspace),
                dynamic=self.options.is_dynamic(model.part(tuple(sorted(run)))),
                opt=self.options.opt,
            )
            left = {model.operations[i].name: why for i, why in found.left.items()}
            self.verdicts = [
                replace(one, reason=left[one.node.name])
                if one.node in nodes and one.node.name in left
                else one
                for one in self.verdicts
            ]
            for piece in found.pieces:
                names = {model.operations[i].name for i in piece}
                yield [node for node in nodes if _maker(node).name in names]

    def _model(self, module: Any, constants: Mapping[str, Any], program: Any) -> ForeignModel:
        return read_graph(
            module.graph,
            constants,
            program.range_constraints,
            name="program",
            custom=self.options.custom,
            whole=False,
        )

    def _judged(self, module: Any, constants: Mapping[str, Any], program: Any) -> Iterator[Verdict]:
        toolkit = toolkit_of(self.options.workspace)
        model = self._model(module, constants, program)
        nodes = {node.name: node for node in module.graph.nodes}
        found = verdicts(model, TORCH, toolkit, remembered_of(toolkit))
        for operation, reason in zip(model.operations, found, strict=True):
            node = nodes[operation.name]
            if operation.kind in _CONTROL:
                reason = "ExecuTorch does it; what is inside it is judged by itself"
            elif self.operators is not None and not _names(operation.kind) & self.operators:
                reason = "it is not among the operators that were asked for"
            yield Verdict(node, operation.kind, reason)
        for _, inner, _ in get_control_flow_submodules(module):
            yield from self._judged(inner, {}, program)


class _Supported(OperatorSupportBase):  # type: ignore[misc]
    def __init__(self, nodes: set[Any]) -> None:
        self.nodes = nodes

    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        return _maker(node) in self.nodes


def _maker(node: Any) -> Any:
    """The node of the operation: what a getitem takes one of several results of, or the node itself."""
    return node.args[0] if kind_of(node.target) == "getitem" and node.op == "call_function" else node


def modules_of(module: Any) -> Iterator[Any]:
    """A graph module and those of the branches and loops in it."""
    yield module
    for _, inner, _ in get_control_flow_submodules(module):
        yield from modules_of(inner)


def _names(kind: str) -> set[str]:
    """What an operator may be called: aten.add.Tensor, add.Tensor, add."""
    parts = kind.split(".")
    return {kind, ".".join(parts[1:]), *parts[1:2]}


def _is_constant(node: Any, program: Any) -> bool:
    """Whether a node depends on no input: a net computes nothing from constants alone."""
    signature = program.graph_signature
    own = {*signature.inputs_to_parameters, *signature.inputs_to_buffers}
    own |= set(signature.inputs_to_lifted_tensor_constants)
    seen, todo = set(), [node]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.op == "placeholder" and one.name not in own:
            return False
        if (
            one.op == "call_function"
            and not hasattr(one.target, "_schema")
            and kind_of(one.target) != "getitem"
        ):
            return False
        todo += one.all_input_nodes
    return True
