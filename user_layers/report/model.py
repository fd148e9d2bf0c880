"""What a report says: plain data, measured once and then written as text, JSON and a picture.

Cycles are modelled ones, of chip.CLOCK_HZ, of the commands that the bmodel holds; bytes are those that these
commands move. Where nothing was recorded (parts on the host, dynamic parts but for their groups) there is
None, not a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum

from firmware_sim.chip import CLOCK_HZ
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa import timing
from firmware_sim.shown import count, listed
from user_layers.report.roofline import Demand, roofline


class Role(Enum):
    """Why something is in local memory."""

    CONSTANT = "constant"
    LOADED = "loaded"
    MADE = "made"
    STORED = "stored"  # made, and needed in DDR too
    WORK = "work buffer"


class Runs(Enum):
    """How a node runs."""

    GROUP = "group"  # on tiles in local memory
    ALONE = "alone"  # on whole tensors in DDR
    SHARES = "shares"  # not at all: its output lies in its input's memory
    FIRMWARE = "firmware"  # in a dynamic part, in no group
    HOST = "host"


@dataclass(frozen=True)
class TensorReport:
    """A tensor of the net; shape in elements, in a dynamic net the compiled maximum."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # as numpy calls it


@dataclass(frozen=True)
class Traffic:
    """Bytes between DDR and the chip. constants: of the bmodel; buffers: work buffers in DDR of layers that
    run alone; activations: everything else."""

    activations_read: int = 0
    activations_written: int = 0
    constants_read: int = 0
    buffers_read: int = 0
    buffers_written: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def read(self) -> int:
        """Bytes from DDR, of all kinds."""
        return self.activations_read + self.constants_read + self.buffers_read

    @property
    def written(self) -> int:
        """Bytes to DDR, of all kinds: constants are never written."""
        return self.activations_written + self.buffers_written


@dataclass(frozen=True)
class Work:
    """What the engines do for a node, a group or a part.

    bd_cycles, gdma_cycles: how long each engine is busy with it. start, end: of its first and last command,
    in cycles from the start of the part.
    """

    bd_commands: int
    gdma_commands: int
    bd_cycles: float
    gdma_cycles: float
    start: float
    end: float
    traffic: Traffic

    @property
    def cycles(self) -> float:
        """From the start of the first command to the end of the last, waiting included."""
        return self.end - self.start

    @property
    def busier(self) -> float:
        """Cycles of the engine that has more to do."""
        return max(self.bd_cycles, self.gdma_cycles)


@dataclass(frozen=True)
class NodeReport:
    """One node. label: its layer as the log calls it, TPU(CROP). reason: why it runs alone, on the host or
    not at all.

    group: number of its group. local_bytes: of local memory per lane; of a node in a group its tiles and
    its work buffer, of one that runs alone what its commands touch. work: None where nothing is recorded.
    operation: what it computes, for totals. demand: its operations, and the bytes of tensors that it brings
    into its group, or takes out of it; None on the host.
    """

    name: str
    op: str
    label: str
    inputs: tuple[TensorReport, ...]
    outputs: tuple[TensorReport, ...]
    runs: Runs
    reason: str = ""
    group: int | None = None
    local_bytes: int | None = None
    work: Work | None = None
    operation: str = ""
    demand: Demand | None = None

    @property
    def efficiency(self) -> float | None:
        """Its roofline in parts of its time; in a group, where others run meanwhile, in parts of the time of
        its busier engine. None where nothing is recorded or nothing has to be done."""
        if self.work is None or self.demand is None:
            return None
        return parts(self.demand.cycles, self.work.busier if self.runs is Runs.GROUP else self.work.cycles)


@dataclass(frozen=True)
class ValueReport:
    """A tensor, or the work buffer of the node of that name, in the local memory of a group.

    offsets: of its copies; nbytes: of the largest tile, per lane.
    """

    name: str
    role: Role
    nbytes: int
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Stay:
    """One thing in local memory from `start` to `end`, in cycles from the start of the part."""

    name: str
    role: Role
    offset: int
    nbytes: int
    tile: int
    start: float
    end: float


@dataclass(frozen=True)
class Bar:
    """What an engine does from `start` to `end`: a step of the program. role: of what a transfer moves, None
    for a layer."""

    engine: Engine
    name: str
    role: Role | None
    tile: int
    start: float
    end: float


@dataclass(frozen=True)
class GroupReport:
    """One group. slices: how many along n, h, w; local_bytes: up to where local memory is used; l2: bytes of
    inputs copied to L2; roofline: cycles of the least time that its layers together can take."""

    index: int
    nodes: tuple[str, ...]
    slices: tuple[int, int, int]
    overlapped: bool
    local_bytes: int
    l2_bytes: int
    values: tuple[ValueReport, ...]
    work: Work
    stays: tuple[Stay, ...]
    bars: tuple[Bar, ...]
    roofline: float = 0.0

    def __repr__(self) -> str:
        return f"<GroupReport {self.index}: {listed(self.nodes)}; {count(self.tiles, 'tile')}>"

    @property
    def efficiency(self) -> float | None:
        """The roofline in parts of the time."""
        return parts(self.roofline, self.work.cycles)

    @property
    def tiles(self) -> int:
        """How many times the group's layers run: the slices of n, h and w multiplied."""
        n, h, w = self.slices
        return n * h * w


@dataclass(frozen=True)
class PartReport:
    """A subnet. kind: static, dynamic or cpu. order: how its nodes follow one another: a group, or the
    index of a node in `nodes`. work: of a static one; groups of a dynamic one have theirs for the largest
    shapes. arena_bytes: DDR for what the firmware allocates. host_s: seconds that one on the host took in its
    first run, on the machine that compiled the net; None where it was not run."""

    index: int
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeReport, ...]
    groups: tuple[GroupReport, ...]
    order: tuple[GroupReport | int, ...]
    work: Work | None
    arena_bytes: int
    host_s: float | None = None

    def __repr__(self) -> str:
        layers, groups = count(len(self.nodes), "layer"), count(len(self.groups), "group")
        return f"<PartReport {self.index}, {self.kind}: {layers}, {groups}>"


@dataclass(frozen=True)
class StageReport:
    """One set of input shapes. reasons: why nodes of a static net are dynamic; notes: that the search for
    groups was cut short, where it was; context_bytes: DDR for inputs, outputs and all between; demands: of
    each node of the static parts by name, with the bytes of tensors that these parts together read from DDR
    and write to it."""

    inputs: tuple[TensorReport, ...]
    outputs: tuple[TensorReport, ...]
    dynamic: bool
    reasons: tuple[str, ...]
    constants_bytes: int
    context_bytes: int
    parts: tuple[PartReport, ...]
    demands: Mapping[str, Demand] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<StageReport, {'dynamic' if self.dynamic else 'static'}: {self.summary}>"

    @property
    def summary(self) -> str:
        """In one line: how many layers run how, time, traffic."""
        text = self.layers
        if self.recorded:
            work = total(self.recorded)
            of = "" if self.complete else " in static subnets"
            text += f"; {cycles_text(work.cycles)}{of} ({timing.modelled()}), "
            text += f"DDR {megabytes(work.traffic.read)} MB read, "
            text += f"{megabytes(work.traffic.written)} MB written"
        return text

    @property
    def layers(self) -> str:
        """How many layers there are, and how they run."""
        nodes = self.nodes
        found = {runs: sum(node.runs is runs for node in nodes) for runs in Runs}
        words = (
            (Runs.GROUP, f"in {count(sum(len(part.groups) for part in self.parts), 'group')}"),
            (Runs.ALONE, "alone"),
            (Runs.SHARES, "only share memory"),
            (Runs.FIRMWARE, "in the firmware"),
            (Runs.HOST, "on the host"),
        )
        ways = ", ".join(f"{found[runs]} {text}" for runs, text in words if found[runs])
        return f"{count(len(nodes), 'layer')}: {ways}"

    @property
    def nodes(self) -> tuple[NodeReport, ...]:
        """The nodes of all parts, in the order of the parts."""
        return tuple(node for part in self.parts for node in part.nodes)

    @property
    def recorded(self) -> tuple[Work, ...]:
        """The work of the static parts, which run one after the other."""
        return tuple(part.work for part in self.parts if part.work is not None)

    @property
    def roofline(self) -> float:
        """Cycles of the least time that the static parts can take."""
        return roofline(self.demands.values())

    @property
    def macs(self) -> int:
        """Multiplications with additions of the static parts."""
        return sum(demand.macs for demand in self.demands.values())

    @property
    def efficiency(self) -> float | None:
        """The roofline in parts of the time of the static parts."""
        return parts(self.roofline, total(self.recorded).cycles)

    @property
    def complete(self) -> bool:
        """Whether all of the stage is recorded, so that its time and traffic are known."""
        return all(part.work is not None for part in self.parts)


@dataclass(frozen=True)
class NetReport:
    """The report of a compiled net: one of each stage."""

    name: str
    stages: tuple[StageReport, ...]


def parts(least: float, cycles: float) -> float | None:
    """A roofline in parts of a time; None where there is neither."""
    return least / cycles if least and cycles else None


def cycles_text(cycles: float) -> str:
    """`3,000 cycles (0.005 ms)`."""
    return f"{round(cycles):,} cycles ({cycles / CLOCK_HZ * 1000:.3f} ms)"


def launch_cycles(stage: StageReport) -> float:
    """What the launches of a run's static subnets cost beside their commands."""
    return sum(timing.launch(work.traffic.read) for work in stage.recorded)


def megabytes(nbytes: int) -> str:
    """In millions of bytes, `5.259`."""
    return f"{nbytes / 1e6:,.3f}"


def total(works: Iterable[Work]) -> Work:
    """Several parts as one after the other: start 0, end the sum of their times."""
    found = list(works)
    return Work(
        sum(w.bd_commands for w in found),
        sum(w.gdma_commands for w in found),
        sum(w.bd_cycles for w in found),
        sum(w.gdma_cycles for w in found),
        0.0,
        sum(w.cycles for w in found),
        sum((w.traffic for w in found), Traffic()),
    )
