"""Which bytes of the memories something has written."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.checks.records import I64, READS, WRITES, Record
from firmware_sim.checks.sequence import Sequence
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Space, Tensor
from firmware_sim.l2_tables import l2_tables

Flags = npt.NDArray[np.bool_]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

LINE, PAGE, WORD = 128, 4096, 64  # bytes; see loops/check_init.c
_ONE = np.uint64(1)
_MANY_HOLES = 1 << 22  # unwritten ranges that are told apart: in 4N, one for each word of a tensor
_MANY = 1 << 20  # bytes that are not looked at one by one while the loops are being made


def _bytes(at: I64, size: int) -> I64:
    places: I64 = at[..., None] + np.arange(size)
    return places


def _reserved(nbytes: int) -> U8:
    """Zeros that take memory when they are touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8)


@dataclass(frozen=True)
class Lacking:
    """What an operand has that nothing wrote. marks: bool[n * parts, c, h, w], elements, or parts of them,
    with such a byte; at: the first byte's place; nbytes, lanes: how many there are, and where, elements that
    a stride of 0 repeats once."""

    marks: Flags
    at: int
    nbytes: int
    lanes: tuple[int, ...]


class Shadow:
    """One bit for every byte, in local memory one for each lane.

    A byte's place is its offset in its memory, in local memory lane * LOCAL_BYTES + offset in the lane.
    """

    def __init__(self, ddr_bytes: int = chip.DDR_BYTES) -> None:
        self._lines: U64 = np.zeros(chip.LOCAL_BYTES // LINE, np.uint64)
        self._bytes = _reserved(8 * chip.LOCAL_BYTES).view(np.uint64)
        self._dirty: U8 = np.zeros(chip.LOCAL_BYTES // LINE, np.uint8)
        sizes = {Space.DDR: ddr_bytes, Space.L2: chip.L2_BYTES}
        self._pages = {space: _reserved(size // PAGE) for space, size in sizes.items()}
        self._bits = {space: _reserved(size // 8).view(np.uint64) for space, size in sizes.items()}
        self._arrays = (
            *(self._lines, self._bytes, self._dirty),
            *(array for space in sizes for array in (self._pages[space], self._bits[space])),
        )
        self._host_l2: list[tuple[int, int]] = [(chip.L2_TABLE_OFFSET, len(l2_tables()))]
        self.writes_of_l2 = 0
        """By the host: what is written when a request begins differs where this does."""
        self.restart()

    def restart(self) -> None:
        """Nothing is in local memory, and in L2 what the host wrote and the tables."""
        dirty = np.nonzero(self._dirty)[0]
        if len(dirty):
            self._bytes.reshape(-1, LINE)[dirty] = 0
            self._dirty[dirty] = 0
        self._lines[:] = 0
        self._pages[Space.L2][:] = 0
        self._bits[Space.L2][:] = 0
        for start, nbytes in self._host_l2:
            self.write(Space.L2, start, nbytes)

    def host_l2(self, start: int, nbytes: int) -> None:
        """The host wrote these bytes of L2; they stay written."""
        self._host_l2.append((start, nbytes))
        self.writes_of_l2 += 1
        self.write(Space.L2, start, nbytes)

    # ---- records of commands ----

    def first_unwritten(self, sequence: Sequence, first: int, end: int, carried: I64) -> int:
        """Go through commands from `first` up to `end`: what they write counts as written, but for what
        element-wise ones make of unwritten bytes: of these `carried`, int64[commands, 4], gets the operand,
        counted from 1, and of what it lacks the first byte's place, how many bytes, and their lanes. The
        first other command that reads what nothing wrote (it has written nothing yet), or `end`."""
        if not native.ready():
            if sequence.nbytes() > _MANY and native.wait():
                return self.first_unwritten(sequence, first, end, carried)
            return self.plainly(sequence.records[:end], first)
        return native.bound("check_init", sequence.address[:end], first, carried, *self._arrays)()

    def plainly(self, records: tuple[Record, ...], first: int) -> int:
        """The same, byte by byte: the reference, and what runs where loops do not."""
        for k in range(first, len(records)):
            blocks = [(block, block.places()) for block in records[k].blocks]
            for block, at in blocks:
                if block.access & READS and not block.maybe and not self.written(block.space, at).all():
                    return k
            for block, at in blocks:
                if block.access & WRITES:
                    self.mark(block.space, at)
        return len(records)

    # ---- ranges and single bytes, plainly ----

    def write(self, space: Space, start: int, nbytes: int) -> None:
        """A range is written; of local memory within one lane."""
        if nbytes < PAGE or space is Space.LOCAL:
            self.mark(space, np.arange(start, start + nbytes))
            return
        first, last = -(-start // PAGE) * PAGE, (start + nbytes) // PAGE * PAGE
        self.mark(space, np.r_[start : min(first, start + nbytes), max(last, start) : start + nbytes])
        self._pages[space][first // PAGE : max(first, last) // PAGE] = 1

    def is_written(self, space: Space, start: int, nbytes: int) -> bool:
        """Whether every byte of a range is written; of local memory within one lane."""
        return nbytes <= 0 or bool(self.written(space, np.arange(start, start + nbytes)).all())

    def written(self, space: Space, at: I64, size: int | None = None) -> Flags:
        """For each place whether its byte is written; with size, for each byte of an element there:
        [..., size]."""
        if not native.ready():
            return self.written_plainly(space, at if size is None else _bytes(at, size))
        places, found = np.ascontiguousarray(at.reshape(-1)), np.zeros((at.size, size or 1), np.bool_)
        native.bound("check_init_written", places, found, int(space), *self._arrays)()
        return found.reshape(at.shape if size is None else (*at.shape, size))

    def lacking(
        self, tensor: Tensor, parts: int, unused: int = 0, places: I64 | None = None
    ) -> Lacking | None:
        """What nothing wrote of an operand, or None. parts: of an element that are looked at apart; unused:
        the bytes of the last n's elements, at their end, that do not count; places: of the elements, where
        others than the tensor's own."""
        if not native.ready() or places is not None or tensor.h_shift or tensor.w_shift:
            if places is None:
                places = tensor.indices() * tensor.itemsize
            return self.lacking_plainly(tensor, parts, unused, places)
        size, (n, *shape) = tensor.itemsize, tensor.shape
        steps = [stride * size for stride in tensor.strides]
        first = tensor.offset // size * size
        within = first % chip.LOCAL_BYTES if tensor.space is Space.LOCAL else first
        given = int(tensor.space), within, tensor.lane, n, *shape, *steps, size, parts, size - unused
        marks, told = np.zeros((n * parts, *shape), np.bool_), np.zeros(3, np.int64)
        if not native.bound("check_init_lacking", np.array(given, np.int64), marks, told, *self._arrays)():
            return None
        at, nbytes, lanes = told.tolist()
        return Lacking(marks, at, nbytes, tuple(lane for lane in range(chip.NPU_NUM) if lanes >> lane & 1))

    def unwritten(self, start: int, nbytes: int, most: int = _MANY_HOLES) -> I64:
        """Ranges of DDR within a range that nothing has written, int64[k, 2] of start and end: at most so
        many, of which the last one then goes on to the last byte that nothing wrote."""
        if not native.ready():
            return self.unwritten_plainly(start, nbytes, most)
        found = np.zeros((most, 2), np.int64)
        count = native.bound("check_init_unwritten", found, start, start + nbytes, *self._arrays)()
        ranges: I64 = found[:count].copy()
        return ranges

    def are_written(self, ranges: I64) -> bool:
        """Whether every byte of these ranges of DDR is written, int64[k, 2] of start and end."""
        if not native.ready():
            return all(self.is_written(Space.DDR, start, end - start) for start, end in ranges.tolist())
        return bool(native.bound("check_init_ranges", ranges, 0, *self._arrays)())

    def write_ranges(self, ranges: I64) -> None:
        """These ranges of DDR are written."""
        if native.ready():
            native.bound("check_init_ranges", ranges, 1, *self._arrays)()
            return
        for start, end in ranges.tolist():
            self.write(Space.DDR, start, end - start)

    def write_blocks(self, record: Record) -> None:
        """What a command writes is written."""
        if native.ready():
            native.bound("check_init_write", record.numbers, *self._arrays)()
            return
        for block in record.blocks:
            if block.access & WRITES:
                self.mark(block.space, block.places())

    def mark(self, space: Space, at: I64) -> None:
        """The bytes at these places are written."""
        self._note(space, at, 1, written=True)

    def clear(self, space: Space, at: I64, size: int = 1) -> None:
        """Nothing has written the elements of so many bytes at these places."""
        self._note(space, at, size, written=False)

    def _note(self, space: Space, at: I64, size: int, *, written: bool) -> None:
        if native.ready():
            places = np.ascontiguousarray(at.reshape(-1))
            native.bound("check_init_mark", places, size, written, int(space), *self._arrays)()
        else:
            self.note_plainly(space, _bytes(at, size), written=written)

    # ---- the same without loops: their reference ----

    def written_plainly(self, space: Space, at: I64) -> Flags:
        """As `written`."""
        if space is Space.LOCAL:
            lane, within = np.divmod(at, chip.LOCAL_BYTES)
            lanes = self._lines[within // LINE] | self._bytes[within]
            local: Flags = (lanes >> lane.astype(np.uint64) & _ONE).astype(bool)
            return local
        page = self._pages[space][at // PAGE] != 0
        bit = self._bits[space][at // WORD] >> (at % WORD).astype(np.uint64) & _ONE
        flags: Flags = page | bit.astype(bool)
        return flags

    def unwritten_plainly(self, start: int, nbytes: int, most: int) -> I64:
        """As `unwritten`."""
        found: list[list[int]] = []
        for low in range(start, start + nbytes, _MANY):
            at = np.arange(low, min(low + _MANY, start + nbytes))
            at = at[~self.written_plainly(Space.DDR, at)]
            for part in np.split(at, np.nonzero(np.diff(at) != 1)[0] + 1):
                if not len(part):
                    continue
                if found and (found[-1][1] == part[0] or len(found) == most):
                    found[-1][1] = int(part[-1]) + 1
                else:
                    found.append([int(part[0]), int(part[-1]) + 1])
        return np.array(found, np.int64).reshape(-1, 2)

    def note_plainly(self, space: Space, at: I64, *, written: bool) -> None:
        """As `mark` and `clear`."""
        if space is Space.LOCAL:
            lane, within = np.divmod(at, chip.LOCAL_BYTES)
            lines = np.unique(within // LINE)
            self._bytes.reshape(-1, LINE)[lines] |= self._lines[lines, None]
            self._dirty[lines] = 1
            self._lines[lines] = 0
            words, places, bits = self._bytes, within, _ONE << lane.astype(np.uint64)
        else:
            pages = np.unique(at // PAGE)
            whole = pages[self._pages[space][pages] != 0]
            self._bits[space].reshape(-1, PAGE // WORD)[whole] = ~np.uint64(0)
            self._pages[space][whole] = 0
            words, places, bits = self._bits[space], at // WORD, _ONE << (at % WORD).astype(np.uint64)
        if written:
            np.bitwise_or.at(words, places, bits)
        else:
            np.bitwise_and.at(words, places, ~bits)

    def lacking_plainly(self, tensor: Tensor, parts: int, unused: int, places: I64) -> Lacking | None:
        """As `lacking`."""
        missing = ~self.written(tensor.space, places, tensor.itemsize)
        if unused:
            missing[-1, ..., -unused:] = False
        if not missing.any():
            return None
        apart = np.asarray(missing.reshape(*tensor.shape, parts, -1).any(-1))
        marks = np.moveaxis(apart, -1, 1).reshape(-1, *tensor.shape[1:])
        element, byte = divmod(int(missing.argmax()), tensor.itemsize)
        at = int(places.flat[element]) + byte
        # Elements that a stride of 0 repeats lie in one place, of channels in one of each lane.
        local = tensor.space is Space.LOCAL
        kept = [slice(None) if stride else slice(1) for stride in tensor.strides]
        if local:
            kept[1] = slice(None) if tensor.strides[1] else slice(chip.NPU_NUM)
        missing = missing[tuple(kept)]
        channels = np.nonzero(missing.any((0, 2, 3, 4)))[0]
        lanes = np.unique((tensor.lane + channels) % chip.NPU_NUM).tolist() if local else ()
        return Lacking(marks, at, int(np.count_nonzero(missing)), tuple(lanes))

    def forget(self) -> None:
        """Commands ran that nobody watched: what is in DDR counts as written."""
        self._pages[Space.DDR][:] = 1

    def clear_range(self, start: int, nbytes: int) -> None:
        """Nothing has written these bytes of DDR: they were freed, or are handed out anew."""
        end = start + nbytes
        first, last = -(-start // PAGE) * PAGE, end // PAGE * PAGE
        if first >= last:
            self.clear(Space.DDR, np.arange(start, end))
            return
        self.clear(Space.DDR, np.arange(start, first))
        self.clear(Space.DDR, np.arange(last, end))
        self._pages[Space.DDR][first // PAGE : last // PAGE] = 0
        self._bits[Space.DDR][first // WORD : last // WORD] = 0
