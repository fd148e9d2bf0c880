"""From a planned and recorded net to its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from firmware_sim.chip import DDR_BASE
from firmware_sim.errors import CompileError, DeviceError
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.layout import Row
from firmware_sim.timeline import Span, Timer
from firmware_sim.wire import Program, Recorded, StepOp
from user_layers.compiler.attributes import DescribedNet, LayerAttributes
from user_layers.compiler.ddr import DdrPlan
from user_layers.compiler.grouping import Alone, Elided, Group, Segment
from user_layers.compiler.mode import Kind
from user_layers.compiler.operations import demands, operation
from user_layers.compiler.schedule import PartPlan
from user_layers.compiler.trace import Area, Origin, areas, call_bytes, trace
from user_layers.report.model import (
    Bar,
    GroupReport,
    NodeReport,
    PartReport,
    Role,
    Runs,
    StageReport,
    Stay,
    TensorReport,
    Traffic,
    ValueReport,
    Work,
)
from user_layers.report.roofline import Demand, roofline
from user_layers.report.words import plain

if TYPE_CHECKING:
    from user_layers.compiler.plan import Plan

_IN_PLACE = "its output lies in its input's memory"


def measure(plan: Plan, recorded: Sequence[Recorded | None], timer: Timer) -> StageReport:
    """The report of one stage. recorded: of each part what its Plan.recordable gave; timer: times those
    of static parts.

    Errors: CompileError for a command that the emulator refuses, so that its time is not known.
    """
    described = plan.described
    net = described.net
    parts: list[PartReport] = []
    groups = 0
    for index, (planned, found) in enumerate(zip(plan.schedule.parts, recorded, strict=True)):
        program = plan.recordable(index)
        if program is not None and found is not None:
            static = planned.part.kind is Kind.STATIC
            own = timer if static else Timer(issued=True)
            part = _RecordedPart(described, plan.ddr, planned, program, found, groups, own).report(index)
        else:
            part = _other_part(described, planned, index)
        parts.append(part)
        groups += len(part.groups)
    return StageReport(
        inputs=_tensors(described, net.inputs),
        outputs=_tensors(described, net.outputs),
        dynamic=plan.mode.dynamic,
        reasons=plan.mode.reasons,
        constants_bytes=len(plan.ddr.coefficients.data),
        context_bytes=plan.ddr.ctx_bytes,
        parts=tuple(parts),
        demands={
            net.nodes[k].name: demand
            for k, demand in demands(
                described,
                [
                    k
                    for planned in plan.schedule.parts
                    if planned.part.kind is Kind.STATIC
                    for k in planned.part.nodes
                ],
            ).items()
        },
        notes=plan.schedule.notes,
    )


@dataclass
class _Sum:
    """Work under addition."""

    spans: dict[Engine, list[Span]] = field(default_factory=lambda: {e: [] for e in Engine})
    traffic: Traffic = field(default_factory=Traffic)

    def add(self, engine: Engine, spans: Iterable[Span], traffic: Traffic) -> None:
        self.spans[engine] += spans
        self.traffic += traffic

    def join(self, other: _Sum) -> None:
        for engine, spans in other.spans.items():
            self.add(engine, spans, Traffic())
        self.traffic += other.traffic

    def work(self) -> Work:
        every = [span for spans in self.spans.values() for span in spans]
        return Work(
            bd_commands=len(self.spans[Engine.BD]),
            gdma_commands=len(self.spans[Engine.GDMA]),
            bd_cycles=sum(s.end - s.start for s in self.spans[Engine.BD]),
            gdma_cycles=sum(s.end - s.start for s in self.spans[Engine.GDMA]),
            start=min((s.start for s in every), default=0.0),
            end=max((s.end for s in every), default=0.0),
            traffic=self.traffic,
        )


class _RecordedPart:
    """What happens in one recorded part, by step, node and group; in a dynamic one, in its groups for the
    compiled shapes."""

    def __init__(
        self,
        described: DescribedNet,
        ddr: DdrPlan,
        planned: PartPlan,
        program: Program,
        recorded: Recorded,
        first_group: int,
        timer: Timer,
    ) -> None:
        self.described = described
        self.ddr = ddr
        self.planned = planned
        self.program = program
        self.first_group = first_group
        nodes = planned.part.nodes
        self.origins: list[Origin] = trace(described.net, program, nodes)
        try:
            self.steps = _spans_of_steps(recorded, timer)
        except DeviceError as e:
            raise self._refused(recorded, e) from e
        self.times = _times(self.steps)
        self.nodes = {k: _Sum() for k in nodes}
        self.steps_of: dict[int, list[int]] = {k: [] for k in nodes}
        for s, (origin, spans) in enumerate(zip(self.origins, self.steps, strict=True)):
            if origin.node is None:
                assert not any(spans.values()), "a step that only orders others issued commands"
                continue
            self.steps_of[origin.node].append(s)
            for engine, found in spans.items():
                self.nodes[origin.node].add(engine, found, self._traffic(origin.node, found))
        self.areas_of: dict[int, list[Area]] = {k: [] for k in nodes}
        for area in areas(described.net, program, self.origins):
            self.areas_of[area.node].append(area)

    def report(self, index: int) -> PartReport:
        part = self.planned.part
        groups: list[GroupReport] = []
        order: list[GroupReport | int] = []
        reports: dict[int, NodeReport] = {}
        for segment in self.planned.segments:
            if isinstance(segment, Group):
                number = self.first_group + len(groups)
                groups.append(self._group(segment, number))
                order.append(groups[-1])
                needs = demands(self.described, segment.nodes)
                for k in segment.nodes:
                    reports[k] = self._node(k, Runs.GROUP, "", needs[k], number)
            else:
                reports[segment.node] = self._outside(segment)
                order.append(segment.node - part.nodes.start)
        whole = _Sum()
        for one in self.nodes.values():
            whole.join(one)
        static = part.kind is Kind.STATIC
        return PartReport(
            index,
            part.kind.value,
            part.inputs,
            part.outputs,
            tuple(reports[k] for k in part.nodes),
            tuple(groups),
            tuple(order),
            whole.work() if static else None,
            arena_bytes=self.planned.arena_bytes,
        )

    def _outside(self, segment: Alone | Elided) -> NodeReport:
        """A node in no group."""
        if self.planned.part.kind is Kind.DYNAMIC:
            return _in_firmware(self.described, segment)
        runs, reason = Runs.SHARES, _why_elided(self.described.attrs[segment.node])
        if isinstance(segment, Alone):
            runs, reason = Runs.ALONE, segment.reason
        need = demands(self.described, [segment.node])[segment.node]
        return self._node(segment.node, runs, reason, need)

    def _node(self, k: int, runs: Runs, reason: str, demand: Demand, group: int | None = None) -> NodeReport:
        local = None
        if runs is Runs.GROUP:
            own = (self.program.steps[s] for s in self.steps_of[k])
            calls = [call_bytes(self.program, step) for step in own if step.opcode == StepOp.LOCAL]
            local = max(
                calls, default=0
            )  # none for concatenations: their inputs are made in place, or copied
        elif runs is Runs.ALONE:
            commands = (s.command for spans in self.nodes[k].spans.values() for s in spans)
            local = _covered({place for command in commands for place in command.local})
        work = self.nodes[k].work() if runs is not Runs.SHARES else None
        found = _node_report(self.described, k, runs, reason)
        return replace(found, group=group, local_bytes=local, work=work, demand=demand)

    def _group(self, group: Group, number: int) -> GroupReport:
        net = self.described.net
        sums = _Sum()
        for k in group.nodes:
            sums.join(self.nodes[k])
        stays = sorted((a for k in group.nodes for a in self.areas_of[k]), key=lambda a: (a.first, a.offset))
        values: dict[tuple[str, Role], ValueReport] = {}
        for a in stays:
            old = values.get((a.name, a.role), ValueReport(a.name, a.role, 0, ()))
            offsets = old.offsets if a.offset in old.offsets else (*old.offsets, a.offset)
            values[a.name, a.role] = ValueReport(a.name, a.role, max(old.nbytes, a.nbytes), offsets)
        return GroupReport(
            number,
            tuple(net.nodes[k].name for k in group.nodes),
            (len(group.tiling.n), len(group.tiling.h), len(group.tiling.w)),
            group.local.overlapped,
            group.local.used,
            sum(net.tensors[name].nbytes for name in group.l2),
            tuple(values.values()),
            sums.work(),
            tuple(self._stay(a) for a in stays),
            tuple(
                bar for s in sorted(s for k in group.nodes for s in self.steps_of[k]) for bar in self._bars(s)
            ),
            roofline(demands(self.described, group.nodes).values()),
        )

    def _stay(self, a: Area) -> Stay:
        start, end = self.times[a.first][0], self.times[a.last][0 if a.overwritten else 1]
        return Stay(a.name, a.role, a.offset, a.nbytes, a.tile, start, end)

    def _bars(self, s: int) -> Iterable[Bar]:
        step, origin = self.program.steps[s], self.origins[s]
        assert origin.node is not None
        role = None
        if step.opcode == StepOp.STORE:
            role = Role.STORED
        elif step.opcode in (StepOp.LOAD, StepOp.COPY):
            constant = self.described.net.tensors[origin.tensor].data is not None
            role = Role.CONSTANT if constant else Role.LOADED
        elif step.opcode == StepOp.MOVE:
            role = Role.MADE
        name = origin.tensor or self.described.net.nodes[origin.node].name
        for engine, spans in self.steps[s].items():
            if spans:
                yield Bar(engine, name, role, origin.tile, spans[0].start, spans[-1].end)

    def _refused(self, recorded: Recorded, error: DeviceError) -> CompileError:
        """The error with the layer that issued the first command that is refused."""
        where = f"net {self.described.net.name!r}"
        for column, engine in enumerate((Engine.BD, Engine.GDMA)):
            streams = b"".join((g.bd, g.gdma)[column] for g in recorded.groups)
            columns = LAYOUTS[engine].columns(np.frombuffer(streams, np.uint32).reshape(-1, 32))
            bad = next((i for i in range(len(columns)) if _is_refused(engine, columns.row(i))), None)
            if bad is not None:
                step = next(s for s, counts in enumerate(recorded.steps) if bad < counts[column])
                node = self.origins[step].node
                where = self.described.net.nodes[node].title if node is not None else where
                break
        return CompileError(
            f"{where}: its time is not known, because the emulator refuses one of its commands: "
            f"{error.message}",
            hint=error.hint or "correct its device code, or compile without a report",
        )

    def _traffic(self, k: int, spans: Iterable[Span]) -> Traffic:
        """Sorted by the place in DDR: constants and the node's work buffer; the rest is activations."""
        constants = self.ddr.coeff_addr - DDR_BASE
        constants_end = constants + len(self.ddr.coefficients.data)
        buffer = self.ddr.buffer.get(k, 0) - DDR_BASE
        buffer_end = buffer + self.described.attrs[k].global_buffer if k in self.ddr.buffer else buffer
        counts = (
            dict.fromkeys(("constants", "buffers", "activations"), 0),
            dict.fromkeys(("buffers", "activations"), 0),
        )
        for span in spans:
            for t in span.command.transfers:
                kind = "activations"
                if buffer <= t.offset < buffer_end:
                    kind = "buffers"
                elif constants <= t.offset < constants_end and not t.written:
                    kind = "constants"
                counts[t.written][kind] += t.nbytes
        read, written = counts
        return Traffic(
            activations_read=read["activations"],
            activations_written=written["activations"],
            constants_read=read["constants"],
            buffers_read=read["buffers"],
            buffers_written=written["buffers"],
        )


def _why_elided(attrs: LayerAttributes) -> str:
    return "its inputs are made where they lie in its output" if attrs.is_concat_layer else _IN_PLACE


def _in_firmware(described: DescribedNet, segment: Segment) -> NodeReport:
    """A node that the firmware runs on DDR data."""
    assert not isinstance(segment, Group)
    reason = segment.reason if isinstance(segment, Alone) else _IN_PLACE
    return _node_report(described, segment.node, Runs.FIRMWARE, reason)


def _other_part(described: DescribedNet, planned: PartPlan, index: int) -> PartReport:
    """A part that nothing is recorded of."""
    part = planned.part
    assert part.kind is not Kind.STATIC
    nodes = [_in_firmware(described, segment) for segment in planned.segments]
    if part.kind is Kind.CPU:
        for k in part.nodes:
            cpu = described.net.nodes[k].cpu
            assert cpu is not None
            nodes.append(_node_report(described, k, Runs.HOST, cpu.reason))
    return PartReport(
        index,
        part.kind.value,
        part.inputs,
        part.outputs,
        tuple(nodes),
        groups=(),
        order=tuple(range(len(nodes))),
        work=None,
        arena_bytes=planned.arena_bytes,
    )


def _node_report(described: DescribedNet, k: int, runs: Runs, reason: str) -> NodeReport:
    attrs = described.attrs[k]
    node = attrs.node
    return NodeReport(
        node.name,
        node.op.op,
        attrs.label,
        _tensors(described, node.inputs),
        _tensors(described, node.outputs),
        runs,
        plain(reason),
        operation=operation(described, k),
    )


def _tensors(described: DescribedNet, names: Sequence[str]) -> tuple[TensorReport, ...]:
    tensors = described.net.tensors
    return tuple(TensorReport(n, tensors[n].shape, tensors[n].dtype.numpy_name) for n in names)


def _spans_of_steps(recorded: Recorded, timer: Timer) -> list[dict[Engine, list[Span]]]:
    """The commands of each step, in cycles from the start of the first group; groups follow one another."""
    all_spans: dict[Engine, list[Span]] = {e: [] for e in Engine}
    begin = 0.0
    for group in recorded.groups:
        timeline = timer.timeline(group)
        for engine, spans in ((Engine.BD, timeline.bd), (Engine.GDMA, timeline.gdma)):
            all_spans[engine] += [Span(begin + s.start, begin + s.end, s.command) for s in spans]
        begin += timeline.cycles
    found = []
    before = (0, 0)
    for after in recorded.steps:
        found.append(
            {
                e: all_spans[e][first:last]
                for e, first, last in zip((Engine.BD, Engine.GDMA), before, after, strict=True)
            }
        )
        before = after
    return found


def _is_refused(engine: Engine, row: Row) -> bool:
    try:
        semantics = lookup(engine, row).semantics
        if semantics is not None:
            semantics.operands(row)
            semantics.cycles(row)
    except DeviceError:
        return True
    return semantics is None


def _times(steps: Sequence[dict[Engine, list[Span]]]) -> list[tuple[float, float]]:
    """Start and end of each step; one without commands takes no time, when all before it are done."""
    times = []
    now = 0.0
    for spans in steps:
        own = [s for found in spans.values() for s in found]
        start, end = min((s.start for s in own), default=now), max((s.end for s in own), default=now)
        times.append((start, end))
        now = max(now, end)
    return times


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    """Bytes in at least one of the ranges."""
    total = reached = 0
    for first, last in sorted(ranges):
        total += max(0, last - max(first, reached))
        reached = max(reached, last)
    return total
