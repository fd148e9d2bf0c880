"""The program of a static part that the firmware runs while its descriptors are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firmware_sim.wire import LARGER, Program, ProgramTensor, StepOp, TensorKind, TensorRecord
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.ddr import DdrPlan
from user_layers.compiler.emit_group import Enter, emit_group
from user_layers.compiler.grouping import Alone, Group, Segment
from user_layers.compiler.steps import layer_step
from user_layers.graph.shapes import input_record


def emit_static(described: DescribedNet, segments: Sequence[Segment], ddr: DdrPlan) -> Program:
    """One static part: its segments and addresses -> Program (to be recorded with FW_MODE_FIXED)."""
    emitter = _Emitter(described, ddr)
    for segment in segments:
        if isinstance(segment, Alone):
            emitter.alone(segment.node)
        elif isinstance(segment, Group):
            emit_group(described, segment, emitter.program.steps, emitter.enter())
    return emitter.program


class _Emitter:
    """The program under construction; equal tensors are entered once."""

    def __init__(self, described: DescribedNet, ddr: DdrPlan) -> None:
        self.described = described
        self.net = described.net
        self.ddr = ddr
        self.program = Program(in_num=len(self.net.inputs), out_num=len(self.net.outputs))
        self._known: dict[ProgramTensor, int] = {}

    def tensor(self, kind: TensorKind, record: TensorRecord, index: int = 0) -> int:
        entry = ProgramTensor(kind, record, index=index, max_bytes=record.nbytes)
        made = replace(entry, index=LARGER)  # who reads a tile does not care how it was made
        if kind is TensorKind.LOCAL and made in self._known:
            return self._known[made]
        if entry not in self._known:
            self._known[entry] = self.program.add(entry)
        return self._known[entry]

    def part(self, kind: TensorKind, record: TensorRecord, of: str, index: int = 0) -> int:
        """A tile of a tensor, or a copy of one in L2; of which one, and of what it is part, a program with
        fixed shapes does not say."""
        return self.tensor(kind, record, index & LARGER)

    def in_ddr(self, name: str, record: TensorRecord | None = None) -> int:
        """A whole tensor in DDR, as `record` describes it."""
        net = self.net
        kind, index = TensorKind.NEURON, 0
        if name in net.inputs:
            kind, index = TensorKind.INPUT, net.inputs.index(name)
        elif name in net.outputs:
            kind, index = TensorKind.OUTPUT, net.outputs.index(name)
        elif net.tensors[name].data is not None:
            kind = TensorKind.COEFF
        return self.tensor(kind, (record or net.tensors[name].record()).at(self.ddr.address[name]), index)

    def enter(self) -> Enter:
        return Enter(self.in_ddr, self.part, self.layer)

    def layer(
        self, opcode: StepOp, k: int, inputs: list[int], outputs: list[int], address: int, nbytes: int
    ) -> None:
        self.program.steps.append(layer_step(opcode, self.net.nodes[k], inputs, outputs, nbytes, address))

    def alone(self, k: int) -> None:
        node, attrs = self.net.nodes[k], self.described.attrs[k]
        ins = [
            self.in_ddr(name, input_record(node, self.net.tensors[name], wanted))
            for name, wanted in zip(node.inputs, attrs.input_types, strict=True)
        ]
        outs = [self.in_ddr(name) for name in node.outputs]
        self.layer(StepOp.GLOBAL, k, ins, outs, self.ddr.buffer.get(k, 0), attrs.global_buffer)
