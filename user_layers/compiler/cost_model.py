"""Cycles of layers and transfers, measured: the device records them, and the commands are timed.

Each distinct call is recorded once, with stand-in addresses; cycles do not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from firmware_sim.chip import (
    ALIGN_BYTES,
    DDR_BASE,
    L2_BASE,
    L2_USER_OFFSET,
    STATIC_CONTEXT_OFFSET,
)
from firmware_sim.device.api import DeviceApi
from firmware_sim.errors import CompileError, DeviceError
from firmware_sim.isa import timing
from firmware_sim.timeline import Timer
from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord, TType
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.flow import Issued
from user_layers.compiler.local_memory import Where
from user_layers.compiler.steps import layer_step
from user_layers.graph.shapes import input_record

_DDR_START = DDR_BASE + STATIC_CONTEXT_OFFSET
_L2_START = L2_BASE + L2_USER_OFFSET


class MeasuredCost:
    """The cost model of one net's layers, measured (local_memory.CostModel).

    issued: the controller issues the commands, which takes it time of its own: see flow.Issued.
    Errors: CompileError where recording fails.
    """

    def __init__(self, described: DescribedNet, device: DeviceApi, *, issued: bool = False) -> None:
        self._described = described
        self._device = device
        self._issue = timing.issue() if issued else 0.0
        self._timer, self._alone_timer = Timer(), Timer(issued=issued)
        self._known: dict[object, float] = {}
        self._asked: dict[object, float] = {}

    @property
    def recorded(self) -> int:
        """How many calls and transfers were recorded so far."""
        return len(self._known)

    def once(self, key: object, ask: Callable[[], float]) -> float:
        """What `ask` says, asked once for each key; see local_memory.CostModel."""
        known = self._asked.get(key)
        if known is None:
            known = self._asked[key] = ask()
        return known

    def load(self, tile: TensorRecord) -> float:
        """A tile from DDR into local memory."""
        return self._transfer(StepOp.LOAD, tile)

    def store(self, tile: TensorRecord) -> float:
        """A tile from local memory to DDR."""
        return self._transfer(StepOp.STORE, tile)

    def move(self, part: TensorRecord, whole: TensorRecord, channel: int) -> float:
        """A tile into channels of another one."""
        key = ("move", _shape_of(part), _shape_of(whole), channel)
        if key not in self._known:
            program = Program()
            ends = [_add(program, TensorKind.LOCAL, part.at(0)), _add(program, TensorKind.LOCAL, whole.at(0))]
            program.steps.append(Step(StepOp.MOVE, (ends[0],), (ends[1],), channel=channel))
            self._known[key] = self._measure(program)
        return self._known[key]

    def copy(self, whole: TensorRecord) -> float:
        """A tensor from DDR to L2."""
        key = ("copy", whole.nbytes)
        if key not in self._known:
            program = Program()
            ends = [
                _add(program, TensorKind.NEURON, whole.at(_DDR_START)),
                _add(program, TensorKind.L2, whole.at(_L2_START)),
            ]
            program.steps.append(Step(StepOp.COPY, (ends[0],), (ends[1],)))
            self._known[key] = self._measure(program)
        return self._known[key]

    def layer(
        self, node: int, tiles: Sequence[TensorRecord], nbytes: int, where: Where, *, scatters: bool = False
    ) -> float:
        """A call of the local function.

        tiles: its inputs and outputs; nbytes: of its work buffer; where: asked when it was not timed before;
        scatters: it stores its output in DDR.
        """
        key = (*self._identity(node), *map(_shape_of, tiles), nbytes, scatters)
        if key not in self._known:
            attrs = self._described.attrs[node]
            program = Program()
            records, work = where()
            indices = []
            for i, record in enumerate(records):
                if i < len(attrs.on_l2) and attrs.gathers:
                    indices.append(_add(program, TensorKind.NEURON, record.at(_DDR_START)))
                elif i < len(attrs.on_l2) and attrs.on_l2[i]:
                    indices.append(_add(program, TensorKind.L2, record.at(_L2_START)))
                elif record.ttype == TType.NEURON_SHAPE:
                    indices.append(_add(program, TensorKind.COEFF, record))
                elif scatters and i >= len(attrs.on_l2):
                    indices.append(_add(program, TensorKind.NEURON, record.at(_DDR_START)))
                else:
                    made = i >= len(attrs.on_l2)
                    indices.append(_add(program, TensorKind.LOCAL, record, attrs.tile_index if made else 0))
            ins, outs = indices[: len(attrs.on_l2)], indices[len(attrs.on_l2) :]
            layer = self._described.net.nodes[node]
            program.steps.append(layer_step(StepOp.LOCAL, layer, ins, outs, nbytes, work))
            self._known[key] = self._measure(program)
        return self._known[key]

    def global_layer(self, node: int) -> float:
        """A call of the global function on whole tensors; infinite if its commands are beyond the chip's
        limits, or it cannot be recorded; 0 for a layer that only runs dynamically, whatever is beside it."""
        net, attrs = self._described.net, self._described.attrs[node]
        if attrs.must_dynamic_run or attrs.output_shape_is_dynamic:
            return 0.0
        inputs = [
            input_record(net.nodes[node], net.tensors[name], wanted)
            for name, wanted in zip(net.nodes[node].inputs, attrs.input_types, strict=True)
        ]
        outputs = [net.tensors[name].record() for name in net.nodes[node].outputs]
        key = ("global", *self._identity(node), *map(_shape_of, (*inputs, *outputs)))
        if key not in self._known:
            program = Program()
            address = _DDR_START
            indices = []
            for record in (*inputs, *outputs):
                indices.append(_add(program, TensorKind.NEURON, record.at(address)))
                address += -(-record.nbytes // ALIGN_BYTES) * ALIGN_BYTES
            ins, outs = indices[: len(inputs)], indices[len(inputs) :]
            layer = self._described.net.nodes[node]
            program.steps.append(layer_step(StepOp.GLOBAL, layer, ins, outs, attrs.global_buffer, address))
            try:
                self._known[key], _ = self._timed(program, self._alone_timer)
            except CompileError:
                self._known[key] = math.inf
        return self._known[key]

    def _identity(self, node: int) -> tuple[object, ...]:
        layer = self._described.net.nodes[node]
        return layer.op.op_type, layer.param

    def _transfer(self, opcode: StepOp, tile: TensorRecord) -> float:
        key = (opcode, _shape_of(tile))
        if key not in self._known:
            program = Program()
            whole = _add(
                program,
                TensorKind.NEURON,
                TensorRecord(tile.shape, tile.dtype, tile.ttype, tile.store_mode, addr=_DDR_START),
            )
            part = _add(program, TensorKind.LOCAL, tile)
            ends = (whole, part) if opcode == StepOp.LOAD else (part, whole)
            program.steps.append(Step(opcode, ends[:1], ends[1:]))
            self._known[key] = self._measure(program)
        return self._known[key]

    def _measure(self, program: Program) -> float:
        """Cycles of a step of a group."""
        cycles, commands = self._timed(program, self._timer)
        return Issued(cycles, commands * self._issue) if self._issue else cycles

    def _timed(self, program: Program, timer: Timer) -> tuple[float, int]:
        """Cycles of a program, and how many commands it has."""
        try:
            groups = self._device.record(program, checked=False).groups
            cycles = sum(timer.timeline(group).cycles for group in groups)
        except DeviceError as e:
            name = self._described.net.name
            raise CompileError(f"recording net {name!r} failed: {e.message}", hint=e.hint) from e
        return cycles, sum(group.bd_num + group.gdma_num for group in groups)


def _add(program: Program, kind: TensorKind, record: TensorRecord, index: int = 0) -> int:
    return program.add(ProgramTensor(kind, record, index=index, max_bytes=record.nbytes))


def _shape_of(record: TensorRecord) -> tuple[object, ...]:
    """All that cycles depend on."""
    return record.shape, record.slice_shape, record.slice_pad, record.format, record.ttype, record.host_data
