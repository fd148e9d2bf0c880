"""Every command that a device executes, with who issued it: what profiles and steppers look at.

The device process writes a file while it works (trace_file.py); the program that holds the device reads it
after each request.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Attribute, Frame, Issued
from firmware_sim.checks.objects import Change
from firmware_sim.chip import DESCRIPTOR_BYTES
from firmware_sim.device import current_trace
from firmware_sim.device.current_trace import Told
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.footprint import Space
from firmware_sim.isa.layout import Columns
from firmware_sim.processes.shared_memory import SharedMemory
from firmware_sim.queues import ID_FIELDS

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]

_ENGINES = (Engine.BD, Engine.GDMA)


@dataclass(frozen=True)
class Written:
    """Bytes that the controller's own code wrote: offset in its memory, local memory lane after lane."""

    space: Space
    offset: int
    data: bytes


@dataclass(frozen=True)
class Buffer:
    """Memory in DDR that the device's program allocated: absolute address, size in bytes."""

    name: str
    address: int
    nbytes: int


@dataclass(frozen=True)
class TracedBatch:
    """Commands that both engines begin idle with, as `Tpu.execute` takes them.

    bd: uint32[n, 32], gdma: uint32[m, 32]; streamed: read by the engines, not issued by the controller;
    group: of a static net, from 1, else 0. issued: of each command the place of its issuer in the request's
    `sites`. written: by the controller since the batch before. calls: of layers since then, as the firmware
    announces them (checks/layer_calls.py). complete: whether all writes of the controller are known.
    """

    bd: U32
    gdma: U32
    streamed: bool
    group: int
    issued: dict[Engine, U32]
    written: tuple[Written, ...] = ()
    calls: tuple[str, ...] = ()
    complete: bool = True

    def words(self, engine: Engine) -> U32:
        """The descriptors of one engine."""
        return self.bd if engine is Engine.BD else self.gdma

    @cached_property
    def columns(self) -> dict[Engine, Columns]:
        """The fields of all commands."""
        return {engine: LAYOUTS[engine].columns(self.words(engine)) for engine in _ENGINES}

    def __len__(self) -> int:
        return len(self.bd) + len(self.gdma)


@dataclass(frozen=True)
class TracedRequest:
    """One launch of a kernel, or one part of a net.

    what: as messages call it; sites: who issues commands, without engine, id and name where one site has
    several; cycles: what the device counted, 0 where the request failed; failed: why. buffers: what was
    allocated in DDR; told: what its maker said of it; before: the memories as they were, where that was asked
    for.
    """

    what: str
    batches: tuple[TracedBatch, ...]
    sites: tuple[Issued, ...]
    cycles: float
    failed: str = ""
    buffers: tuple[Buffer, ...] = ()
    told: Told = field(default_factory=Told)
    before: SharedMemory | None = None

    def __repr__(self) -> str:
        return f"<TracedRequest {self.what}: {len(self)} commands in {len(self.batches)} batches>"

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def issuer(self, batch: TracedBatch, engine: Engine, index: int) -> Issued:
        """Who issued a command, with its engine, id and instruction."""
        site = self.sites[int(batch.issued[engine][index])]
        return Issued(
            **{**site.__dict__, **_command(batch.columns[engine], engine, index), "group": batch.group}
        )


def _command(columns: Columns, engine: Engine, index: int) -> dict[str, Any]:
    row = columns.row(index)
    try:
        name = lookup(engine, row).name
    except DeviceError:
        name = "unknown"
    return {"engine": engine.value, "id": int(row[ID_FIELDS[engine][0]]), "name": name}


class Trace:
    """What `traced` gives. requests: those that have ended, in order, of all devices of this process."""

    def __init__(self, folder: Path, memories: Container[int]) -> None:
        """See `traced`."""
        self.requests: list[TracedRequest] = []
        self._folder = folder
        self._memories = memories
        self._numbers = itertools.count()

    def begin(self, memory: SharedMemory, buffers: Sequence[Change], told: Told) -> _Begun:
        """See current_trace.Tracing."""
        number = next(self._numbers)
        known = tuple(Buffer(str(name), int(at), int(size)) for at, size, _, name in buffers)
        before = memory.copied() if number in self._memories else None
        return _Begun(self, self._folder / f"request{number}", known, told, before)


@dataclass(frozen=True)
class _Begun:
    trace: Trace
    path: Path
    buffers: tuple[Buffer, ...]
    told: Told
    before: SharedMemory | None

    def end(self, what: str, cycles: float, where: Attribute | None, failed: str = "") -> None:
        """See current_trace.BegunRequest."""
        batches: tuple[TracedBatch, ...] = ()
        sites: tuple[Issued, ...] = ()
        if self.path.is_file():  # not of a device process that could not start
            with self.path.open("rb") as file:
                batches, sites = _read(file)
            self.path.unlink()
        if where is not None:
            batches, sites = _attributed(batches, sites, where)
        self.trace.requests.append(
            TracedRequest(what, batches, sites, cycles, failed, self.buffers, self.told, self.before)
        )


@contextmanager
def traced(*, memories: bool | Container[int] = False) -> Iterator[Trace]:
    """Everything that the devices of this process execute meanwhile, command by command.

    memories: keep with each request, or those of these numbers, from 0, what was in the memories before it:
    as much memory as they take. UsageError inside another one.
    """
    kept = (range(sys.maxsize) if memories else ()) if isinstance(memories, bool) else memories
    with tempfile.TemporaryDirectory(prefix="tpulayer-trace-") as folder:
        trace = Trace(Path(folder), kept)
        with current_trace.tracing(trace):
            yield trace


def _read(file: IO[bytes]) -> tuple[tuple[TracedBatch, ...], tuple[Issued, ...]]:
    """A whole file; a record that a crash cut short is left out."""
    batches: list[TracedBatch] = []
    sites: list[Issued] = []

    def words(count: int, width: int) -> U32:
        data = file.read(4 * count * width)
        return np.frombuffer(data, np.uint32).reshape((count, width) if width > 1 else count)

    for line in file:
        try:
            head = json.loads(line)
            bd, gdma = (words(n, DESCRIPTOR_BYTES // 4) for n in head["commands"])
            issued = {e: words(n, 1) for e, n in zip(_ENGINES, head["commands"], strict=True)}
        except ValueError:
            break
        written = tuple(Written(Space(s), at, file.read(size)) for s, at, size in head["written"])
        if any(len(one.data) < size for one, (_, _, size) in zip(written, head["written"], strict=True)):
            break
        sites += [
            Issued("", 0, "", tuple(Frame(**frame) for frame in one["frames"]), one["layer"])
            for one in head["sites"]
        ]
        calls, complete = tuple(head["calls"]), head["complete"]
        batches.append(
            TracedBatch(bd, gdma, head["streamed"], head["group"], issued, written, calls, complete)
        )
    return tuple(batches), tuple(sites)


def _attributed(
    batches: tuple[TracedBatch, ...], sites: tuple[Issued, ...], where: Attribute
) -> tuple[tuple[TracedBatch, ...], tuple[Issued, ...]]:
    """The same with what is known of stored streams."""
    places: dict[Issued, int] = {}
    found = list(sites)
    more: list[TracedBatch] = []
    for batch in batches:
        if not batch.streamed:
            more.append(batch)
            continue
        issued = {}
        for engine in _ENGINES:
            ids = batch.columns[engine][ID_FIELDS[engine][0]].tolist()
            numbers = np.zeros(len(ids), np.uint32)
            for index, number in enumerate(ids):
                who = where(Issued(engine.value, number, "", group=batch.group))
                key = Issued("", 0, "", who.frames, who.layer, who.node, who.tile, batch.group)
                if key not in places:
                    places[key] = len(found)
                    found.append(key)
                numbers[index] = places[key]
            issued[engine] = numbers
        more.append(
            TracedBatch(
                batch.bd, batch.gdma, True, batch.group, issued, batch.written, batch.calls, batch.complete
            )
        )
    return tuple(more), tuple(found)
