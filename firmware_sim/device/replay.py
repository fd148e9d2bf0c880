"""The commands of a traced request, executed again one by one; back again from copies of the memories."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.checks.finding import Issued
from firmware_sim.device.trace import TracedRequest
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.flush import flushing
from firmware_sim.instructions.disasm import LAYOUTS, disassemble_row
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.codes import Format, Precision
from firmware_sim.isa.footprint import (
    Access,
    Operand,
    Space,
    Tensor,
    address_text,
    aligned_strides,
    continuous_strides,
    locate,
)
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory
from firmware_sim.processes.shared_memory import SharedMemory
from firmware_sim.queues import QueueError
from firmware_sim.suggest import did_you_mean
from firmware_sim.tpu import Batch, Tpu, batch_of

Array = npt.NDArray[Any]

_FIELDS = {engine: {field.name for field in layout.fields} for engine, layout in LAYOUTS.items()}
_ENGINES = (Engine.BD, Engine.GDMA)
_COPIES = 8  # of the memories, at most
_APART_S = 2.0  # of execution between two copies
_BD_TYPES = {  # without and with a sign
    int(Precision.INT8): ("uint8", "int8"),
    int(Precision.FP32): ("float32", "float32"),
    int(Precision.INT16): ("uint16", "int16"),
    int(Precision.INT32): ("uint32", "int32"),
}
_GDMA_TYPES = {
    int(Format.FP32): "float32",
    int(Format.INT16): "int16",
    int(Format.UINT8): "uint8",
    int(Format.INT8): "int8",
    int(Format.FP16): "float16",
}
_PLAIN = {1: "uint8", 2: "uint16", 4: "float32"}


@dataclass(frozen=True)
class Command:
    """One command of a request. number: in the order of execution, from 0; batch: of which batch; index: in
    its engine's queue there; issued: who issued it, with engine, id and instruction."""

    number: int
    batch: int
    engine: Engine
    index: int
    issued: Issued
    row: Row = field(repr=False)

    @property
    def text(self) -> str:
        """The line of the disassembler."""
        return disassemble_row(self.engine, self.row)

    @property
    def place(self) -> str:
        """Where it comes from: `crop.c:17 crop_global`, or node and tile, or what is known."""
        issued = self.issued
        lines = [f"{f.file.rpartition('/')[2]}:{f.line} {f.function}".rstrip() for f in issued.frames[:1]]
        return ", ".join(word for word in (*lines, issued.layer, issued.node, issued.tile) if word)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Results first; none of a command that is illegal."""
        try:
            semantics = lookup(self.engine, self.row).semantics
            return semantics.operands(self.row) if semantics is not None else ()
        except DeviceError:
            return ()

    def tensor(self, name: str) -> Tensor:
        """An operand in memory, by its name. UsageError for one that it does not have."""
        tensors = {one.name: one for one in self.operands if isinstance(one, Tensor)}
        if name not in tensors:
            raise UsageError(
                f"{self.issued.name} has no operand {name} in memory{did_you_mean(name, list(tensors))}",
                hint=f"it has {', '.join(tensors) or 'none'}",
            )
        return tensors[name]

    def dtype(self, tensor: Tensor) -> str:
        """How numpy calls the type of an operand's elements; where the command does not say, what is usual
        for their size."""
        kind = ""
        if self.engine is Engine.BD:
            unsigned, signed = _BD_TYPES.get(self._field(f"opt_{tensor.name}_prec"), ("", ""))
            kind = signed if self._field(f"opt_{tensor.name}_sign", 1) else unsigned
        else:
            kind = _GDMA_TYPES.get(self._field(f"{tensor.name}_data_format"), "")
        if kind and np.dtype(kind).itemsize == tensor.itemsize:
            return kind
        return _PLAIN[tensor.itemsize]

    def _field(self, name: str, otherwise: int = -1) -> int:
        """A field of the descriptor, or what stands for it where there is none of that name."""
        return self.row[name] if name in _FIELDS[self.engine] else otherwise


@dataclass(frozen=True)
class _Copy:
    memory: SharedMemory
    filtered: int


class Replay:
    """A request, as it was at any of its commands.

    position: how many commands are done; what they did and what the controller wrote since is in `memory`.
    stopped: why there are fewer commands than were issued, empty when there are not.
    """

    def __init__(self, request: TracedRequest) -> None:
        """UsageError for a request that was traced without its memories."""
        if request.before is None:
            raise UsageError(
                f"{request.what} was traced without its memories", hint="traced(memories=True) keeps them"
            )
        self.request = request
        self.stopped = request.failed
        self._batches: list[Batch] = []
        numbers: list[npt.NDArray[np.int32]] = []
        ids = (0, 0)
        for place, traced in enumerate(request.batches):
            if traced.streamed:
                ids = (0, 0)
            try:
                batch = batch_of(traced.bd, traced.gdma, *ids)
            except QueueError as error:
                self.stopped = self.stopped or error.message
                break
            self._batches.append(batch)
            ids = (batch.first[Engine.BD] + len(traced.bd), batch.first[Engine.GDMA] + len(traced.gdma))
            for engine, first, last in batch.segments:
                part = np.empty((last - first, 3), np.int32)
                part[:, 0], part[:, 1] = place, _ENGINES.index(engine)
                part[:, 2] = np.arange(first, last)
                numbers.append(part)
        self._order = np.concatenate([np.zeros((0, 3), np.int32), *numbers])
        self._memory = request.before.copied()
        local = self._memory.local.reshape(chip.NPU_NUM, chip.LOCAL_BYTES)
        self.memory = Memory(self._memory.ddr, local, self._memory.l2, chip.STATIC_CONTEXT_OFFSET)
        self._memory.l2[:] = request.before.l2  # without the tables of a fresh chip
        self._tpu = Tpu(self.memory)
        self._copies = {0: _Copy(request.before, 0)}
        self._written = 0  # batches before which the controller's writes are in memory
        self.position = 0
        self._settle()

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"<Replay {self.request.what}: at command {self.position} of {len(self)}>"

    def __getitem__(self, number: int) -> Command:
        """A command by its number, from the end where it is negative."""
        number = range(len(self))[number]
        place, engine_number, index = self._order[number].tolist()
        engine, traced = _ENGINES[engine_number], self.request.batches[place]
        issued = self.request.issuer(traced, engine, index)
        return Command(number, place, engine, index, issued, traced.columns[engine].row(index))

    def __iter__(self) -> Iterator[Command]:
        return (self[number] for number in range(len(self)))

    @property
    def next(self) -> Command | None:
        """The command that a step would execute; None at the end."""
        return self[self.position] if self.position < len(self) else None

    @property
    def last(self) -> Command | None:
        """The newest that is done; None at the beginning."""
        return self[self.position - 1] if self.position else None

    # ---- moving ----

    def step(self, count: int = 1) -> Command | None:
        """Execute so many commands, or those that are left; the next one."""
        return self.goto(min(self.position + count, len(self)))

    def back(self, count: int = 1) -> Command | None:
        """As it was so many commands ago, or at the beginning; the next one."""
        return self.goto(max(self.position - count, 0))

    def goto(self, number: int) -> Command | None:
        """As it was before that command ran, which is returned; len(self): when all had run.

        Errors: UsageError for a number that does not exist; DeviceError of a command that cannot be
        executed, which is then the next one.
        """
        if not 0 <= number <= len(self):
            raise UsageError(f"there is no command {number}", hint=f"they are numbered 0 to {len(self) - 1}")
        if number < self.position:
            self._restore(max(place for place in self._copies if place <= number))
        else:
            nearest = max(place for place in self._copies if place <= number)
            if nearest > self.position:
                self._restore(nearest)
        begin = time.monotonic()
        with np.errstate(all="ignore"), flushing():
            while self.position < number:
                place, engine_number, index = self._order[self.position].tolist()
                engine = _ENGINES[engine_number]
                try:
                    self._tpu.ready(self._batches[place], engine, index)()
                except DeviceError as error:
                    at = self[self.position]
                    raise DeviceError(
                        f"command {at.number} ({at.place}): {error.message}", hint=error.hint
                    ) from None
                self.position += 1
                self._settle()
                if time.monotonic() - begin > _APART_S and len(self._copies) < _COPIES:
                    self._copies[self.position] = _Copy(self._memory.copied(), self.memory.filtered)
                    begin = time.monotonic()
        return self.next

    def _settle(self) -> None:
        """Write what the controller wrote before the next command."""
        behind = len(self._order) <= self.position
        end = len(self.request.batches) if behind else int(self._order[self.position, 0]) + 1
        for batch in self.request.batches[self._written : end]:
            for one in batch.written:
                place = slice(one.offset, one.offset + len(one.data))
                self.memory.flat(one.space)[place] = np.frombuffer(one.data, np.uint8)
        self._written = max(self._written, end)

    def _restore(self, place: int) -> None:
        copy = self._copies[place]
        self._memory.become(copy.memory)
        self.memory.filtered = copy.filtered
        self.position = place
        self._written = 0 if not place else int(self._order[place - 1, 0]) + 1
        self._settle()

    # ---- finding ----

    def find(self, match: Callable[[Command], bool], start: int | None = None) -> Command | None:
        """The first command from `start` on, by default behind the next one, that matches; nothing moves."""
        first = self.position + 1 if start is None else start
        return next((self[k] for k in range(first, len(self)) if match(self[k])), None)

    def until_line(self, file: str, line: int) -> Command | None:
        """To the next command that a line of the kernel, or what it calls, issues; None, and nothing moves,
        where there is none. file: the end of its path."""

        def there(issued: Issued) -> bool:
            return any(f.line == line and _ends_with(f.file, file) for f in issued.frames)

        return self._until_site(there)

    def until_layer(self, name: str) -> Command | None:
        """To the next command of a layer, of a net's node, or issued in or below a function of that name,
        behind those of it that are next now."""

        def of(issued: Issued) -> bool:
            return name in layer_names(issued)

        now = self.next
        if now is not None and of(now.issued):  # leave it first
            behind = self._first(lambda issued: not of(issued), self.position)
            return None if behind is None else self._until_site(of, behind)
        return self._until_site(of)

    def until_id(self, engine: Engine, number: int) -> Command | None:
        """To the next command with that id of its engine."""
        found = self.find(lambda c: c.engine is engine and c.issued.id == number)
        return None if found is None else self.goto(found.number)

    def until_written(self, space: Space, offset: int, nbytes: int = 1) -> Command | None:
        """Behind the next command that writes one of these bytes, which is returned; None, and nothing moves,
        where there is none. offset: in its memory; local memory lane after lane."""
        for number in range(self.position, len(self)):
            if _writes(self[number], space, offset, nbytes):
                self.goto(number + 1)
                return self[number]
        return None

    def writer(self, space: Space, offset: int, nbytes: int = 1) -> Command | None:
        """The newest command so far that wrote one of these bytes; None for none."""
        for number in range(self.position - 1, -1, -1):
            if _writes(self[number], space, offset, nbytes):
                return self[number]
        return None

    def _until_site(self, match: Callable[[Issued], bool], start: int | None = None) -> Command | None:
        number = self._first(match, self.position + 1 if start is None else start)
        return None if number is None else self.goto(number)

    def _first(self, match: Callable[[Issued], bool], start: int) -> int | None:
        """The first command from `start` on whose issuer matches."""
        good = np.array([match(site) for site in self.request.sites], bool)
        for number in range(start, len(self)):
            place, engine, index = self._order[number].tolist()
            if good[self.request.batches[place].issued[_ENGINES[engine]][index]]:
                return number
        return None

    # ---- looking ----

    def operand(self, command: Command, name: str, dtype: str | None = None) -> Array:
        """What is now where an operand lies, [n, c, h, w], copied. dtype: instead of the command's own."""
        tensor = command.tensor(name)
        return self._values(tensor, dtype or command.dtype(tensor))

    def array(self, address: int, shape: tuple[int, ...], dtype: str = "float32") -> Array:
        """What is now at an absolute address: without gaps in DDR and L2, in the aligned layout in local
        memory, which takes up to four dimensions. DeviceError where no memory is."""
        space, offset = locate(address, "the tensor")
        size = np.dtype(dtype).itemsize
        if space is Space.LOCAL and len(shape) > 4:
            raise UsageError(f"{list(shape)}: a tensor in local memory has at most four dimensions")
        if space is Space.LOCAL:
            n, c, h, w = (1,) * (4 - len(shape)) + shape
            strides = aligned_strides(offset // chip.LOCAL_BYTES, (n, c, h, w), size)
        else:
            n, c, h, w = 1, 1, 1, math.prod(shape)
            strides = continuous_strides((n, c, h, w))
        tensor = Tensor("the tensor", Access.READ, space, offset, (n, c, h, w), strides, size)
        return self._values(tensor, dtype).reshape(shape)

    def buffer(self, name: str) -> int:
        """The address of what the host allocated under that name. UsageError for none."""
        known = {one.name: one.address for one in self.request.buffers}
        if name not in known:
            raise UsageError(
                f"there is no buffer {name}{did_you_mean(name, list(known))}",
                hint=f"there are {', '.join(known) or 'none'}",
            )
        return known[name]

    def where(self, space: Space, offset: int) -> str:
        """A byte of memory by the name of its buffer: `output +0x40`; else `lane 3 +0x100`."""
        if space is Space.DDR:
            address = chip.DDR_BASE + offset
            for one in self.request.buffers:
                if one.address <= address < one.address + max(one.nbytes, 1):
                    return f"{one.name} +0x{address - one.address:x}"
        return address_text(space, offset)

    def _values(self, tensor: Tensor, dtype: str) -> Array:
        for part in tensor.parts():
            self.memory.check(tensor, part, tensor.block(part))
        flat = self.memory.flat(tensor.space)
        at = tensor.indices() * tensor.itemsize + tensor.offset % tensor.itemsize
        raw = flat[at[..., None] + np.arange(tensor.itemsize)]
        return np.ascontiguousarray(raw).view(dtype)[..., 0]


def layer_names(issued: Issued) -> tuple[str, ...]:
    """What the issuer of a command is called: its node, both words of the label `conv1 (TPU_CONV)`, and the
    functions."""
    name, _, op = issued.layer.partition(" ")
    functions = (frame.function for frame in issued.frames)
    return tuple(word for word in (issued.node, name, op.strip("()"), *functions) if word)


def _writes(command: Command, space: Space, offset: int, nbytes: int) -> bool:
    """Whether a command writes one of these bytes."""
    for tensor in command.operands:
        if not isinstance(tensor, Tensor) or tensor.space is not space or Access.WRITE not in tensor.access:
            continue
        first, behind = tensor.reach()
        within = offset % chip.LOCAL_BYTES if space is Space.LOCAL else offset
        if first >= within + nbytes or behind <= within:
            continue
        at = tensor.indices() * tensor.itemsize + tensor.offset % tensor.itemsize
        if np.any((at < offset + nbytes) & (at + tensor.itemsize > offset)):
            return True
    return False


def _ends_with(path: str, end: str) -> bool:
    """Whole names of files and folders."""
    return path == end or path.endswith(f"/{end}")
