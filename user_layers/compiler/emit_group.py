"""The steps of one group: its plan, in the program's terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from firmware_sim.instructions.instruction import Engine
from firmware_sim.wire import SLOT, Step, StepOp, TensorKind, TensorRecord, TType
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.flow import OpKind
from user_layers.compiler.grouping import Group
from user_layers.compiler.local_memory import caller
from user_layers.compiler.tiles import CutGroup, GroupTiles


class EnterTensor(Protocol):
    """Enters a tile, or a copy in L2, with its address in the program."""

    def __call__(self, kind: TensorKind, record: TensorRecord, of: str, index: int = 0, /) -> int:
        """Give its index in the program. of: the tensor of the net; index: what the program says of a tile
        (ProgramTensor.index)."""
        ...


@dataclass(frozen=True)
class Enter:
    """How the group's tensors come into the program. in_ddr: a whole tensor, as a record if one is given;
    tensor: a tile in local memory, or a tensor in L2; layer: appends the call of a node."""

    in_ddr: Callable[[str, TensorRecord | None], int]
    tensor: EnterTensor
    layer: Callable[[StepOp, int, list[int], list[int], int, int], None]


def emit_group(described: DescribedNet, group: Group, steps: list[Step], enter: Enter) -> None:
    """Append the group's steps. What each op waits for becomes a step of its own where the order of the
    engine's commands does not give it already."""
    local = group.local
    net = described.net
    tiles = GroupTiles(CutGroup(described, group.nodes, group.tiling, local.values, local.made, local.read))

    def in_l2(name: str) -> int:
        return enter.tensor(TensorKind.L2, net.tensors[name].record().at(group.l2[name]), name)

    def tile(v: int, record: TensorRecord, index: int = 0) -> int:
        value = local.values[v]
        return enter.tensor(TensorKind.LOCAL, record, value.tensor, index + SLOT * value.slot)

    def layer(k: int, p: int) -> None:
        node, attrs = net.nodes[k], described.attrs[k]
        ins = []
        for i, (name, record) in enumerate(zip(node.inputs, tiles.inputs(p, k), strict=True)):
            if attrs.gathers:
                ins.append(enter.in_ddr(name, None))
            elif attrs.on_l2[i]:
                ins.append(in_l2(name))
            elif attrs.input_types[i] == TType.NEURON_SHAPE:
                ins.append(enter.in_ddr(name, record))
            else:
                ins.append(tile(local.read[k, i], record))
        outs = [
            enter.in_ddr(name, record)
            if tiles.scatterer(local.made[name]) is not None
            else tile(local.made[name], record, attrs.tile_index)
            for name, record in zip(node.outputs, tiles.outputs(p, k), strict=True)
        ]
        address = local.work[k][p] if k in local.work else 0
        enter.layer(StepOp.LOCAL, k, ins, outs, address, tiles.work_bytes(p, k))

    for name in group.l2:
        steps.append(Step(StepOp.COPY, (enter.in_ddr(name, None),), (in_l2(name),)))
    start = len(steps)
    waits = dict.fromkeys(Engine, start)  # the step up to which an engine waits
    at: list[int] = []  # of each op
    if local.overlapped:
        steps.append(Step(StepOp.PARALLEL_START))
    for op in local.ops:
        if local.overlapped and op.after >= 0 and at[op.after] > waits[op.kind.engine]:
            waits[op.kind.engine] = at[op.after]
            steps.append(Step(StepOp.WAIT, bd_after=waits[Engine.BD], gdma_after=waits[Engine.GDMA]))
        k = caller(tiles, op.kind, op.which)
        if k is not None:
            layer(k, op.tile)
        elif op.kind is OpKind.MOVE:
            channels = concat_channels(described, op.which) or ()
            node = net.nodes[op.which]
            ends = (local.read[op.which, op.index], local.made[node.outputs[0]])
            part, whole = map(tile, ends, tiles.concat(op.tile, op.which, op.index))
            steps.append(
                Step(
                    StepOp.MOVE,
                    (part,),
                    (whole,),
                    name=node.name,
                    channel=channels[op.index],
                )
            )
        else:
            moved = tile(op.which, tiles.moved(op.which, op.tile))
            whole = enter.in_ddr(local.values[op.which].tensor, None)
            load = op.kind is OpKind.LOAD
            steps.append(
                Step(StepOp.LOAD, (whole,), (moved,)) if load else Step(StepOp.STORE, (moved,), (whole,))
            )
        at.append(len(steps) - 1)
    if local.overlapped:
        steps.append(Step(StepOp.PARALLEL_END))
