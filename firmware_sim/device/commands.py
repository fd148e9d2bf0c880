"""The commands of a traced request in the order of execution: who wrote a byte, and from where it came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.batch import Batch, batch_of
from firmware_sim.checks.finding import Issued
from firmware_sim.device.trace import TracedRequest
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.instructions.disasm import LAYOUTS, disassemble_row
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.codes import Format, Precision
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.queues import QueueError
from firmware_sim.suggest import did_you_mean

ENGINES = (Engine.BD, Engine.GDMA)
_STEPS = 6  # transfers that `Commands.origin` follows
_FIELDS = {engine: {field.name for field in layout.fields} for engine, layout in LAYOUTS.items()}
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

    def writes(self, space: Space, offset: int, nbytes: int = 1) -> bool:
        """Whether it writes one of these bytes; local memory lane after lane."""
        return self._result(space, offset, nbytes) is not None

    def source(self, space: Space, offset: int) -> tuple[Space, int] | None:
        """Of a transfer, what it moved to a byte: the byte at the same place of its source, in the order of
        elements, or the source's first one where the two do not go side by side. None of what computes."""
        result = self._result(space, offset, 1)
        reads = (o for o in self.operands if isinstance(o, Tensor) and Access.READ in o.access)
        read = next(reads, None)
        if self.engine is Engine.BD or result is None or read is None:
            return None
        to, since = _bytes(result), _bytes(read)
        inside = np.nonzero((to <= offset) & (offset < to + result.itemsize))[0]
        if len(to) != len(since) or not len(inside):
            return read.space, int(since[0])
        return read.space, int(since[inside[-1]])

    def _result(self, space: Space, offset: int, nbytes: int) -> Tensor | None:
        """The result in which one of these bytes is."""
        within = offset % chip.LOCAL_BYTES if space is Space.LOCAL else offset
        results = (o for o in self.operands if isinstance(o, Tensor) and Access.WRITE in o.access)
        for tensor in results:
            if tensor.space is not space:
                continue
            first, behind = tensor.reach()
            if first >= within + nbytes or behind <= within:
                continue
            at = _bytes(tensor)
            if np.any((at < offset + nbytes) & (at + tensor.itemsize > offset)):
                return tensor
        return None


def _bytes(tensor: Tensor) -> npt.NDArray[np.int64]:
    """The first byte of each element, in their order; of local memory over all lanes."""
    return tensor.indices().reshape(-1) * tensor.itemsize + tensor.offset % tensor.itemsize


class Commands:
    """All commands of a request, in the order in which they are executed.

    stopped: why there are fewer of them than were issued, empty when there are not.
    """

    def __init__(self, request: TracedRequest) -> None:
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
                part[:, 0], part[:, 1] = place, ENGINES.index(engine)
                part[:, 2] = np.arange(first, last)
                numbers.append(part)
        self._order = np.concatenate([np.zeros((0, 3), np.int32), *numbers])

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, number: int) -> Command:
        """A command by its number, from the end where it is negative."""
        number = range(len(self))[number]
        place, engine_number, index = self._order[number].tolist()
        engine, traced = ENGINES[engine_number], self.request.batches[place]
        issued = self.request.issuer(traced, engine, index)
        return Command(number, place, engine, index, issued, traced.columns[engine].row(index))

    def __iter__(self) -> Iterator[Command]:
        return (self[number] for number in range(len(self)))

    def writer(self, space: Space, offset: int, nbytes: int = 1, before: int | None = None) -> Command | None:
        """The newest command that wrote one of these bytes, of those in front of number `before`; None for
        none. offset: in its memory; local memory lane after lane."""
        for number in range(len(self) if before is None else before, 0, -1):
            if (command := self[number - 1]).writes(space, offset, nbytes):
                return command
        return None

    def origin(
        self, space: Space, offset: int, nbytes: int = 1, before: int | None = None
    ) -> tuple[Command, ...]:
        """The commands that brought a byte where it is, the newest first: transfers are followed to what
        computed what they moved. None where nothing wrote it. before: as of `writer`."""
        found: list[Command] = []
        while len(found) < _STEPS and (command := self.writer(space, offset, nbytes, before)) is not None:
            found.append(command)
            source = command.source(space, offset)
            if source is None:
                break
            (space, offset), nbytes, before = source, 1, command.number
        return tuple(found)


def layer_names(issued: Issued) -> tuple[str, ...]:
    """What the issuer of a command is called: its node, both words of the label `conv1 (TPU_CONV)`, and the
    functions."""
    name, _, op = issued.layer.partition(" ")
    functions = (frame.function for frame in issued.frames)
    return tuple(word for word in (issued.node, name, op.strip("()"), *functions) if word)
