"""The program of a dynamic part that the firmware interprets with the shapes of each run."""

from __future__ import annotations

from dataclasses import dataclass

from firmware_sim.wire import NONE, Program, ProgramTensor, StepOp, TensorKind, TensorRecord
from user_layers.compiler.aliases import Aliases
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.ddr import DDR_ALIGN, Coefficients
from user_layers.compiler.steps import layer_step
from user_layers.graph.shapes import input_record


@dataclass(frozen=True)
class DynamicPlan:
    """neuron_bytes: enough DDR for everything that the firmware allocates, at the compiled shapes."""

    program: Program
    neuron_bytes: int


def emit_dynamic(described: DescribedNet, aliases: Aliases, coefficients: Coefficients) -> DynamicPlan:
    """Each node becomes one call on DDR data; shapes are the compiled ones, which are the maximum.

    described: a whole net, or one part of it; coefficients: of the whole net.
    """
    net = described.net
    program = Program(in_num=len(net.inputs), out_num=len(net.outputs))
    last = _last_steps(described, aliases)
    index: dict[object, int] = {}

    def tensor(name: str, record: TensorRecord) -> int:
        """The entry of a tensor; a constant has one for each type in which layers read it."""
        key = (name, record.ttype)
        if key not in index:
            kind, number = TensorKind.NEURON, 0
            if name in net.inputs:
                kind, number = TensorKind.INPUT, net.inputs.index(name)
            elif name in net.outputs:
                kind, number = TensorKind.OUTPUT, net.outputs.index(name)
            elif name in coefficients.offsets:
                kind, record = TensorKind.COEFF, record.at(coefficients.offsets[name])
            parent = aliases.parent.get(name)
            index[key] = program.add(
                ProgramTensor(
                    kind,
                    record,
                    index=number,
                    last_step=NONE if kind == TensorKind.OUTPUT else last[aliases.root(name)],
                    alias_of=NONE if parent is None else index[latest[parent]],
                    max_bytes=record.nbytes,
                )
            )
        latest[name] = key
        return index[key]

    latest: dict[str, object] = {}
    for name in net.inputs:
        tensor(name, net.tensors[name].record())
    for node, attrs in zip(net.nodes, described.attrs, strict=True):
        ins = tuple(
            tensor(name, input_record(node, net.tensors[name], wanted))
            for name, wanted in zip(node.inputs, attrs.input_types, strict=True)
        )
        outs = tuple(tensor(name, net.tensors[name].record()) for name in node.outputs)
        program.steps.append(layer_step(StepOp.GLOBAL, node, ins, outs, attrs.global_buffer))
    return DynamicPlan(program, _neuron_bytes(described, aliases))


def _last_steps(described: DescribedNet, aliases: Aliases) -> dict[str, int]:
    """By owner of memory: the last step that reads it, or makes it when nothing does; a net output in it
    keeps it to the end."""
    net = described.net
    last: dict[str, int] = {}
    for root, members in aliases.classes(net).items():
        steps = [k for m in members for k in net.consumers[m]]
        steps += [net.producer[m] for m in members if m in net.producer]
        last[root] = NONE if any(m in net.outputs for m in members) else max(steps)
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
