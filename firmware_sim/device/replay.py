"""The commands of a traced request, executed again one by one; back again from copies of the memories."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.checks.finding import Issued
from firmware_sim.device.commands import ENGINES, Command, Commands, layer_names
from firmware_sim.device.trace import TracedRequest
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.flush import flushing
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import (
    Access,
    Space,
    Tensor,
    address_text,
    aligned_strides,
    continuous_strides,
    locate,
)
from firmware_sim.memory import Memory
from firmware_sim.processes.shared_memory import SharedMemory
from firmware_sim.suggest import did_you_mean
from firmware_sim.tpu import Tpu

Array = npt.NDArray[Any]

_COPIES = 8  # of the memories, at most
_APART_S = 2.0  # of execution between two copies


@dataclass(frozen=True)
class _Copy:
    memory: SharedMemory
    filtered: int


class Replay(Commands):
    """A request, as it was at any of its commands.

    position: how many commands are done; what they did and what the controller wrote since is in `memory`.
    """

    def __init__(self, request: TracedRequest) -> None:
        """UsageError for a request that was traced without its memories."""
        if request.before is None:
            raise UsageError(
                f"{request.what} was traced without its memories", hint="traced(memories=True) keeps them"
            )
        super().__init__(request)
        self._memory = request.before.copied()
        local = self._memory.local.reshape(chip.NPU_NUM, chip.LOCAL_BYTES)
        self.memory = Memory(self._memory.ddr, local, self._memory.l2, chip.STATIC_CONTEXT_OFFSET)
        self._memory.l2[:] = request.before.l2  # without the tables of a fresh chip
        self._tpu = Tpu(self.memory)
        self._copies = {0: _Copy(request.before, 0)}
        self._written = 0  # batches before which the controller's writes are in memory
        self.position = 0
        self._settle()

    def __repr__(self) -> str:
        return f"<Replay {self.request.what}: at command {self.position} of {len(self)}>"

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
                engine = ENGINES[engine_number]
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
            if self[number].writes(space, offset, nbytes):
                self.goto(number + 1)
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
            if good[self.request.batches[place].issued[ENGINES[engine]][index]]:
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


def _ends_with(path: str, end: str) -> bool:
    """Whole names of files and folders."""
    return path == end or path.endswith(f"/{end}")
