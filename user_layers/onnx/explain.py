"""What of a model would run where, and what would fill the gaps: asked before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote
from textwrap import wrap
from typing import Any

from firmware_sim.shown import count
from user_layers.graph import GraphBuilder
from user_layers.onnx.build import Built
from user_layers.onnx.fields import c_fields
from user_layers.onnx.fuse import AFFINE
from user_layers.onnx.model import DOMAIN, STANDARD, Node, shown
from user_layers.onnx.precision import described
from user_layers.onnx.work import macs
from user_layers.quantize.report import Quantised

_WIDTH = 110
_NAMES = 4  # nodes of a gap that the text names
_MOST = 0.5  # of the multiply-accumulates: more on the CPU is worth a warning


@dataclass
class Operation:
    """Nodes of one operation: how many on each side, and their multiply-accumulates."""

    name: str
    tpu: int = 0
    cpu: int = 0
    tpu_macs: int = 0
    cpu_macs: int = 0


@dataclass
class Gap:
    """Nodes of one operation that no layer computes, for one reason. alone: the model has no others of this
    operation; fields: what the parameter struct of a layer for them holds, in C; constants: which inputs of
    the first node are constants, and their shapes."""

    operation: str
    reason: str
    alone: bool = True
    nodes: list[str] = field(default_factory=list)
    macs: int = 0
    fields: list[str] = field(default_factory=list)
    constants: dict[int, list[int]] = field(default_factory=dict)

    @property
    def layer(self) -> str:
        """The name of a layer of the user's for it, as add_layer takes it."""
        words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", self.operation.rpartition(".")[2])
        return "my_" + re.sub(r"\W+", "_", words).lower()

    @property
    def add_layer(self) -> str:
        """The command that makes the layer's files."""
        return f"tpulayer add_layer {self.layer}"

    @property
    def option(self) -> str:
        """What gives the nodes to that layer when the model is compiled."""
        op = self.operation.rpartition(".")[2]
        chosen = [op] if self.alone or not all(self.nodes) else self.nodes
        return " ".join(f"--map {quote(f'{name}=TPU_{self.layer.upper()}')}" for name in chosen)


@dataclass(frozen=True)
class Explanation:
    """operations: the model's, folded and fused, those with most to multiply first; gaps: what is on the CPU
    for a reason of its own, follows: how many nodes are there because of these; notes: what else to know.
    quantised: what becomes of the layers where the net is in 8-bit integers."""

    operations: tuple[Operation, ...]
    gaps: tuple[Gap, ...]
    follows: int
    parts: int
    notes: tuple[str, ...]
    quantised: Quantised[GraphBuilder] | None = None

    @property
    def tpu(self) -> int:
        """Nodes on the TPU."""
        return sum(one.tpu for one in self.operations)

    @property
    def cpu(self) -> int:
        """Nodes on the CPU."""
        return sum(one.cpu for one in self.operations)

    @property
    def macs(self) -> int:
        """All multiply-accumulates that are known."""
        return sum(one.tpu_macs + one.cpu_macs for one in self.operations)

    @property
    def cpu_macs(self) -> int:
        """Those on the CPU."""
        return sum(one.cpu_macs for one in self.operations)

    def warning(self, place: str) -> str:
        """A line where all nodes are on the CPU, or most of what there is to multiply; else ""."""
        if not self.cpu or (self.tpu and self.cpu_macs <= _MOST * self.macs):
            return ""
        what = "nothing of this model runs on the TPU"
        if self.tpu:
            what = f"{self.cpu_macs / self.macs:.0%} of the multiply-accumulates run on the CPU"
        first = max(self.gaps, key=lambda gap: (gap.macs, len(gap.nodes)), default=None)
        why = f": {first.operation} ({count(len(first.nodes), 'node')}): {first.reason}" if first else ""
        return f"warning: {what}{why}; `tpulayer explain {place}` says what would help"

    def as_text(self, place: str) -> str:
        """For people, on several lines."""
        where = "all" if not self.cpu else str(self.tpu)
        head = f"{place}: {where} of {count(self.tpu + self.cpu, 'node')} on the TPU"
        if self.cpu:
            head += f", {self.cpu} on the CPU in {count(self.parts, 'part')}"
        if self.macs:
            share = (self.macs - self.cpu_macs) / self.macs
            head += f"; of {_millions(self.macs)} million multiply-accumulates {share:.1%} on the TPU"
        width = max([len(one.name) for one in self.operations] + [9])
        lines = [head, *self.notes, "", f"{'operation':{width}}    TPU    CPU  million MACs   share"]
        for one in self.operations:
            made = one.tpu_macs + one.cpu_macs
            work = f"{_millions(made):>12}  {made / self.macs:6.1%}" if made else ""
            lines.append(f"{one.name:{width}}  {one.tpu:5}  {one.cpu:5}  {work}".rstrip())
        for gap in self.gaps:
            names = ", ".join(shown(name or "(no name)") for name in gap.nodes[:_NAMES])
            more = f" and {len(gap.nodes) - _NAMES} more" if len(gap.nodes) > _NAMES else ""
            lines += ["", f"{gap.operation} on the CPU: {gap.reason}", f"  {names}{more}"]
            lines.append(f"  a layer of your own: {gap.add_layer}")
            if gap.fields:
                lines += wrap(
                    f"  its parameters, the attributes of the {'nodes' if len(gap.nodes) > 1 else 'node'}: "
                    f"{'; '.join(gap.fields)};",
                    _WIDTH,
                    subsequent_indent="    ",
                )
            if gap.constants:
                told = (f"input {i} {shape}" for i, shape in gap.constants.items())
                lines.append(f"  of what it reads, constant: {', '.join(told)}")
            lines.append(f"  and then: tpulayer compile {gap.option}")
        if self.follows:
            lines += ["", f"{count(self.follows, 'node')} on the CPU only because of these"]
        if self.quantised is not None:
            lines += ["", *self.quantised.lines()]
        return "\n".join(lines)

    def as_json(self, place: str) -> dict[str, Any]:
        """The same as an object."""
        return {
            "command": "explain",
            "ok": True,
            "model": place,
            "nodes": {"tpu": self.tpu, "cpu": self.cpu, "cpu_parts": self.parts},
            "macs": {"all": self.macs, "cpu": self.cpu_macs},
            "notes": list(self.notes),
            "operations": [dict(vars(one)) for one in self.operations],
            "gaps": [{**vars(gap), "add_layer": gap.add_layer, "compile": gap.option} for gap in self.gaps],
            "follows": self.follows,
            "int8": None if self.quantised is None else self._int8(self.quantised),
        }

    @staticmethod
    def _int8(done: Quantised[GraphBuilder]) -> dict[str, Any]:
        layers = [
            {"layer": r.layer, "operation": r.op, "output": r.output, "fp32": r.reason} for r in done.rows
        ]
        return {"share": done.share, "notes": done.lines(), "layers": layers}


def _is_made(node: Node) -> bool:
    """A view that the compiler put between nodes of the file: it moves nothing."""
    return node.op == "Reshape" and node.proto is None and not node.name


def explain(built: Built) -> Explanation:
    """What became of each node of a model, from what `build` made of it."""
    operations: dict[str, Operation] = {}
    gaps: dict[tuple[str, str], Gap] = {}
    attributes: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    follows = 0
    for part in built.parts:
        for i, node in enumerate(part.nodes):
            if not part.on_cpu and _is_made(node):
                continue
            name, work = _operation(node), macs(built.model, node)
            row = operations.setdefault(name, Operation(name))
            if not part.on_cpu:
                row.tpu, row.tpu_macs = row.tpu + 1, row.tpu_macs + work
                continue
            row.cpu, row.cpu_macs = row.cpu + 1, row.cpu_macs + work
            reason = part.reasons[i]
            follows += reason.follows
            if not reason.follows:
                text = _without(reason.text, node)
                gap = gaps.setdefault((name, text), Gap(name, text))
                if not gap.nodes:
                    gap.constants = _constants(built, node)
                gap.nodes.append(node.name)
                gap.macs += work
                attributes.setdefault((name, text), []).append(node.attributes)
    for key, gap in gaps.items():
        gap.fields = c_fields(attributes[key])
        row = operations[gap.operation]
        gap.alone = row.tpu + row.cpu == len(gap.nodes)
    rows = sorted(operations.values(), key=lambda one: (-one.tpu_macs - one.cpu_macs, -one.tpu - one.cpu))
    missing = sorted(gaps.values(), key=lambda gap: (-gap.macs, -len(gap.nodes)))
    parts = sum(part.on_cpu for part in built.parts)
    notes = [*described(built.narrow), *built.model.notes]
    return Explanation(tuple(rows), tuple(missing), follows, parts, tuple(notes), built.quantised)


def _constants(built: Built, node: Node) -> dict[int, list[int]]:
    known = built.model.constants
    return {i: list(known[name].shape) for i, name in enumerate(node.inputs) if name in known}


def _operation(node: Node) -> str:
    if node.op == AFFINE:
        return "BatchNormalization"  # also products and sums of channels, which are one
    return node.op if node.domain in (*STANDARD, DOMAIN) else f"{node.domain}.{node.op}"


def _without(reason: str, node: Node) -> str:
    """A reason without the names of values, so that nodes with the same one count as one."""
    for position, name in enumerate(node.inputs):
        reason = reason.replace(f"its input {name!r}", f"its input {position}")
        reason = reason.replace(repr(name), f"its input {position}") if name else reason
    for position, name in enumerate(node.outputs):
        reason = reason.replace(repr(name), f"its output {position}") if name else reason
    return reason


def _millions(number: int) -> str:
    return f"{number / 1e6:,.1f}"
