"""The passes in their order. Each takes what earlier ones returned and reaches back to none.

Graph -> shapes -> facts -> mode -> aliases
  static:  -> schedule (groups, slices, local memory) -> DDR -> Program -> recorded CommandGroups
  dynamic: -> Program, stored as it is
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from firmware_sim.errors import CompileError, DeviceError
from firmware_sim.wire import Program
from user_layers.compiler.aliases import find_aliases
from user_layers.compiler.ddr import DdrPlan, place_ddr
from user_layers.compiler.emit_dynamic import emit_dynamic
from user_layers.compiler.emit_static import emit_static
from user_layers.compiler.facts import DescribedNet, gather_facts
from user_layers.compiler.grouping import Schedule, schedule
from user_layers.compiler.mode import Mode, choose_mode
from user_layers.compiler.net import NetTensorInfo
from user_layers.compiler.report import dynamic_lines, static_lines
from user_layers.compiler.result import CompiledNet, DynamicBody, LayerUse, NetTensor, Stage, StaticBody
from user_layers.compiler.shapes import infer_shapes
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    from user_layers.graph import Graph


def compile_graph(
    graph: Graph,
    *,
    dynamic: bool = False,
    opt: int = 2,
    log: Callable[[str], None] | None = None,
    verbose: bool = False,
) -> CompiledNet:
    """Graph -> CompiledNet with one stage. See Graph.compile."""
    toolkit = graph.toolkit
    described = gather_facts(infer_shapes(graph), toolkit)
    mode = choose_mode(described, dynamic)
    lines: list[str]
    if mode.dynamic:
        stage, lines = _dynamic_stage(described, mode)
    else:
        plan, ddr, program = plan_static(described, opt)
        stage, lines = _static_stage(described, ddr, program, toolkit), static_lines(described, plan)
    _say(lines, log, verbose)
    return CompiledNet(graph.name, (stage,), _uses(described), tuple(lines))


def plan_static(described: DescribedNet, opt: int) -> tuple[Schedule, DdrPlan, Program]:
    """Everything of a static compile that needs no device."""
    aliases = find_aliases(described, dynamic=False)
    plan = schedule(described, aliases, opt)
    ddr = place_ddr(described, aliases, plan)
    return plan, ddr, emit_static(described, plan, ddr)


def _static_stage(described: DescribedNet, ddr: DdrPlan, program: Program, toolkit: Toolkit) -> Stage:
    net = described.net
    try:
        groups = toolkit.device.record(program)
    except DeviceError as e:
        raise CompileError(f"recording net {net.name!r} failed: {e.message}", hint=e.hint) from e
    body = StaticBody(tuple(groups), ddr.ctx_addr, ddr.ctx_bytes, ddr.coeff_addr, ddr.coefficients.data)
    return Stage(
        tuple(_net_tensor(net.tensors[name], ddr.address[name]) for name in net.inputs),
        tuple(_net_tensor(net.tensors[name], ddr.address[name]) for name in net.outputs),
        body,
    )


def _dynamic_stage(described: DescribedNet, mode: Mode) -> tuple[Stage, list[str]]:
    net = described.net
    plan = emit_dynamic(described, find_aliases(described, dynamic=True))
    body = DynamicBody(
        plan.program.encode(),
        plan.neuron_bytes,
        plan.coefficients.data,
        h_w_dynamic=all(facts.can_h_w_dynamic for facts in described.facts),
    )
    stage = Stage(
        tuple(_net_tensor(net.tensors[name]) for name in net.inputs),
        tuple(_net_tensor(net.tensors[name]) for name in net.outputs),
        body,
    )
    return stage, dynamic_lines(described, mode)


def _net_tensor(info: NetTensorInfo, addr: int = 0) -> NetTensor:
    return NetTensor(info.name, info.shape, info.dtype, addr=addr)


def _uses(described: DescribedNet) -> tuple[LayerUse, ...]:
    """The user's ops of the net, each once, by op_type."""
    ops = {facts.node.op.op_type: facts.node.op for facts in described.facts if not facts.node.op.is_builtin}
    return tuple(LayerUse(op.op, op.op_type, op.param_size, op.param_hash) for _, op in sorted(ops.items()))


def _say(lines: Sequence[str], log: Callable[[str], None] | None, verbose: bool) -> None:
    for line in lines:
        if log is not None:
            log(line)
        if verbose:
            print(line, file=sys.stderr)
