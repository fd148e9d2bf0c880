"""What each step of a static program is for, and what lies in local memory meanwhile.

All of it follows from the program itself: a load is for the next layer that reads where it puts its tile, a
store for the newest layer that wrote what it takes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind
from user_layers.compiler.tiles import tile_bytes
from user_layers.net.command_map import StepOf
from user_layers.net.net import Net
from user_layers.report.model import Role


@dataclass(frozen=True)
class Origin:
    """What a step was emitted for. node: its index in the net, None for steps that only order others; tile:
    of that node, counted from 0; tensor: what a load, store or copy moves."""

    node: int | None
    tile: int = 0
    tensor: str = ""


@dataclass(frozen=True)
class Area:
    """Bytes of local memory, the same in every lane, that hold one thing from step `first` to step `last`.

    name: of the tensor, or of the node whose work buffer it is. tile: of the node that it is for.
    overwritten: the last step puts its own result there (the layer works in place).
    """

    offset: int
    nbytes: int
    role: Role
    name: str
    node: int
    tile: int
    first: int
    last: int
    overwritten: bool


@dataclass
class _Open:
    """An area whose end is not known yet."""

    offset: int
    nbytes: int
    role: Role
    name: str
    origin: Origin
    first: int
    last: int
    overwritten: bool = False

    def close(self) -> Area:
        assert self.origin.node is not None
        return Area(
            self.offset,
            self.nbytes,
            self.role,
            self.name,
            self.origin.node,
            self.origin.tile,
            self.first,
            self.last,
            self.overwritten,
        )


def trace(net: Net, program: Program, nodes: Sequence[int]) -> list[Origin]:
    """The origin of each step. nodes: those of the net that the program runs."""
    index = {net.nodes[k].name: k for k in nodes}
    origins = [Origin(None)] * len(program.steps)
    calls = dict.fromkeys(nodes, 0)
    copies: dict[tuple[int, int], int] = {}  # node and channel -> number of the newest copy there
    writer: dict[int, tuple[int, int]] = {}  # offset -> step and output of the newest layer that wrote there
    for s, step in enumerate(program.steps):
        if _is_layer(step):
            k = index[step.name]
            origins[s] = Origin(k, calls[k])
            calls[k] += 1
            writer.update((t.tensor.addr, (s, i)) for i, t in _local(program, step.outputs))
        elif step.opcode == StepOp.MOVE:
            k = index[step.name]
            copies[k, step.channel] = copies.get((k, step.channel), -1) + 1
            origins[s] = Origin(k, copies[k, step.channel], net.nodes[k].inputs[_part(net, k, step)])
            writer[program.tensors[step.outputs[0]].tensor.addr] = (s, 0)
        elif step.opcode == StepOp.STORE:
            stored = program.tensors[step.inputs[0]].tensor
            maker, i = writer[stored.addr]
            origin = _moves(net, origins[maker], i, made=True)
            origins[s] = replace(origin, tensor=_concatenated(net, origin.tensor, stored.shape))
    reader: dict[tuple[TensorKind, int], tuple[int, int]] = {}  # place -> step and input of the next reader
    for s, step in reversed(list(enumerate(program.steps))):
        if _is_layer(step):
            for t in step.outputs:
                reader.pop(_place(program.tensors[t]), None)
            reader.update((_place(program.tensors[t]), (s, i)) for i, t in enumerate(step.inputs))
        elif step.opcode == StepOp.MOVE:
            k = index[step.name]
            reader[_place(program.tensors[step.inputs[0]])] = (s, _part(net, k, step))
        elif step.opcode in (StepOp.LOAD, StepOp.COPY):
            taker, i = reader.pop(_place(program.tensors[step.outputs[0]]))
            origins[s] = _moves(net, origins[taker], i, made=False)
    return origins


def _moves(net: Net, layer: Origin, i: int, *, made: bool) -> Origin:
    """The origin of a step that moves output (made) or input i of a layer's call."""
    assert layer.node is not None
    node = net.nodes[layer.node]
    return Origin(layer.node, layer.tile, (node.outputs if made else node.inputs)[i])


def areas(net: Net, program: Program, origins: Sequence[Origin]) -> list[Area]:
    """Everything that lies in local memory at some time, in the order in which it gets there.

    An area lasts to its last use; what a layer takes there is known of layers in groups only.
    """
    done: list[_Open] = []
    here: dict[int, _Open] = {}

    def put(new: _Open) -> None:
        for old in list(here.values()):
            if old.offset < new.offset + new.nbytes and new.offset < old.offset + old.nbytes:
                old.overwritten = old.last == new.first
                del here[old.offset]
        here[new.offset] = new
        done.append(new)

    def read(tile: ProgramTensor, name: str, number: int, s: int) -> _Open:
        """What holds a tile that is read; a concatenation is whole from its first reader on."""
        found = here.get(tile.tensor.addr)
        if found is None or found.name != name:
            origin = Origin(net.producer[name], number)
            found = _Open(tile.tensor.addr, _bytes(tile), Role.MADE, name, origin, s, s)
            put(found)
        found.last = s
        return found

    for s, (step, origin) in enumerate(zip(program.steps, origins, strict=True)):
        if step.opcode == StepOp.LOAD:
            tile = program.tensors[step.outputs[0]]
            role = Role.LOADED if net.tensors[origin.tensor].data is None else Role.CONSTANT
            put(_Open(tile.tensor.addr, _bytes(tile), role, origin.tensor, origin, s, s))
        elif step.opcode == StepOp.STORE:
            found = read(program.tensors[step.inputs[0]], origin.tensor, origin.tile, s)
            found.role = Role.STORED
        elif step.opcode == StepOp.MOVE:
            read(program.tensors[step.inputs[0]], origin.tensor, origin.tile, s)
        elif step.opcode == StepOp.LOCAL:
            assert origin.node is not None
            for i, t in _local(program, step.inputs):
                read(t, net.nodes[origin.node].inputs[i], origin.tile, s)
            for i, t in _local(program, step.outputs):
                name = net.nodes[origin.node].outputs[i]
                put(_Open(t.tensor.addr, _bytes(t), Role.MADE, name, origin, s, s))
            if step.buffer_bytes:
                put(_Open(step.buffer_addr, step.buffer_bytes, Role.WORK, step.name, origin, s, s))
    return [o.close() for o in done]


def call_bytes(program: Program, step: Step) -> int:
    """Bytes per lane that one call of a local function has to do with: its tiles and its work buffer."""
    tiles = [t for names in (step.inputs, step.outputs) for _, t in _local(program, names)]
    return sum({t.tensor.addr: _bytes(t) for t in tiles}.values()) + step.buffer_bytes


def _part(net: Net, k: int, step: Step) -> int:
    """Which input of node k, a concatenation, a step copies to its channels."""
    channels = itertools.accumulate((net.tensors[n].shape[1] for n in net.nodes[k].inputs), initial=0)
    return list(channels).index(step.channel)


def _concatenated(net: Net, name: str, shape: tuple[int, ...]) -> str:
    """The tensor of this shape that begins with `name`: itself, or what it is part of."""
    found = name
    while net.tensors[found].shape != shape:
        wider = [net.nodes[k].outputs[0] for k in net.consumers[found] if net.nodes[k].inputs[0] == found]
        if not wider:
            return name
        found = wider[0]
    return found


def _is_layer(step: Step) -> bool:
    return step.opcode in (StepOp.GLOBAL, StepOp.LOCAL)


def _local(program: Program, tensors: Sequence[int]) -> Iterator[tuple[int, ProgramTensor]]:
    """Which of a step's tensors are tiles in local memory, with their positions."""
    for i, t in enumerate(tensors):
        if program.tensors[t].kind == TensorKind.LOCAL:
            yield i, program.tensors[t]


def _place(tensor: ProgramTensor) -> tuple[TensorKind, int]:
    return tensor.kind, tensor.tensor.addr


def _bytes(tile: ProgramTensor) -> int:
    t = tile.tensor
    n, c, h, w = (*(t.slice_shape or t.shape), 1, 1, 1, 1)[:4]
    return tile_bytes(t.ttype, (n, c, h, w), t.format)


def steps_of(net: Net, program: Program, nodes: Sequence[int]) -> tuple[StepOf, ...]:
    """What messages say about each step's commands. nodes: as of `trace`."""
    origins = trace(net, program, nodes)
    calls = Counter(o.node for o, step in zip(origins, program.steps, strict=True) if _is_layer(step))
    found = []
    for origin in origins:
        if origin.node is None:
            found.append(StepOf("", "", ""))
            continue
        node, count = net.nodes[origin.node], calls[origin.node]
        tile = f"{origin.tile + 1} of {count}" if count > 1 else ""
        if origin.tensor:
            tile += f"{' ' if tile else ''}({origin.tensor})"
        found.append(StepOf(node.op.op, node.name, tile))
    return tuple(found)
