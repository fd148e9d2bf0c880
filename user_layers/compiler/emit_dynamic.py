"""The program of a dynamic part that the firmware interprets with the shapes of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from firmware_sim.wire import (
    LARGER,
    NONE,
    SHRINKS,
    Program,
    ProgramTensor,
    Step,
    StepOp,
    TensorKind,
    TensorRecord,
)
from user_layers.compiler.aliases import Aliases
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.ddr import DDR_ALIGN, Coefficients
from user_layers.compiler.emit_group import Enter, emit_group
from user_layers.compiler.grouping import Group, Segment
from user_layers.compiler.partition import Part, part_net
from user_layers.compiler.shrinking import shrinks
from user_layers.compiler.steps import layer_step
from user_layers.graph.shapes import input_record


@dataclass(frozen=True)
class DynamicPlan:
    """neuron_bytes: enough DDR for everything that the firmware allocates, at the compiled shapes."""

    program: Program
    neuron_bytes: int


def emit_dynamic(
    described: DescribedNet,
    part: Part,
    aliases: Aliases,
    coefficients: Coefficients,
    segments: Sequence[Segment] = (),
) -> DynamicPlan:
    """Each node becomes one call on DDR data; shapes are the compiled ones, which are the maximum.

    aliases: of the part alone; coefficients: of the whole net; segments: what runs for the part's nodes
    at the compiled shapes. Before the nodes of a group stand its steps on tiles.
    """
    own = part_net(described, part)
    emitter = _Emitter(described, part, own, aliases, coefficients)
    for name in part.inputs:
        emitter.in_ddr(name)
    heads = {segment.nodes[0]: segment for segment in segments if isinstance(segment, Group)}
    at = part.nodes.start
    while at < part.nodes.stop:
        group = heads.get(at)
        if group is None:
            emitter.alone(at)
            at += 1
        else:
            emitter.group(group)
            at = group.nodes[-1] + 1
    return DynamicPlan(emitter.finished(), _neuron_bytes(own, aliases))


class _Emitter:
    """The program under construction. described: the whole net; own: the part as one. Until it is finished,
    its tensors name nodes of the part in the place of the last steps that read them."""

    def __init__(
        self,
        described: DescribedNet,
        part: Part,
        own: DescribedNet,
        aliases: Aliases,
        coefficients: Coefficients,
    ) -> None:
        self.described, self.net = described, described.net
        self.part, self.aliases, self.coefficients = part, aliases, coefficients
        self.program = Program(in_num=len(part.inputs), out_num=len(part.outputs))
        self._last = _last_readers(own, aliases)
        self._at: list[int] = []  # the step that calls each node on DDR data
        self._index: dict[object, int] = {}
        self._latest: dict[str, object] = {}

    def in_ddr(self, name: str, record: TensorRecord | None = None) -> int:
        """The entry of a tensor; a constant has one for each type in which layers read it."""
        record = record or self.net.tensors[name].record()
        key = (name, record.ttype)
        if key not in self._index:
            kind, number = TensorKind.NEURON, 0
            if name in self.part.inputs:
                kind, number = TensorKind.INPUT, self.part.inputs.index(name)
            elif name in self.part.outputs:
                kind, number = TensorKind.OUTPUT, self.part.outputs.index(name)
            elif name in self.coefficients.offsets:
                kind, record = TensorKind.COEFF, record.at(self.coefficients.offsets[name])
            parent = self.aliases.parent.get(name)
            self._index[key] = self.program.add(
                ProgramTensor(
                    kind,
                    record,
                    index=number,
                    last_step=NONE if kind == TensorKind.OUTPUT else self._last[self.aliases.root(name)],
                    alias_of=NONE if parent is None else self._index[self._latest[parent]],
                    max_bytes=record.nbytes,
                )
            )
        self._latest[name] = key
        return self._index[key]

    def tile(self, kind: TensorKind, record: TensorRecord, of: str, index: int = 0) -> int:
        """The entry of a tile, or of a copy in L2; equal ones are entered once."""
        entry = ProgramTensor(kind, record, index, alias_of=self.in_ddr(of), max_bytes=record.nbytes)
        made = replace(entry, index=index | LARGER)  # who reads a tile does not care how it was made
        if made in self._index:
            return self._index[made]
        if entry not in self._index:
            self._index[entry] = self.program.add(entry)
        return self._index[entry]

    def alone(self, k: int) -> None:
        """The call of a node on DDR data."""
        step = self._global(k)
        self._at.append(len(self.program.steps))
        self.program.steps.append(step)

    def group(self, group: Group) -> None:
        """The steps of a group, on tiles and on DDR data."""
        steps, nodes = self.program.steps, group.nodes
        calls = [self._global(k) for k in nodes]  # first, so that what they share memory with is entered
        head = len(steps)
        steps.append(Step(StepOp.GROUP))
        emit_group(self.described, group, steps, Enter(self.in_ddr, self.tile, self._local))
        name = self.net.nodes[nodes[0]].name
        if len(nodes) > 1:
            name += f" to {self.net.nodes[nodes[-1]].name}"
        on_tiles = len(steps) - head - 1
        steps[head] = Step(
            StepOp.GROUP,
            op_type=SHRINKS if shrinks(self.described, group) else -1,
            name=name,
            local_steps=on_tiles,
            global_steps=len(calls),
        )
        self._at += range(len(steps), len(steps) + len(calls))
        steps += calls

    def finished(self) -> Program:
        """The program, when all nodes are in it."""
        self.program.tensors = [
            t if t.last_step == NONE else replace(t, last_step=self._at[t.last_step])
            for t in self.program.tensors
        ]
        return self.program

    def _global(self, k: int) -> Step:
        node, attrs = self.net.nodes[k], self.described.attrs[k]
        ins = [
            self.in_ddr(name, input_record(node, self.net.tensors[name], wanted))
            for name, wanted in zip(node.inputs, attrs.input_types, strict=True)
        ]
        outs = [self.in_ddr(name) for name in node.outputs]
        return layer_step(StepOp.GLOBAL, node, ins, outs, attrs.global_buffer)

    def _local(
        self, opcode: StepOp, k: int, inputs: list[int], outputs: list[int], address: int, nbytes: int
    ) -> None:
        self.program.steps.append(layer_step(opcode, self.net.nodes[k], inputs, outputs, nbytes, address))


def _last_readers(described: DescribedNet, aliases: Aliases) -> dict[str, int]:
    """By owner of memory: the last node that reads it, or makes it when nothing does; a net output in it
    keeps it to the end."""
    net = described.net
    last: dict[str, int] = {}
    for root, members in aliases.classes(net).items():
        nodes = [k for m in members for k in net.consumers[m]]
        nodes += [net.producer[m] for m in members if m in net.producer]
        last[root] = NONE if any(m in net.outputs for m in members) else max(nodes)
    return last


def _neuron_bytes(described: DescribedNet, aliases: Aliases) -> int:
    """Every neuron and work buffer beside one another: what any order of allocation and release fits into."""
    net = described.net
    sizes = [
        net.tensors[name].nbytes
        for name in net.producer
        if name not in net.outputs and name not in aliases.parent
    ]
    sizes += [attrs.global_buffer for attrs in described.attrs]
    return sum(-(-size // DDR_ALIGN) * DDR_ALIGN for size in sizes)
