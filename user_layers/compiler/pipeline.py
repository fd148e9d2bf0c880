"""The passes in their order. Each takes what earlier ones returned and reaches back to none.

GraphBuilder -> shapes [-> splits as slices] [-> rows as channels] -> attributes -> prepared constants
-> mode -> partition
  static parts:  -> aliases -> groups, tiles, local memory
  dynamic parts: -> aliases -> groups, tiles, local memory -> Program, verified and stored as it is
-> DDR -> static parts: Program -> verified -> recorded CommandGroups
A static net with attention goes this way twice, also with keys turned for local memory, one of volumes also
with convolutions that keep their planes, and one of 8 bits also as strips of rows, perhaps with attention on
these; the fastest is taken.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from firmware_sim.errors import CompileError, DeviceError
from firmware_sim.timeline import Timer
from firmware_sim.wire import Program, Recorded
from user_layers.compiler.aliases import find_aliases
from user_layers.compiler.apart import split_apart
from user_layers.compiler.attention_strips import attend_in_strips
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.controller_memory import check_controller_memory
from user_layers.compiler.ddr import pack_constants, place_ddr
from user_layers.compiler.emit_dynamic import emit_dynamic
from user_layers.compiler.emit_static import emit_static
from user_layers.compiler.grouping import schedule
from user_layers.compiler.log import log_lines
from user_layers.compiler.measure import measure
from user_layers.compiler.mode import Kind, Mode, choose_mode
from user_layers.compiler.one_batch import as_one_batch
from user_layers.compiler.partition import part_net, partition
from user_layers.compiler.plan import Plan
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.schedule import PartPlan, Schedule
from user_layers.compiler.stacked import stack_rows
from user_layers.compiler.strips import in_strips
from user_layers.compiler.tiling import Ends
from user_layers.compiler.trace import steps_of
from user_layers.compiler.turned_keys import turn_keys
from user_layers.compiler.verify import verify
from user_layers.compiler.volumes import keep_planes
from user_layers.graph.shapes import infer_shapes
from user_layers.net.command_map import RecordedCommands
from user_layers.net.compiled import (
    CompiledNet,
    CpuBody,
    DynamicBody,
    LayerUse,
    NetTensor,
    Stage,
    StaticBody,
    Subnet,
)
from user_layers.net.net import Net, NetTensorInfo
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    from user_layers.graph import GraphBuilder


def compile_graph(
    graph: GraphBuilder,
    *,
    dynamic: bool = False,
    opt: int = 2,
    log: Callable[[str], None] | None = None,
    verbose: bool = False,
    report: bool = False,
    issued: bool = False,
    ends: Ends | None = None,
) -> CompiledNet:
    """GraphBuilder -> CompiledNet with one stage. See Graph.compile. issued: groups and the report's times
    are those for commands that the controller issues, as it does in a dynamic net. ends: cut groups there,
    as `schedule` means it."""
    net = infer_shapes(graph)
    free = opt == 2 and not dynamic and ends is None  # to run other layers than those of the graph
    apart = split_apart(graph, net) if free else None
    if apart is not None:
        graph, net = apart, infer_shapes(apart)
    stacked = stack_rows(graph, net) if free else None
    if stacked is not None:
        graph, net = stacked, infer_shapes(stacked)
    plan, recorded = _planned(net, graph.toolkit, dynamic, opt, issued, ends)
    notes = []
    volumes = keep_planes(graph, net) if free else None
    if volumes is not None:
        whole = infer_shapes(volumes)
        other = _planned(whole, graph.toolkit, dynamic, opt, issued)
        beside, inside = _cycles(recorded, issued), _cycles(other[1], issued)
        notes.append(f"volumes in local memory: {inside:,.0f} cycles, planes side by side: {beside:,.0f}")
        if inside < beside:
            graph, net = volumes, whole
            plan, recorded = other
        del other
    turned = turn_keys(graph, net) if free else None
    if turned is not None:
        alone = _cycles(recorded, issued)
        del plan, recorded  # a plan has all weights once more
        plan, recorded = _planned(infer_shapes(turned), graph.toolkit, dynamic, opt, issued)
        inside = _cycles(recorded, issued)
        notes.append(f"attention in local memory: {inside:,.0f} cycles, alone: {alone:,.0f}")
        if inside >= alone:
            del plan, recorded
            plan, recorded = _planned(net, graph.toolkit, dynamic, opt, issued)
        del turned
    for strips, how, without in _strips(graph, net) if free else ():
        other = _planned(strips, graph.toolkit, dynamic, opt, issued)
        uncut, cut = (_cycles(one, issued) for one in (recorded, other[1]))
        notes.append(f"{how}: {cut:,.0f} cycles, {without}: {uncut:,.0f}")
        if cut < uncut:
            plan, recorded = other
        del other
    stage = _stage(plan, recorded, graph.toolkit)
    lines = [*log_lines(plan.described, plan.mode, plan.schedule), *notes]
    _say(lines, log, verbose)
    measured = (measure(plan, recorded, Timer(issued=issued)),) if report else ()
    return CompiledNet(graph.name, (stage,), _uses(plan.described), tuple(lines), measured)


def _strips(graph: GraphBuilder, net: Net) -> Iterator[tuple[Net, str, str]]:
    """The net in strips, and with attention on them; what each is called, and what was before."""
    one = as_one_batch(graph, net)
    if one is not None and one.is_long:
        whole = infer_shapes(one.graph)
        strips = in_strips(one.graph, whole)
        attending = None if strips is None else attend_in_strips(strips, infer_shapes(strips), whole, one)
        if attending is not None:
            yield infer_shapes(attending), "attention on strips of each batch", "without"
    strips = in_strips(graph, net)
    if strips is not None:
        cut = infer_shapes(strips)
        yield cut, "strips of rows in the four slots of words", "pictures in one"
        attending = attend_in_strips(strips, cut, net)
        if attending is not None:
            strips, cut = attending, infer_shapes(attending)
            yield cut, "attention on strips", "without"
        turned = turn_keys(strips, cut)
        if turned is not None:
            yield infer_shapes(turned), "other attention in local memory", "without"


def _planned(
    net: Net, toolkit: Toolkit, dynamic: bool, opt: int, issued: bool, ends: Ends | None = None
) -> tuple[Plan, list[Recorded | None]]:
    described = prepare_constants(gather_attributes(net, toolkit))
    plan = plan_net(described, dynamic=dynamic, opt=opt, issued=issued, ends=ends)
    return plan, _record(plan, toolkit)


def _cycles(parts: Sequence[Recorded | None], issued: bool) -> float:
    """Modelled, of all that was recorded."""
    timer = Timer(issued=issued)
    return sum(timer.timeline(group).cycles for one in parts if one is not None for group in one.groups)


def plan_net(
    described: DescribedNet,
    *,
    dynamic: bool = False,
    opt: int = 2,
    issued: bool = False,
    ends: Ends | None = None,
) -> Plan:
    """DescribedNet -> Plan: every pass but recording. issued, ends: see compile_graph."""
    mode = choose_mode(described, dynamic)
    described, parts = partition(_for_any_batch(described, mode), mode.kinds)
    static = [k for part in parts if part.kind == Kind.STATIC for k in part.nodes]
    aliases = find_aliases(described, dynamic=False, nodes=static)
    coefficients = pack_constants(described)
    plans: list[PartPlan] = []
    programs: list[Program | None] = []
    for part in parts:
        program = None
        if part.kind == Kind.STATIC:
            found = schedule(described, aliases, opt, part.nodes, issued=issued, ends=ends)
            plans.append(PartPlan(part, found.segments, note=found.note))
        elif part.kind == Kind.DYNAMIC:
            own = find_aliases(part_net(described, part), dynamic=True)
            elided = frozenset(part.nodes.start + k for k in own.elided)
            found = schedule(described, replace(own, elided=elided), opt, part.nodes, issued=True, ends=ends)
            made = emit_dynamic(described, part, own, coefficients, found.segments)
            plans.append(PartPlan(part, found.segments, made.neuron_bytes, found.note))
            program = made.program
        else:
            plans.append(PartPlan(part))
        programs.append(program)
    whole = Schedule(tuple(plans), mode.dynamic)
    ddr = place_ddr(described, aliases, whole, coefficients)
    for i, plan in enumerate(plans):
        if plan.part.kind == Kind.STATIC:
            programs[i] = emit_static(described, plan.segments, ddr)
    for program in programs:
        if program is not None:
            check_controller_memory(program, described.net.name)
    complete = Plan(described, mode, whole, ddr, tuple(programs))
    verify(complete)
    return complete


def _for_any_batch(described: DescribedNet, mode: Mode) -> DescribedNet:
    """The tiles of layers that run dynamically end where the batch of a run does."""
    attrs = (
        replace(attrs, any_batch=kind is Kind.DYNAMIC)
        for attrs, kind in zip(described.attrs, mode.kinds, strict=True)
    )
    return replace(described, attrs=tuple(attrs))


def _record(plan: Plan, toolkit: Toolkit) -> list[Recorded | None]:
    """The commands of each static part; of a dynamic one those of its groups, for the compiled shapes, so
    that what a local function refuses is known now."""
    found: list[Recorded | None] = []
    for i in range(len(plan.schedule.parts)):
        program = plan.recordable(i)
        if program is None:
            found.append(None)
            continue
        try:
            found.append(toolkit.device.record(program))
        except DeviceError as e:
            raise CompileError(
                f"recording net {plan.described.net.name!r} failed: {e.message}", hint=e.hint
            ) from e
    return found


def _stage(plan: Plan, recorded: Sequence[Recorded | None], toolkit: Toolkit) -> Stage:
    net, ddr = plan.described.net, plan.ddr

    def tensors(names: Sequence[str]) -> tuple[NetTensor, ...]:
        return tuple(
            _net_tensor(net.tensors[name], ddr.address.get(name, 0), name in plan.mode.varying)
            for name in names
        )

    layers = [attrs for attrs in plan.described.attrs if attrs.node.cpu is None]
    return Stage(
        tensors(net.inputs),
        tensors(net.outputs),
        tuple(
            Subnet(
                tensors(part.part.inputs),
                tensors(part.part.outputs),
                _body(plan, i, recorded[i], toolkit),
                len(part.part.nodes),
            )
            for i, part in enumerate(plan.schedule.parts)
        ),
        ddr.ctx_addr,
        ddr.ctx_bytes,
        ddr.coeff_addr,
        ddr.coefficients.data,
        is_dynamic=plan.mode.dynamic,
        n_dynamic=plan.mode.dynamic,
        c_dynamic=plan.mode.dynamic,
        h_w_dynamic=plan.mode.dynamic and all(attrs.can_h_w_dynamic for attrs in layers),
    )


def _body(
    plan: Plan, index: int, recorded: Recorded | None, toolkit: Toolkit
) -> StaticBody | DynamicBody | CpuBody:
    planned, program = plan.schedule.parts[index], plan.programs[index]
    if planned.part.kind is Kind.STATIC and recorded is not None:
        if recorded.sites is None or program is None:
            return StaticBody(recorded.groups)
        steps = steps_of(plan.described.net, program, planned.part.nodes)
        return StaticBody(recorded.groups, RecordedCommands(recorded, steps, toolkit.device.firmware.debug))
    if program is None:
        (node,) = plan.described.net.nodes[planned.part.nodes.start : planned.part.nodes.stop]
        assert node.cpu is not None
        return CpuBody(node.cpu.model)
    return DynamicBody(program.encode(), plan.ddr.arena.get(index, 0), planned.arena_bytes)


def _net_tensor(info: NetTensorInfo, addr: int, varies: bool) -> NetTensor:
    return NetTensor(
        info.name, info.shape, info.dtype, info.store_mode, addr=addr, varies=varies, scale=info.scale
    )


def _uses(described: DescribedNet) -> tuple[LayerUse, ...]:
    """The user's ops of the net, each once, by op_type."""
    ops = {attrs.node.op.op_type: attrs.node.op for attrs in described.attrs if not attrs.node.op.is_builtin}
    return tuple(LayerUse(op.op, op.op_type, op.param_size, op.param_hash) for _, op in sorted(ops.items()))


def _say(lines: Sequence[str], log: Callable[[str], None] | None, verbose: bool) -> None:
    for line in lines:
        if log is not None:
            log(line)
        if verbose:
            print(line, file=sys.stderr)
