"""All checks of one device: what the device process shows them, and what they found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from firmware_sim.batch import U32, Batch
from firmware_sim.checks.by_data import by_data, decided
from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.gaps import Gaps
from firmware_sim.checks.hazard import Hazard
from firmware_sim.checks.init import Init
from firmware_sim.checks.memory import Arena, MemoryCheck, Places
from firmware_sim.checks.numeric import Numeric
from firmware_sim.checks.objects import Objects
from firmware_sim.checks.rules import Kind
from firmware_sim.checks.schedule import Proof, prove
from firmware_sim.checks.sequence import ENGINES, Records, Sequence
from firmware_sim.checks.shadow import Shadow
from firmware_sim.checks.stored import Stored
from firmware_sim.checks.sync import Waits, last_command, no_poll, wrong_queue
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.controller_log import ControllerAccess
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine, Run
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.footprint import Space, address_text
from firmware_sim.isa.layout import Columns
from firmware_sim.queues import ID_FIELDS, QueueError
from firmware_sim.tpu import Tpu

_MOST = 1000  # different findings of a request that are kept


@dataclass(frozen=True)
class Site:
    """Which code issued a command: frames of the user's functions, innermost first; the layer."""

    frames: tuple[Frame, ...] = ()
    layer: str = ""


class Found:
    """Findings of one request; equal ones are counted."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[object, ...], Finding] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        """More of them."""
        for finding in findings:
            known = self._by_key.get(finding.key)
            if known is not None:
                more = finding.nbytes if finding.about.kind is Kind.NUMERIC else 0  # each time other elements
                self._by_key[finding.key] = replace(known, count=known.count + 1, nbytes=known.nbytes + more)
            elif len(self._by_key) < _MOST:
                self._by_key[finding.key] = finding

    def new(self, finding: Finding) -> bool:
        """Whether none like it is there."""
        return finding.key not in self._by_key

    def take(self) -> list[Finding]:
        """All of them; none are left."""
        found, self._by_key = list(self._by_key.values()), {}
        return found


class Checker:
    """Watches a `Tpu`.

    site: which code issued a command of the batch that is executed now, None where nobody knows; group: of
    a static net, which command group that is, from 1; arena: who issued the commands of the batch.
    """

    def __init__(
        self, kinds: frozenset[Kind], shadow: Shadow | None = None, objects: Objects | None = None
    ) -> None:
        """shadow, objects: what another one knew of the same memories."""
        self.kinds = kinds
        self.arena: Arena | None = None
        self.objects = objects or Objects()
        self.memory = MemoryCheck(self.objects) if Kind.MEMORY in kinds else None
        self.site: Callable[[Engine, int], Site] | None = None
        self.group = 0
        self.shadow = shadow or Shadow()
        self._records = Records()
        self._found = Found()
        self._requests = 0
        self._stored: list[tuple[int, Stored]] = []
        self._kernel = False
        self._function: Callable[[], tuple[Frame, ...]] = tuple
        both = Kind.MEMORY in kinds and Kind.INIT in kinds
        self._gaps = Gaps(self.objects, self.shadow) if both else None
        self._init = Init(self.shadow, self.named) if Kind.INIT in kinds else None
        self._hazard = Hazard(self.named) if Kind.HAZARD in kinds else None
        self._waits = Waits() if Kind.WAITS in kinds else None
        # batches that come again and have no hazard, and whether waits were looked at
        self._in_order: WeakKeyDictionary[Batch, bool] = WeakKeyDictionary()
        self._accesses: list[tuple[ControllerAccess, Callable[[], Issued]]] = []
        self._numeric: Numeric | None = None
        self._tpu: Tpu | None = None
        # commands before which more is looked at, by engine and place: which of the sequence, up to where
        self._open: dict[tuple[Engine, int], tuple[Sequence, int, int]] = {}

    def named(self, space: Space, at: int) -> str:
        """The object that a byte belongs to, "" for none."""
        area = self.objects.at(at) if space is Space.DDR else None
        return area.name if area is not None else ""

    def execute_with(self, processor: object) -> None:
        """What executes the commands that are shown here: for trying other orders, and for looking at each of
        them. One that is no `Tpu` does neither."""
        before, tpu = self._tpu, processor if isinstance(processor, Tpu) else None
        self._tpu = tpu
        for one in (before, tpu):
            if one is not None:
                one.around = None

    def _around(self, batch: Batch, engine: Engine, index: int, run: Run) -> None:
        assert self._tpu is not None
        if (engine, index) in self._open:
            self._found.add(self._reached(batch, *self._open.pop((engine, index))))
        if Kind.NUMERIC not in self.kinds:
            run()
            return
        if self._numeric is None:
            written = self.shadow.written if self._init is not None else None
            self._numeric = Numeric(self._tpu.memory, self.named, written)
        issued = partial(self._command, engine, index, batch.columns[engine])
        self._found.add(self._numeric.around(batch, engine, index, run, issued))

    def begin(self, *, program: bool, recorded: bool) -> None:
        """A request begins. program: a net's; recorded: its commands do not run."""
        self.group = 0
        self.site = None
        self._requests += 1
        self._found.take()
        self._kernel = False
        self._accesses = []
        if self._gaps is not None:
            self._gaps.begin()
        if self.memory is not None:
            self.memory.begin(program=program, recorded=recorded)
        if self._init is not None:
            self._init.begin()

    def wrote(self, start: int, nbytes: int) -> None:
        """The host wrote a range of DDR, given by its offset."""
        self.shadow.write(Space.DDR, start, nbytes)
        if self._gaps is not None:
            self._gaps.wrote(start, nbytes)

    def anew(self, start: int, nbytes: int) -> None:
        """A range of DDR was handed out, or given back."""
        rest = [(n, one.outside(start, nbytes)) for n, one in self._stored]
        self._stored = [(n, one) for n, one in rest if len(one.ranges)]
        self.shadow.clear_range(start, nbytes)

    def unseen(self) -> None:
        """In this request the controller's code does things that nobody tells: any of DDR may be written by
        it."""
        self.shadow.forget()
        if self.memory is not None:
            self.memory.watched = False

    def before(self, batch: Batch) -> None:
        """Look at a batch that is about to be executed."""
        sequence = self._records.sequence(batch)
        self._beside(sequence)
        self._open.clear()
        every = Kind.NUMERIC in self.kinds and self._init is not None  # it asks what is written by then
        if self._tpu is not None and (self._records.by_data or every):
            later = [k for k, record in enumerate(sequence.records) if every or by_data(record)]
            for k, end in itertools.pairwise([*later, len(sequence)]):
                self._open[ENGINES[sequence.engine[k]], int(sequence.index[k])] = sequence, k, end
        if len(sequence):
            self._found.add(self._findings(sequence, batch))
        if self._tpu is not None:
            self._tpu.around = self._around if self._open or Kind.NUMERIC in self.kinds else None

    def _reached(self, batch: Batch, sequence: Sequence, k: int, end: int) -> Iterator[Finding]:
        """Command k is executed next: look at it and at those behind it up to `end`."""
        assert self._tpu is not None
        issued = self._issued(sequence)
        if by_data(sequence.records[k]):
            now = decided(sequence.records[k], self._tpu.memory)
            if self.memory is not None:
                yield from self.memory.decided(k, now.record, partial(issued, k))
            if self._init is not None:
                row = batch.columns[ENGINES[sequence.engine[k]]].row(int(sequence.index[k]))
                yield from self._init.decided(now, row, issued(k))
            k += 1
        if self._init is not None:
            yield from self._init.check(sequence, batch, issued, k, end)

    def recorded(self, batch: Batch) -> None:
        """Look at a batch of a net's program that is stored instead of executed."""
        sequence = self._records.sequence(batch)
        if self.memory is not None:
            self._found.add(self.memory.commands(sequence, self.arena, self._issued(sequence)))

    def accessed(
        self, accesses: Iterable[ControllerAccess], frames: Callable[..., tuple[Frame, ...]]
    ) -> None:
        """Look at what the controller's own code did, before any command that it issued meanwhile runs.
        frames: the user's lines at a chain of addresses."""
        for one in accesses:
            where = (one.space, one.offset, one.nbytes)

            def by(one: ControllerAccess = one) -> Issued:
                return Issued("controller", 0, "", frames(one.site, *one.callers))

            self._accesses.append((one, by))
            if self.memory is not None:
                self._found.add(self.memory.controller(*where, write=one.write, by=by))
            if one.write:
                if self._init is not None and one.space is not Space.DDR:
                    self._init.settle()
                self.shadow.mark(one.space, np.arange(one.offset, one.offset + one.nbytes))
                if self._gaps is not None and one.space is Space.DDR:
                    self._gaps.accessed(one.offset)
            elif not one.bd and not one.gdma:
                self._read(one, by)

    def _read(self, one: ControllerAccess, by: Callable[[], Issued]) -> None:
        """The controller read what is there now."""
        if self._init is not None:
            found = self._init.controller(one.space, one.offset, one.nbytes, by)
            self._found.add([found] if found is not None else [])

    def _beside(self, sequence: Sequence | None) -> None:
        """Accesses that were made while commands waited, with these commands; None: they never came."""
        accesses, self._accesses = [one for one in self._accesses if one[0].bd or one[0].gdma], []
        if not accesses:
            return
        unordered: set[int] = set()
        if self._hazard is not None and sequence is not None:
            made = [(a.space, a.offset, a.nbytes, a.write, a.bd, a.gdma) for a, _ in accesses]
            for i, finding in self._hazard.controller(
                sequence, made, self._issued(sequence), lambda i: accesses[i][1]()
            ):
                unordered.add(i)
                self._found.add([finding])
        for i, (one, by) in enumerate(accesses):
            if not one.write and i not in unordered:
                self._read(one, by)

    def settled(self, places: Places) -> None:
        """Everything that was issued so far has been looked at. places: lines of code addresses."""
        if self.memory is not None:
            self._found.add(self.memory.settled(places))

    def _findings(self, sequence: Sequence, batch: Batch) -> Iterator[Finding]:
        issued = self._issued(sequence)
        if self.memory is not None:
            yield from self.memory.commands(sequence, self.arena, issued)
        if self._gaps is not None and self._kernel:
            self._gaps.commands(sequence, issued)
        looked_at = self._waits is None or self.group > 0
        if self._in_order.get(batch, None) in (True, looked_at):
            yield from self._proved(sequence, batch, [])
        else:
            found = 0
            for finding in self._order(sequence, batch, issued):
                found += 1
                yield finding
            if batch.again and not found:
                self._in_order[batch] = looked_at
        if self._init is not None:
            first_open = min((k for _, k, _ in self._open.values()), default=len(sequence))
            yield from self._init.check(sequence, batch, issued, 0, first_open)

    def _order(self, sequence: Sequence, batch: Batch, issued: Callable[[int], Issued]) -> Iterator[Finding]:
        hazards = list(self._hazard.check(sequence, issued)) if self._hazard is not None else []
        yield from self._proved(sequence, batch, hazards)
        if self._hazard is not None and self._records.replaced:
            yield from self._hazard.over(sequence, self._records.replaced, issued)
        if self._waits is not None and self.group:
            yield from self._waits.check(sequence, batch, issued)

    def _proved(self, sequence: Sequence, batch: Batch, hazards: list[Finding]) -> Iterator[Finding]:
        """What other legal orders of the batch change: told with its hazards, else a finding of its own."""
        always = Kind.SCHEDULE in self.kinds
        if self._tpu is None or not (always or any(map(self._found.new, hazards))):
            yield from hazards
            return
        proof = prove(self._tpu, batch, sequence)
        text = proof.text(self._place(proof))
        yield from (replace(hazard, proof=text) for hazard in hazards)
        if hazards or not always:
            return
        different = proof.difference
        if different is not None:
            where = address_text(different.space, different.offset) if not different.failed else ""
            tensor = self._place(proof)
            what = "the results of the commands depend on the order of the engines, which they leave open"
            by = Issued("", 0, "", group=self.group)
            yield Finding("hazard.order", what, by, tensor=tensor, address=where, proof=text)
        elif proof.skipped:
            yield Finding("hazard.untried", text, Issued("", 0, "", group=self.group))

    def _place(self, proof: Proof) -> str:
        different = proof.difference
        return self.named(different.space, different.offset) if different and not different.failed else ""

    def unfinished(self, request: str, bd: U32, gdma: U32) -> None:
        """A kernel returned with these commands, which it did not wait for. `site` tells who issued them."""
        if Kind.SYNC in self.kinds:
            engine, index = last_command(bd, gdma)
            by = self._command(engine, index, LAYOUTS[engine].columns(bd if engine is Engine.BD else gdma))
            self._found.add([no_poll(request, len(bd) + len(gdma), by)])

    def wrong_queue(self, error: QueueError, bd: U32, gdma: U32) -> None:
        """Commands with ids or waits that are wrong, of which none is executed."""
        columns = {
            engine: LAYOUTS[engine].columns(words) for engine, words in zip(ENGINES, (bd, gdma), strict=True)
        }
        if Kind.SYNC in self.kinds:
            self._found.add([wrong_queue(error, lambda e, i: self._command(e, i, columns[e]))])

    def _command(self, engine: Engine, index: int, columns: Columns) -> Issued:
        row = columns.row(index)
        site = self.site(engine, index) if self.site is not None else Site()
        try:
            name = lookup(engine, row).name
        except DeviceError:
            name = "unknown"
        number = row[ID_FIELDS[engine][0]]
        return Issued(engine.value, number, name, site.frames, site.layer, group=self.group)

    def _issued(self, sequence: Sequence) -> Callable[[int], Issued]:
        """Who issued a command of the batch that is looked at now; may be asked later."""
        asked, group = self.site, self.group

        def issued(k: int) -> Issued:
            engine, index = ENGINES[sequence.engine[k]], int(sequence.index[k])
            site = asked(engine, index) if asked is not None else Site()
            name = sequence.records[k].name
            return Issued(engine.value, int(sequence.id[k]), name, site.frames, site.layer, group=group)

        return issued

    def end(self, *, failed: bool = False) -> tuple[list[Finding], list[tuple[int, Stored]]]:
        """The request has ended: what was found, and what in DDR must not be read, each with the number of
        the request that stored it. failed: with an error, so what a kernel did not write is no news."""
        self._beside(None)
        fresh = self._init.stored() if self._init is not None else []
        before = [(n, self._still(one)) for n, one in self._stored]
        self._stored = [
            *((self._requests, one) for one in fresh),
            *((n, one) for n, one in before if len(one.ranges)),
        ]
        gaps: list[Stored] = []
        if self._gaps is not None:
            stored = [one for _, one in self._stored]
            came_to_end = self._kernel and not failed
            gaps = self._gaps.end(self._function, stored) if came_to_end else self._gaps.left()
        return self._found.take(), [*self._stored, *((0, one) for one in gaps)]

    def launched(self, function: Callable[[], tuple[Frame, ...]]) -> None:
        """The request launches a free kernel that runs; function: the line where its code begins."""
        self._kernel, self._function = True, function

    def _still(self, one: Stored) -> Stored:
        """The parts of it over which nothing was written since."""
        start, end = one.reach()
        return one.only(self.shadow.unwritten(start, end - start))
