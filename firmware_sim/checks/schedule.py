"""Other legal orders of a batch, and whether its results depend on the order.

Each engine works in its own order, so an order of both says how many BD commands come before each GDMA
command. Waits bound that number from both sides; both bounds rise from command to command, and every
sequence that rises between them is a legal order. At the upper bound BD is as early as it can be, which is
the order of replay; at the lower one GDMA is. Between these two every pair of commands without an order
changes places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from firmware_sim import chip
from firmware_sim.batch import Batch
from firmware_sim.checks.records import I64, WRITES, Record
from firmware_sim.checks.sequence import Sequence
from firmware_sim.errors import DeviceError
from firmware_sim.flush import flushing
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space, Tensor, address_text
from firmware_sim.memory import U8, Memory
from firmware_sim.queues import Segment
from firmware_sim.tpu import Tpu

MOST_BYTES = 1 << 30
"""Bytes that commands write between, in one memory, for which other orders are tried."""
_SEEDS = 2
_SEEN = (Space.DDR, Space.L2, Space.LOCAL)  # what the host sees first


@dataclass(frozen=True)
class Order:
    """name: as in messages; segments: the batch's commands in this order."""

    name: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Difference:
    """What ends differently in another order.

    space, offset: the first element, over all lanes in local memory; usual, other: its value in the order of
    replay and in the other one; nbytes: how many bytes differ in that memory; failed: what a command of the
    other order cannot do, then there is no element.
    """

    order: str
    space: Space = Space.DDR
    offset: int = 0
    usual: str = ""
    other: str = ""
    nbytes: int = 0
    failed: str = ""

    def text(self, place: str = "") -> str:
        """One sentence; place: the caller's name of the element, "output[3]"."""
        if self.failed:
            return f"in another legal order, {self.order}, a command fails: {self.failed}"
        where = address_text(self.space, self.offset)
        return (
            f"in another legal order, {self.order}, {f'{place} at {where}' if place else where} ends as "
            f"{self.other} instead of {self.usual}; {self.nbytes} bytes of {self.space.name} differ"
        )


@dataclass(frozen=True)
class Proof:
    """difference: the first found; tried: names of the orders; skipped: why none was tried."""

    difference: Difference | None = None
    tried: tuple[str, ...] = ()
    skipped: str = ""

    def text(self, place: str = "") -> str:
        """One sentence: what differs, that nothing does with this data, or why nobody knows."""
        if self.difference is not None:
            return self.difference.text(place)
        if self.skipped:
            return f"other legal orders were not tried: {self.skipped}"
        return f"with this data the results are the same in {len(self.tried)} other legal orders"


def bounds(batch: Batch) -> tuple[I64, I64]:
    """How many BD commands come before each GDMA command, int64[gdma]: at least, and at most."""
    bd, gdma = batch.waits[Engine.BD], batch.waits[Engine.GDMA]
    numbers = batch.first[Engine.GDMA] + 1 + np.arange(len(gdma))
    least = np.maximum(gdma - batch.first[Engine.BD], 0)
    return least.astype(np.int64), np.searchsorted(bd, numbers, side="left").astype(np.int64)


def segments_of(before: I64, bd: int) -> tuple[Segment, ...]:
    """An order as runs of one engine. before: BD commands before each GDMA command; bd: all of them."""
    found: list[Segment] = []
    done = begun = 0
    for i, count in enumerate(before.tolist()):
        if count > done:
            if i > begun:
                found.append((Engine.GDMA, begun, i))
            found.append((Engine.BD, done, count))
            done, begun = count, i
    if len(before) > begun:
        found.append((Engine.GDMA, begun, len(before)))
    if bd > done:
        found.append((Engine.BD, done, bd))
    return tuple(found)


def _random(least: I64, most: I64, seed: int) -> I64:
    """A rising sequence between both, at random: stretches of all lengths in which one engine leads."""
    random = np.random.default_rng(seed)
    stretch = np.repeat(random.random(len(least)), random.geometric(1 / (1 + seed % 7), len(least)))
    wished = least + (stretch[: len(least)] * (most - least + 1)).astype(np.int64)
    if seed % 2:
        return np.minimum.accumulate(wished[::-1])[::-1]
    return np.maximum.accumulate(wished)


def orders(batch: Batch, seeds: int = _SEEDS) -> Iterator[Order]:
    """Legal orders of a batch beside that of replay: GDMA first, then `seeds` random ones. None for a batch
    whose waits leave only one."""
    least, most = bounds(batch)
    if np.array_equal(least, most):
        return
    bd = len(batch.waits[Engine.BD])
    yield Order("GDMA first", segments_of(least, bd))
    for seed in range(seeds):
        yield Order(f"random order {seed}", segments_of(_random(least, most, seed), bd))


class _Written:
    """The memory between the first and the last byte that commands write, in pieces that can be kept."""

    def __init__(self, memory: Memory, records: tuple[Record, ...]) -> None:
        spans: dict[Space, list[tuple[int, int]]] = {space: [] for space in _SEEN}
        for record in {id(record): record for record in records}.values():
            for block in record.blocks:
                if block.access & WRITES:
                    spans[block.space].append((block.start, block.end))
        self.pieces: list[tuple[Space, int, U8]] = []
        """Space, where it begins (in each lane), and a view of it: in local memory [lanes, bytes]."""
        for space in _SEEN:
            for first, end in _joined(spans[space]):
                view = memory.local if space is Space.LOCAL else memory.flat(space)
                self.pieces.append((space, first, view[..., first:end]))

    def too_large(self) -> str:
        """Why it cannot be kept, or ""."""
        for space in _SEEN:
            nbytes = sum(view.size for where, _, view in self.pieces if where is space)
            if nbytes > MOST_BYTES:
                return f"commands write among {nbytes} bytes of {space.name}; at most {MOST_BYTES} are kept"
        return ""

    def kept(self) -> list[U8]:
        return [view.copy() for _, _, view in self.pieces]

    def put_back(self, kept: list[U8]) -> None:
        for (_, _, view), old in zip(self.pieces, kept, strict=True):
            np.copyto(view, old)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that touch or overlap become one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((first, end))
    return found


def _element(sequence: Sequence, space: Space, offset: int) -> tuple[int, int]:
    """Where the element with this byte begins, and its bytes: by the last command that writes it."""
    lane, within = divmod(offset, chip.LOCAL_BYTES) if space is Space.LOCAL else (0, offset)
    for record in reversed(sequence.records):
        for block in record.blocks:
            if not block.access & WRITES or block.space is not space:
                continue
            if space is Space.LOCAL and not block.lanes >> lane & 1:
                continue
            starts = block.starts()
            at = starts[(starts <= within) & (within < starts + block.run)]
            if len(at):
                operand = record.operands[block.operand]
                assert isinstance(operand, Tensor)
                return offset - (within - int(at[0])) % operand.itemsize, operand.itemsize
    return offset, 1  # between the bytes that are written: never different


def _value(flat: U8, offset: int, size: int) -> str:
    bits = int.from_bytes(flat[offset : offset + size].tobytes(), "little")
    if size != 4:
        return str(bits)
    return f"0x{bits:08x} ({float(np.uint32(bits).view(np.float32)):g})"


class _Trial:
    """Executes one batch in several orders, from the same memory."""

    def __init__(self, tpu: Tpu, batch: Batch, sequence: Sequence) -> None:
        self._tpu, self._batch, self._sequence = tpu, batch, sequence
        self.written = _Written(tpu.memory, sequence.records)

    def _run(self, segments: Iterable[Segment]) -> str:
        """Why it cannot be executed, or ""."""
        try:
            with np.errstate(all="ignore"), flushing():
                for engine, first, last in segments:
                    for index in range(first, last):
                        self._tpu.ready(self._batch, engine, index)()
        except (DeviceError, MemoryError) as error:
            return str(error)
        return ""

    def compare(self, tried: list[Order]) -> Proof:
        """The first order with other results. Memory is afterwards as it was before."""
        memory, names = self._tpu.memory, tuple(order.name for order in tried)
        before, filtered = self.written.kept(), memory.filtered
        try:
            if failed := self._run(self._batch.segments):
                return Proof(skipped=f"the usual one fails: {failed}")
            usual = self.written.kept()
            for order in tried:
                self.written.put_back(before)
                memory.filtered = filtered
                if failed := self._run(order.segments):
                    return Proof(Difference(order.name, failed=failed), names)
                if difference := self._difference(order, usual):
                    return Proof(difference, names)
            return Proof(tried=names)
        finally:
            self.written.put_back(before)
            memory.filtered = filtered

    def _difference(self, order: Order, usual: list[U8]) -> Difference | None:
        found: tuple[Space, int, int, U8, int] | None = None
        nbytes = 0
        for (space, first, view), old in zip(self.written.pieces, usual, strict=True):
            if found is not None and space is not found[0]:
                break  # the memories that the host sees first are compared first
            at = np.flatnonzero(view != old)
            nbytes += at.size
            if at.size and found is None:
                lane, within = divmod(int(at[0]), view.shape[-1])
                found = space, lane * chip.LOCAL_BYTES + first + within, lane, old, first
        if found is None:
            return None
        space, offset, lane, old, first = found
        offset, size = _element(self._sequence, space, offset)
        within = offset - lane * chip.LOCAL_BYTES
        row = old[lane] if space is Space.LOCAL else old
        was, now = _value(row, within - first, size), _value(self._tpu.memory.flat(space), offset, size)
        return Difference(order.name, space, offset, was, now, nbytes)


def prove(tpu: Tpu, batch: Batch, sequence: Sequence, seeds: int = _SEEDS) -> Proof:
    """Whether the results of a batch that is about to be executed depend on the order of its commands.
    sequence: of the batch. Memory is the same afterwards."""
    if len(sequence) < sum(map(len, batch.waits.values())):
        return Proof(skipped="a command of the batch cannot be executed")
    tried = list(orders(batch, seeds))
    if not tried:
        return Proof()
    trial = _Trial(tpu, batch, sequence)
    if too_large := trial.written.too_large():
        return Proof(skipped=too_large)
    return trial.compare(tried)
