"""The two engines: executing batches of descriptors in a memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from firmware_sim.again import TOGETHER, Again, Plan, Ready, ready
from firmware_sim.batch import U32, Batch, plan_keys
from firmware_sim.chip import CLOCK_HZ
from firmware_sim.errors import DeviceError
from firmware_sim.flush import flushing
from firmware_sim.instructions.disasm import LAYOUTS, operand_text
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.table import lookup
from firmware_sim.instructions.workers import threads
from firmware_sim.isa import timing
from firmware_sim.isa.footprint import Access, Space, Tensor
from firmware_sim.isa.layout import Columns, Row
from firmware_sim.memory import Memory
from firmware_sim.queues import ID_FIELDS, Where, located
from firmware_sim.wire import NOTED_BD, NOTED_GDMA, NOTED_NOTHING

_PLANS_MAX = 20_000
_SLOW = 1e6  # cycles of a command whose reference takes longer than loops are compiled
_NOTED = {Engine.BD: NOTED_BD, Engine.GDMA: NOTED_GDMA}


class Watcher(Protocol):
    """Looks at commands before they are executed."""

    def before(self, batch: Batch) -> None:
        """The batch is about to be executed, in the order of its segments."""


Around = Callable[[Batch, Engine, int, Run], None]
"""Is given each command of a batch instead of it being executed: it calls the last argument for that."""


class _Together:
    """Compiled loops of commands that follow one another, to be called all at once: a call from Python takes
    longer than many a loop."""

    def __init__(self, columns: dict[Engine, Columns], where: Where | None) -> None:
        self._columns = columns
        self._where = where
        self._entries: list[bytes] = []
        self._commands: list[tuple[Engine, int]] = []

    def add(self, entry: bytes, engine: Engine, index: int) -> None:
        """One more; raises DeviceError as `run` does."""
        self._entries.append(entry)
        self._commands.append((engine, index))
        if len(self._entries) >= TOGETHER:
            self.run()

    def run(self) -> None:
        """Those that were added, in order. DeviceError when memory runs out."""
        if not self._entries:
            return
        done = native.run(b"".join(self._entries), len(self._entries))
        if done < len(self._entries):
            raise _failed(MemoryError(native.NO_ROOM), self._columns, *self._commands[done], self._where)
        self._entries.clear()
        self._commands.clear()


class Tpu:
    """Executes descriptors exactly and keeps count of ids and of modelled time.

    place: two numbers that others may look at while it works: NOTED_BD, NOTED_GDMA or NOTED_NOTHING, and
    which command of the batch runs.
    bd_id, gdma_id: the last ids done. cycles: modelled time of all batches and launches, by the rule of
    isa/timing.py; a batch starts when the one before is done.
    """

    def __init__(self, memory: Memory) -> None:
        threads()  # a wrong TPULAYER_THREADS is said here, not when the first instruction is large
        self.memory = memory
        self.bd_id = 0
        self.gdma_id = 0
        self.cycles = 0.0
        self._launched = False  # something ran since the last launch ended
        self._read = 0  # bytes from DDR, since then
        self._reads: dict[bytes, int] = {}  # those of each GDMA command that was ever bound, by its key
        self._most_seconds = self._most_cycles = math.inf
        self.place: memoryview[int] | list[int] = [0, 0]
        self.watcher: Watcher | None = None
        """Sees every batch before it is executed."""
        self.around: Around | None = None
        """Is given every command, one after the other."""
        self._checked: set[tuple[Engine, bytes]] = set()
        self._plans: dict[Engine, dict[bytes, Plan]] = {engine: {} for engine in Engine}
        self._again = Again()
        self._ready: WeakKeyDictionary[Batch, Ready] = WeakKeyDictionary()

    @property
    def filtered(self) -> int:
        """How many words the newest masked copy kept."""
        return self.memory.filtered

    def allow(self, seconds: float) -> None:
        """From now on so much modelled time: a command that ends later is an error."""
        self._most_seconds, self._most_cycles = seconds, self.cycles + seconds * CLOCK_HZ

    def restart(self) -> None:
        """Both engines count from 1 again, as after okk_initialize."""
        self.bd_id = self.gdma_id = 0

    def end_launch(self) -> None:
        """What ran since the last call was one launch: adds what that costs beside its commands. Nothing
        where nothing ran."""
        if self._launched:
            self.cycles += timing.launch(self._read)
        self._launched, self._read = False, 0

    def execute(self, bd: U32, gdma: U32, *, where: Where | None = None, streamed: bool = False) -> None:
        """Run one batch: uint32[n, 32] BD and uint32[m, 32] GDMA descriptors, each in queue order.

        streamed: the engines read them from DDR by themselves; else the controller issues one after another,
        which takes time. Ids count on from the batch before, or from 1 again. Raises DeviceError naming
        engine, id, instruction, operand and limit; commands before the failing one (in replay order) are
        done.
        """
        if native.loaded_late() or len(self._reads) > _PLANS_MAX:
            self._forget()
            self._reads.clear()
        batch = self._again.batch(bd, gdma, self.bd_id, self.gdma_id, where)
        columns, keys, segments = batch.columns, batch.keys, batch.segments
        bd_first, gdma_first = batch.first[Engine.BD], batch.first[Engine.GDMA]
        if self.watcher is not None:
            self.watcher.before(batch)
        issue = 0.0 if streamed else timing.issue()
        self._launched = self._launched or len(bd) + len(gdma) > 0
        if self.around is None and self._repeated(batch, issue, where):
            return
        # both engines' time: when each command ended, after the batch's begin
        ends = {e: [self.cycles] for e in Engine}
        # of each command its key, and the place in the other engine's ends of what it waits for
        to_do = {e: (iter(keys[e]), iter(batch.waited(e).tolist())) for e in Engine}
        together = _Together(columns, where)
        place, most, around = self.place, self._most_cycles, self.around
        issued = self.cycles
        try:
            with np.errstate(all="ignore"), flushing():
                for engine, first, last in segments:
                    known, own = self._plans[engine], ends[engine]
                    other = ends[Engine.GDMA if engine is Engine.BD else Engine.BD]
                    end = own[-1]
                    place[0] = _NOTED[engine]
                    for index, key, wait in zip(range(first, last), *to_do[engine], strict=False):
                        place[1] = index
                        plan = known.get(key)
                        if plan is None:
                            together.run()  # done, should this one be illegal
                            plan = self._new_plan(engine, key, columns[engine], index, where)
                        if plan.entry is not None and around is None:
                            together.add(plan.entry, engine, index)
                        else:
                            together.run()
                            try:
                                if around is None:
                                    plan.run()
                                else:
                                    around(batch, engine, index, plan.run)
                            except (DeviceError, MemoryError) as error:  # what only the data shows
                                raise _failed(error, columns, engine, index, where) from None
                        # it starts when its engine is free, the id it waits for is done and it is issued
                        issued += issue
                        start = other[wait]
                        if issued > start:
                            start = issued
                        end = (start if start > end else end) + plan.cycles
                        own.append(end)
                        if end > most:
                            together.run()
                            text = f"with it this takes more than {self._most_seconds:g} s on the chip"
                            raise DeviceError(
                                f"{_command(engine, columns[engine].row(index), index, where)}: {text}",
                                hint="does a loop in the kernel's C code never end? Otherwise "
                                "a larger time limit lets it run",
                            )
                together.run()
        finally:
            place[0] = NOTED_NOTHING
            self._read += sum(self._reads[key] for key in keys[Engine.GDMA][: len(ends[Engine.GDMA]) - 1])
            self.bd_id = bd_first + len(ends[Engine.BD]) - 1
            self.gdma_id = gdma_first + len(ends[Engine.GDMA]) - 1
            self.cycles = max(one[-1] for one in ends.values())
        if batch.again and native.ready():
            made = ready(batch, self._plans, self._reads)
            if made is not None:
                self._ready[batch] = made

    def _repeated(self, batch: Batch, issue: float, where: Where | None) -> bool:
        """Execute a batch that is ready as `execute` does command by command; False, and nothing is done,
        where it is not, or where it would take longer than is allowed."""
        made = self._ready.get(batch) if native.ready() else None
        if made is None:
            return False
        ends = made.ends(self.cycles, issue)
        if max(one[-1] for one in ends) > self._most_cycles:
            return False
        done, place = 0, self.place
        try:
            with np.errstate(all="ignore"), flushing():
                for step in made.steps:
                    engine, place[1] = made.command(step.first)
                    place[0] = _NOTED[engine]
                    try:
                        count = step.execute()
                    except (DeviceError, MemoryError) as error:
                        raise _failed(error, batch.columns, engine, place[1], where) from None
                    done += count
                    if count < step.count:
                        error_at = made.command(done)
                        raise _failed(MemoryError(native.NO_ROOM), batch.columns, *error_at, where)
        finally:
            place[0] = NOTED_NOTHING
            gdma = int(made.engine[:done].sum())
            self._read += int(made.read[:done].sum())
            self.bd_id = batch.first[Engine.BD] + done - gdma
            self.gdma_id = batch.first[Engine.GDMA] + gdma
            self.cycles = max(float(ends[0][done - gdma]), float(ends[1][gdma]))
        return True

    def ready(self, batch: Batch, engine: Engine, index: int) -> Run:
        """What executes one command of a batch that a watcher was given, without counting ids or time; to be
        called inside `flushing()`. Raises DeviceError for one that is illegal."""
        key = batch.keys[engine][index]
        plan = self._plans[engine].get(key)
        return (plan or self._new_plan(engine, key, batch.columns[engine], index, None)).run

    def check(self, bd: U32, gdma: U32, *, where: Where | None = None) -> None:
        """Raise what `execute` would raise for commands that do not exist and for operands that leave their
        memories; run none, and load no compiled loops."""
        for engine, words in ((Engine.BD, bd), (Engine.GDMA, gdma)):
            columns = LAYOUTS[engine].columns(words)
            for index, key in enumerate(plan_keys(engine, columns)):
                if (engine, key) in self._checked:
                    continue
                row = columns.row(index)
                instruction: Instruction | None = None
                try:
                    instruction = lookup(engine, row)
                    for tensor in _semantics(instruction).operands(row):
                        if isinstance(tensor, Tensor):
                            for part in tensor.parts():
                                self.memory.check(tensor, part, tensor.block(part))
                except DeviceError as error:
                    raise _located(error, engine, row, index, instruction, where) from None
                if len(self._checked) >= _PLANS_MAX:
                    self._checked.clear()
                self._checked.add((engine, key))

    def _new_plan(
        self, engine: Engine, key: bytes, columns: Columns, index: int, where: Where | None
    ) -> Plan:
        row = columns.row(index)
        instruction: Instruction | None = None
        try:
            instruction = lookup(engine, row)
            semantics = _semantics(instruction)
            cycles = semantics.cycles(row).chip
            if cycles >= _SLOW and native.wait():
                self._forget()
            run = semantics.bind(row, self.memory)
        except (DeviceError, MemoryError) as error:
            raise _located(_known(error), engine, row, index, instruction, where) from None
        plan = Plan(run, cycles)
        if engine is Engine.GDMA:
            self._reads[key] = _bytes_read(semantics, row)
        if sum(map(len, self._plans.values())) >= _PLANS_MAX:
            self._forget()
        self._plans[engine][key] = plan
        return plan

    def _forget(self) -> None:
        for plans in self._plans.values():
            plans.clear()
        self._ready.clear()


def _bytes_read(semantics: Semantics, row: Row) -> int:
    """From DDR."""
    tensors = (t for t in semantics.operands(row) if isinstance(t, Tensor))
    return sum(t.nbytes for t in tensors if t.space is Space.DDR and Access.READ in t.access)


def _semantics(instruction: Instruction) -> Semantics:
    """What it does; DeviceError for one that is refused."""
    if instruction.semantics is None:
        raise DeviceError(f"{instruction.status.value}: {instruction.reason}")
    return instruction.semantics


def _command(engine: Engine, row: Row, index: int, where: Where | None) -> str:
    return located(f"{engine.value} command {row[ID_FIELDS[engine][0]]}", engine, index, where)


def _known(error: DeviceError | MemoryError) -> DeviceError:
    """The emulator may need more memory for a command than the machine has."""
    if isinstance(error, DeviceError):
        return error
    return DeviceError(
        f"the emulator has not enough memory for it: {error}",
        hint="give the command smaller tensors, or run it on a machine with more memory",
    )


def _failed(
    error: DeviceError | MemoryError,
    columns: Mapping[Engine, Columns],
    engine: Engine,
    index: int,
    where: Where | None,
) -> DeviceError:
    """The error of a command, with its place."""
    row = columns[engine].row(index)
    return _located(_known(error), engine, row, index, lookup(engine, row), where)


def _located(
    error: DeviceError,
    engine: Engine,
    row: Row,
    index: int,
    instruction: Instruction | None,
    where: Where | None,
) -> DeviceError:
    """The error with the place, the instruction and its operands in readable form."""
    text = _command(engine, row, index, where)
    if instruction is not None:
        text += f" ({instruction.name})"
    message = f"{text}: {error.message}"
    if instruction is not None and instruction.semantics is not None:
        # where the operands themselves are wrong, the message already says so
        with contextlib.suppress(DeviceError):
            message += "\n  " + "\n  ".join(map(operand_text, instruction.semantics.operands(row)))
    return DeviceError(message, hint=error.hint)
