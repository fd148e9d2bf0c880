"""Pass 8, static: the program that the firmware runs while its descriptors are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord, TType
from user_layers.compiler.ddr import DdrPlan
from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.grouping import Alone, Group, Segment
from user_layers.compiler.local_memory import Value, split_shape
from user_layers.compiler.shapes import input_record
from user_layers.compiler.slicing import AxisPiece, Window

Piece = tuple[AxisPiece, AxisPiece, AxisPiece]


def emit_static(described: DescribedNet, segments: Sequence[Segment], ddr: DdrPlan) -> Program:
    """One static part: its segments and addresses -> Program (to be recorded with FW_MODE_FIXED)."""
    emitter = _Emitter(described, ddr)
    for segment in segments:
        if isinstance(segment, Alone):
            emitter.alone(segment.node)
        elif isinstance(segment, Group):
            _GroupEmitter(emitter, segment).run()
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
        if entry not in self._known:
            self._known[entry] = self.program.add(entry)
        return self._known[entry]

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

    def step(self, opcode: StepOp, inputs: tuple[int, ...] = (), outputs: tuple[int, ...] = ()) -> None:
        self.program.steps.append(Step(opcode, inputs, outputs))

    def layer(
        self, opcode: StepOp, k: int, inputs: list[int], outputs: list[int], address: int, nbytes: int
    ) -> None:
        node = self.net.nodes[k]
        self.program.steps.append(
            Step(
                opcode,
                tuple(inputs),
                tuple(outputs),
                op_type=node.op.op_type,
                name=node.name,
                param=node.param,
                buffer_addr=address,
                buffer_bytes=nbytes,
                param_check=node.op.param_check,
            )
        )

    def alone(self, k: int) -> None:
        node, facts = self.net.nodes[k], self.described.facts[k]
        ins = [
            self.in_ddr(name, input_record(node, self.net.tensors[name], wanted))
            for name, wanted in zip(node.inputs, facts.input_types, strict=True)
        ]
        outs = [self.in_ddr(name) for name in node.outputs]
        self.layer(StepOp.GLOBAL, k, ins, outs, self.ddr.buffer.get(k, 0), facts.global_buffer)


class _GroupEmitter:
    """The steps of one group."""

    def __init__(self, emitter: _Emitter, group: Group) -> None:
        self.e = emitter
        self.group = group
        self.local = group.local
        self.pieces: list[Piece] = list(group.slices.pieces())
        # Where the window of a value that is read comes from: any of its readers, which all agree.
        self.reader = {v: key for key, v in reversed(list(self.local.read.items()))}

    def run(self) -> None:
        for name, address in self.group.l2.items():
            self.e.step(StepOp.COPY, (self.e.in_ddr(name),), (self.in_l2(name, address),))
        self.load(0, once=True)
        if self.local.overlapped:
            self.pipelined()
            return
        for p in range(len(self.pieces)):
            self.load(p)
            self.compute(p)
            self.store(p)

    def pipelined(self) -> None:
        """While piece p is computed, p + 1 is loaded and p - 1 stored."""
        last = len(self.pieces) - 1
        self.load(0)
        for p in range(last + 1):
            self.e.step(StepOp.PARALLEL_START)
            if p < last:
                self.load(p + 1)
            self.compute(p)
            if p:
                self.store(p - 1)
            self.e.step(StepOp.PARALLEL_END)
        self.store(last)

    def load(self, p: int, once: bool = False) -> None:
        for v, value in enumerate(self.local.values):
            if value.loaded and value.once == once:
                windows = self.read_windows(p, self.reader[v])
                piece = self.piece(value, p, [Window(*w.region) for w in windows])
                self.e.step(StepOp.LOAD, (self.e.in_ddr(value.tensor),), (piece,))

    def store(self, p: int) -> None:
        for value in self.local.values:
            if value.stored:
                piece = self.piece(value, p, self.made_windows(p, value.tensor))
                self.e.step(StepOp.STORE, (piece,), (self.e.in_ddr(value.tensor),))

    def compute(self, p: int) -> None:
        net, described = self.e.net, self.e.described
        for k in self.group.nodes:
            node, facts = net.nodes[k], described.facts[k]
            ins = [self.layer_input(p, k, i) for i in range(len(node.inputs))]
            outs = [
                self.piece(self.local.values[self.local.made[out]], p, self.made_windows(p, out))
                for out in node.outputs
            ]
            n, h, w = (x.extent for x in self.made_windows(p, node.outputs[0]))
            nbytes = facts.local_buffer(split_shape(described, k, (n, h, w)))
            self.e.layer(StepOp.LOCAL, k, ins, outs, self.local.work.get(k, 0), nbytes)

    def layer_input(self, p: int, k: int, i: int) -> int:
        node, facts = self.e.net.nodes[k], self.e.described.facts[k]
        name = node.inputs[i]
        if facts.on_l2[i]:
            return self.in_l2(name, self.group.l2[name])
        if facts.input_types[i] == TType.NEURON_SHAPE:
            return self.e.in_ddr(name, input_record(node, self.e.net.tensors[name], facts.input_types[i]))
        return self.piece(self.local.values[self.local.read[k, i]], p, self.read_windows(p, (k, i)))

    def in_l2(self, name: str, address: int) -> int:
        return self.e.tensor(TensorKind.L2, self.e.net.tensors[name].record().at(address))

    def read_windows(self, p: int, key: tuple[int, int]) -> list[Window]:
        return [axis.read[key] for axis in self.pieces[p]]

    def made_windows(self, p: int, name: str) -> list[Window]:
        return [axis.made[name] for axis in self.pieces[p]]

    def piece(self, value: Value, p: int, windows: list[Window]) -> int:
        """The program tensor of a value's piece: copy p modulo their number."""
        info = self.e.net.tensors[value.tensor]
        n, h, w = windows
        dims = len(info.shape)
        record = replace(
            info.record(),
            ttype=value.ttype,
            addr=value.offsets[p % len(value.offsets)],
            slice_pad=(n.pad, 0, h.pad, w.pad)[:dims],
            slice_shape=(n.extent, info.nchw[1], h.extent, w.extent)[:dims],
            processed=(n.first, 0, h.first, w.first)[:dims],
        )
        return self.e.tensor(TensorKind.LOCAL, record)
