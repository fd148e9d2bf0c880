"""Which command made the first wrong element: from where it was read back to what wrote it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Issued
from firmware_sim.checks.records import READS, WRITES, Record, Runs, record_of
from firmware_sim.checks.text import command, place
from firmware_sim.chip import DDR_BASE, LOCAL_BYTES
from firmware_sim.device.doubtful import Filled
from firmware_sim.device.trace import TracedBatch, TracedRequest, traced
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Operand, Space, Tensor
from firmware_sim.queues import ID_FIELDS
from firmware_sim.wire import Format
from user_layers.bmodel import write
from user_layers.net.compiled import CompiledNet
from user_layers.runtime import BModelRuntime
from user_layers.runtime.attribution import Attribution
from user_layers.testing.cases import Array
from user_layers.verify.sample import Sample
from user_layers.verify.tried import Layer, Tried
from user_layers.verify.verdict import Failure, Verdict

if TYPE_CHECKING:
    from user_layers.toolkit import Toolkit

_Bases = dict[int, int]
"""By READS and WRITES where the first command of a run does that in DDR."""

_STEPS = 6  # commands back from the one that stored the element


def explained(layer: Layer, sample: Sample, failure: Failure) -> tuple[str, ...]:
    """Lines about the command to look at; none where nothing is known."""
    if failure.findings or failure.at is None:
        return found_at(failure)
    launch = Traced()
    tried = Tried(layer, sample, launch)
    tried.accept()
    for name, act, firmware in tried.acts():
        if (name, firmware) == (failure.during, failure.firmware):
            tried.attempt(Verdict(), name, firmware, act)
    lines = launch.about(*failure.at)
    if failure.during == "dynamic" and failure.shapes is not None:
        static = Traced()
        beside = Tried(layer, sample, static)
        beside.accept()
        beside.static(failure.shapes)
        lines = (*launch.unlike(static), *lines)
    return lines


def found_at(failure: Failure) -> tuple[str, ...]:
    """Lines about the command that a check names."""
    by = failure.findings[0].by if failure.findings else None
    return () if by is None else _lines("found at", by)


class Traced:
    """Runs nets, and keeps the commands and the outputs of the newest run."""

    def __init__(self) -> None:
        self._requests: list[TracedRequest] = []
        self._outputs: list[_Output] = []
        self._forms: list[Format] = []

    def __call__(self, net: CompiledNet, toolkit: Toolkit, feeds: dict[str, Array]) -> list[Array]:
        """Run one; as `run_net`."""
        watched = _Watched(toolkit.device)
        with traced() as trace, BModelRuntime(watched) as runtime:
            runtime.load(write(net), Attribution(nets=[net]))
            outputs = runtime.launch(net.name, feeds)
        self._requests = trace.requests
        self._outputs = watched.read[-len(outputs) :]
        self._forms = [tensor.format for tensor in net.stages[0].outputs]
        return outputs

    def unlike(self, static: Traced) -> tuple[str, ...]:
        """The first command that is not what a static net issues for the same shapes; none where all are."""
        mine, theirs = ([c for r in one._requests for c in _in_order(r)] for one in (self, static))
        for engine in Engine:
            here, there = ([c for c in commands if c.engine is engine] for commands in (mine, theirs))
            bases = [_bases(commands) for commands in (here, there)]
            for one, other in itertools.zip_longest(here, there):
                if one is None or other is None:
                    return (f"{len(here)} commands of {engine.value}, in a static net {len(there)}",)
                what = one.difference(other, *bases)
                if what:
                    return _lines(f"unlike in a static net ({what}):", one.issuer)
        return ()

    def about(self, output: int, index: tuple[int, ...]) -> tuple[str, ...]:
        """Which commands made this element."""
        if output >= len(self._outputs):
            return ()
        place_ = self._outputs[output].place(index, self._forms[output])
        commands = [one for request in self._requests for one in _in_order(request)]
        at: Runs | None = Runs(0, READS, Space.DDR, 0, place_ - DDR_BASE, 1)
        found: list[Issued] = []
        before = len(commands)
        for _ in range(_STEPS):
            step = next((k for k in range(before - 1, -1, -1) if commands[k].writes(at)), None)
            if step is None:
                break
            one = commands[step]
            found.append(one.issuer)
            if one.engine is Engine.BD or not one.reads:
                break  # what computes; a transfer is followed to what it moved
            at, before = one.source_of(at), step
        if not found:
            return ("no command has written it",)
        lines = _lines("written by" if len(found) == 1 else "computed by", found[-1])
        return lines if len(found) == 1 else (*lines, *_lines("stored by", found[0])[:1])


@dataclass(frozen=True)
class _Output:
    """An output of a net where it was read: addr in bytes, shape in elements."""

    addr: int
    shape: tuple[int, ...]
    itemsize: int

    def place(self, index: Sequence[int], form: Format) -> int:
        """The address of an element; in 2N and 4N batches share a word."""
        together = form.together
        rest = 0
        for i, extent in zip(index[1:], self.shape[1:], strict=False):
            rest = rest * extent + i
        plane = 1
        for extent in self.shape[1:]:
            plane *= extent
        n = index[0] if index else 0
        element = ((n // together) * plane + rest) * together + n % together
        return self.addr + element * self.itemsize


class _Watched:
    """A device that keeps where tensors were read."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self.read: list[_Output] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def read_array(
        self, addr: int, shape: Sequence[int], dtype: npt.DTypeLike, filled: Filled | None = None
    ) -> Array:
        """As of a device."""
        array: Array = self._device.read_array(addr, shape, dtype, filled)
        self.read.append(_Output(addr, array.shape, array.itemsize))
        return array


@dataclass(frozen=True)
class _Command:
    """A command that was executed."""

    request: TracedRequest
    batch: TracedBatch
    engine: Engine
    index: int

    @property
    def issuer(self) -> Issued:
        return self.request.issuer(self.batch, self.engine, self.index)

    @property
    def record(self) -> Record | None:
        try:
            return record_of(self.engine, self.batch.columns[self.engine].row(self.index))
        except DeviceError:
            return None

    @property
    def reads(self) -> list[Runs]:
        return [] if self.record is None else [one for one in self.record.blocks if one.access & READS]

    def difference(self, other: _Command, bases: _Bases, others: _Bases) -> str:
        """How this command is not that of another run; places in DDR are counted from where each run's first
        command reads and writes there."""
        a, b = self.record, other.record
        if a is None or b is None or a.name != b.name:
            return f"{'nothing' if b is None else b.name} there"
        for one, two in zip(a.blocks, b.blocks, strict=False):
            name = a.operands[one.operand].name
            place_, there = (
                x.start - base.get(x.access, 0) if x.space is Space.DDR else x.start
                for x, base in ((one, bases), (two, others))
            )
            if place_ != there:
                return f"{name} at +0x{place_:x}, there at +0x{there:x}"
            if (one.run, one.dims, one.lanes) != (two.run, two.dims, two.lanes):
                return f"{name} has another extent there"
        return ""

    def writes(self, at: Runs | None) -> bool:
        """Whether it wrote the first byte of `at`."""
        record = self.record
        if record is None or at is None:
            return False
        byte = _first(at)
        return any(one.access & WRITES and one.holds(at.space, byte) for one in record.blocks)

    def source_of(self, at: Runs | None) -> Runs | None:
        """What a transfer moved to the first byte of `at`: the byte at the same place of its source, in the
        order of elements; the source's first one where the two do not go side by side."""
        record = self.record
        if record is None or at is None:
            return None
        byte = _first(at)
        written = next(o for o in record.blocks if o.access & WRITES and o.holds(at.space, byte))
        source = self.reads[0]
        to, since = (_bytes(record.operands[one.operand]) for one in (written, source))
        inside = np.nonzero((to <= byte) & (byte < to + written.run))[0]
        where = int(since[inside[-1]]) if len(inside) and len(to) == len(since) else int(since[0])
        if source.space is not Space.LOCAL:
            return Runs(0, READS, source.space, 0, where, 1)
        lane, within = divmod(where, LOCAL_BYTES)
        return Runs(0, READS, Space.LOCAL, 1 << lane, within, 1)


def _bases(commands: Sequence[_Command]) -> _Bases:
    found: _Bases = {}
    for one in commands:
        for runs in one.record.blocks if one.record is not None else ():
            if runs.space is Space.DDR:
                found.setdefault(runs.access, runs.start)
    return found


def _bytes(operand: Operand) -> npt.NDArray[np.int64]:
    """The first byte of each of a tensor's elements, in their order; of local memory over all lanes."""
    assert isinstance(operand, Tensor)
    return operand.indices().reshape(-1).astype(np.int64) * operand.itemsize


def _first(at: Runs) -> int:
    return int(at.places()[0])


def _in_order(request: TracedRequest) -> list[_Command]:
    """A legal order of its commands: each behind those that it waits for."""
    found: list[_Command] = []
    for batch in request.batches:
        rows = {
            engine: [tuple(batch.columns[engine].row(i)[f] for f in ID_FIELDS[engine][:2]) for i in range(n)]
            for engine, n in ((Engine.BD, len(batch.bd)), (Engine.GDMA, len(batch.gdma)))
        }
        first = {engine: ids[0][0] - 1 if ids else 0 for engine, ids in rows.items()}
        done = dict(first)
        at = dict.fromkeys(Engine, 0)
        moved = True
        while moved:
            moved = False
            for engine, other in ((Engine.BD, Engine.GDMA), (Engine.GDMA, Engine.BD)):
                while at[engine] < len(rows[engine]) and rows[engine][at[engine]][1] <= done[other]:
                    done[engine] = rows[engine][at[engine]][0]
                    found.append(_Command(request, batch, engine, at[engine]))
                    at[engine] += 1
                    moved = True
                    if engine is Engine.GDMA:
                        break
    return found


def _lines(what: str, by: Issued) -> tuple[str, ...]:
    at = f" at {place(by.frames[0])}" if by.frames else ""
    return (f"{what} {command(by)}{at}", *(f"  called from {place(frame)}" for frame in by.frames[1:]))
