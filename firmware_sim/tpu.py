"""The two engines: executing batches of descriptors in a memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

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
from firmware_sim.wire import NOTED_BD, NOTED_GDMA, NOTED_NOTHING

U32 = npt.NDArray[np.uint32]
Where = Callable[[Engine, int], str]
"""Tells where a descriptor of the batch was issued, for messages: (engine, index) -> text."""

_ID_FIELDS = {
    Engine.BD: ("cmd_id_tpu", "cmd_id_gdma"),
    Engine.GDMA: ("cmd_id", "eng0_sync_id", "eng1_sync_id", "eng3_sync_id"),
}
# Fields that only steer the queues: descriptors that differ in nothing else do the same.
_QUEUE_FIELDS = {
    Engine.BD: (*_ID_FIELDS[Engine.BD], "cmd_end", "cmd_intr_en", "cmd_keep"),
    Engine.GDMA: (*_ID_FIELDS[Engine.GDMA], "chain_end", "intr_en", "barrier_enable"),
}
_KEPT = {engine: ~LAYOUTS[engine].mask(*names) for engine, names in _QUEUE_FIELDS.items()}
_PLANS_MAX = 20_000
_SLOW = 1e6  # cycles of a command whose reference takes longer than loops are compiled
_TOGETHER, _SHORT = 64, 1e4  # loops that are called at once, and cycles of their commands
_NOTED = {Engine.BD: NOTED_BD, Engine.GDMA: NOTED_GDMA}

Segment = tuple[Engine, int, int]
"""Commands [first, last) of one engine, done one after the other."""


class _Plan:
    """One descriptor made ready: how to run it, and its cycles on its engine. entry: of a short
    compiled loop, which may be called together with others."""

    __slots__ = ("cycles", "entry", "run")

    def __init__(self, run: Run, cycles: float) -> None:
        self.run = run
        self.cycles = cycles
        self.entry = run.entry if isinstance(run, native.Call) and cycles < _SHORT else None


class _Batch:
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
        if len(self._entries) >= _TOGETHER:
            self.run()

    def run(self) -> None:
        """Those that were added, in order. DeviceError when memory runs out."""
        if not self._entries:
            return
        done = native.run(self._entries)
        if done < len(self._entries):
            raise self.failed(MemoryError(native.NO_ROOM), *self._commands[done])
        self._entries.clear()
        self._commands.clear()

    def failed(self, error: DeviceError | MemoryError, engine: Engine, index: int) -> DeviceError:
        """The error of a command, with its place."""
        row = self._columns[engine].row(index)
        return _located(_known(error), engine, row, index, lookup(engine, row), self._where)


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
        self._checked: set[tuple[Engine, bytes]] = set()
        self._plans: dict[Engine, dict[bytes, _Plan]] = {engine: {} for engine in Engine}

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
        columns = {e: LAYOUTS[e].columns(w) for e, w in ((Engine.BD, bd), (Engine.GDMA, gdma))}
        bd_first = first_id(columns[Engine.BD], Engine.BD, self.bd_id, where)
        gdma_first = first_id(columns[Engine.GDMA], Engine.GDMA, self.gdma_id, where)
        waits = {e: command_waits(c, e) for e, c in columns.items()}
        segments = replay_order(columns, waits, bd_first, gdma_first, where)
        keys = {e: plan_keys(e, c) for e, c in columns.items()}
        # both engines' time: when each command ended, after the batch's begin
        ends = {e: [self.cycles] for e in Engine}
        # of each command its key, and the place in the other engine's ends of what it waits for
        to_do = {
            Engine.BD: (iter(keys[Engine.BD]), iter(np.maximum(waits[Engine.BD] - gdma_first, 0).tolist())),
            Engine.GDMA: (
                iter(keys[Engine.GDMA]),
                iter(np.maximum(waits[Engine.GDMA] - bd_first, 0).tolist()),
            ),
        }
        batch = _Batch(columns, where)
        place, most = self.place, self._most_cycles
        issued, issue = self.cycles, 0.0 if streamed else timing.issue()
        self._launched = self._launched or len(bd) + len(gdma) > 0
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
                            batch.run()  # done, should this one be illegal
                            plan = self._new_plan(engine, key, columns[engine], index, where)
                        if plan.entry is not None:
                            batch.add(plan.entry, engine, index)
                        else:
                            batch.run()
                            try:
                                plan.run()
                            except (DeviceError, MemoryError) as error:  # what only the data shows
                                raise batch.failed(error, engine, index) from None
                        # it starts when its engine is free, the id it waits for is done and it is issued
                        issued += issue
                        start = other[wait]
                        if issued > start:
                            start = issued
                        end = (start if start > end else end) + plan.cycles
                        own.append(end)
                        if end > most:
                            batch.run()
                            text = f"with it this takes more than {self._most_seconds:g} s on the chip"
                            raise DeviceError(
                                f"{_command(engine, columns[engine].row(index), index, where)}: {text}",
                                hint="does a loop in the kernel's C code never end? Otherwise "
                                "a larger time limit lets it run",
                            )
                batch.run()
        finally:
            place[0] = NOTED_NOTHING
            self._read += sum(self._reads[key] for key in keys[Engine.GDMA][: len(ends[Engine.GDMA]) - 1])
            self.bd_id = bd_first + len(ends[Engine.BD]) - 1
            self.gdma_id = gdma_first + len(ends[Engine.GDMA]) - 1
            self.cycles = max(one[-1] for one in ends.values())

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
    ) -> _Plan:
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
        plan = _Plan(run, cycles)
        if engine is Engine.GDMA:
            self._reads[key] = _bytes_read(semantics, row)
        if sum(map(len, self._plans.values())) >= _PLANS_MAX:
            self._forget()
        self._plans[engine][key] = plan
        return plan

    def _forget(self) -> None:
        for plans in self._plans.values():
            plans.clear()


def plan_keys(engine: Engine, columns: Columns) -> list[bytes]:
    """The 128 bytes of each descriptor, ids and flags of the queues as zeros: equal keys, equal effects."""
    data = (columns.words & _KEPT[engine]).tobytes()
    return [data[i : i + 128] for i in range(0, len(data), 128)]


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
    text = f"{engine.value} command {row[_ID_FIELDS[engine][0]]}"
    return f"{where(engine, index)}: {text}" if where else text


def _known(error: DeviceError | MemoryError) -> DeviceError:
    """The emulator may need more memory for a command than the machine has."""
    if isinstance(error, DeviceError):
        return error
    return DeviceError(
        f"the emulator has not enough memory for it: {error}",
        hint="give the command smaller tensors, or run it on a machine with more memory",
    )


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


def first_id(columns: Columns, engine: Engine, last: int, where: Where | None) -> int:
    """The id before the batch's first. Raises DeviceError unless the ids count up by one."""
    if not len(columns):
        return last
    ids = columns[_ID_FIELDS[engine][0]].astype(np.int64)
    first = int(ids[0])
    expected = last + 1 if first != 1 else 1
    wrong = np.nonzero(ids != expected + np.arange(len(ids)))[0]
    if len(wrong):
        i = int(wrong[0])
        command = _command(engine, columns.row(i), i, where)
        raise DeviceError(
            f"{command}: its id should be {expected + i}, ids of an engine count up by one",
            hint="every command takes the next id of its engine; okk_initialize begins at 1, "
            "okk_set_id_node anywhere",
        )
    return first - 1


def command_waits(columns: Columns, engine: Engine) -> npt.NDArray[np.int64]:
    """The other engine's id that each command waits for; engines work in order, so it never falls."""
    waits = columns[_ID_FIELDS[engine][1]].astype(np.int64)
    return np.maximum.accumulate(waits) if len(waits) else waits


def _never(
    columns: dict[Engine, Columns], engine: Engine, index: int, last: int, where: Where | None
) -> DeviceError:
    other = Engine.GDMA if engine is Engine.BD else Engine.BD
    row = columns[engine].row(index)
    wait = row[_ID_FIELDS[engine][1]]
    return DeviceError(
        f"{_command(engine, row, index, where)}: waits for {other.value} command {wait}, "
        f"which never comes: {other.value} gets to {last} before it",
        hint="wait only for commands that were issued, and that do not wait for this one",
    )


def replay_order(
    columns: dict[Engine, Columns],
    waits: dict[Engine, npt.NDArray[np.int64]],
    bd_first: int,
    gdma_first: int,
    where: Where | None,
) -> list[Segment]:
    """A valid order: GDMA commands by id, after each the BD commands that wait for it.

    Raises DeviceError for a wait on an id that never comes (also: two commands waiting for each other).
    """
    bd_waits, gdma_waits = waits[Engine.BD], waits[Engine.GDMA]
    n, m = len(bd_waits), len(gdma_waits)
    if n and bd_waits[-1] > gdma_first + m:
        late = np.nonzero(bd_waits > gdma_first + m)[0]
        raise _never(columns, Engine.BD, int(late[0]), gdma_first + m, where)
    if not m:
        return [(Engine.BD, 0, n)]
    # BD commands done before GDMA command i: those that wait for an earlier id
    before = np.searchsorted(bd_waits, gdma_first + 1 + np.arange(m), side="left")
    late = np.nonzero(gdma_waits > bd_first + before)[0]
    if len(late):
        i = int(late[0])
        raise _never(columns, Engine.GDMA, i, bd_first + int(before[i]), where)
    segments: list[Segment] = []
    done = begun = 0
    for i, b in enumerate(before.tolist()):
        if b > done:
            segments += [(Engine.GDMA, begun, i), (Engine.BD, done, b)]
            done, begun = b, i
    return [*segments, (Engine.GDMA, begun, m), (Engine.BD, done, n)]
