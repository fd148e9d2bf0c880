"""What is said of a block that does not lie where it may: which rule, which object, by how many bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.layer_calls import LOCAL, LayerCall
from firmware_sim.checks.objects import Area, Objects
from firmware_sim.checks.records import READS, WRITES, Record, Runs, with_numbers
from firmware_sim.isa.footprint import Space, address_text

U64 = npt.NDArray[np.uint64]
_NEAR = 1 << 16
"""Bytes behind an object in which what nobody owns is still told as being behind it."""


def access_record(block: Runs) -> Record:
    """An access without a command, as a record of one block."""
    return with_numbers("", (), (block,))


def lanes_of(areas: Sequence[Area], start: int, end: int) -> U64:
    """Of each byte of local memory in [start, end), in which lanes it lies in an area."""
    found = np.zeros(end - start, np.uint64)
    for area in areas:
        low, high = max(area.start, start) - start, min(area.end, end) - start
        if low < high:
            found[low:high] |= np.uint64(area.lanes)
    return found


def explained(
    record: Record,
    number: int,
    areas: Sequence[Area],
    objects: Objects,
    call: LayerCall | None,
    by: Issued,
) -> Finding:
    """The finding for block `number` of a command that may use `areas`; call: the layer's, of a net."""
    block = record.blocks[number]
    operand = record.operands[block.operand].name if record.operands else ""
    if call is not None and not by.layer:
        by = Issued(by.engine, by.id, by.name, by.frames, call.label, by.node, by.tile, by.group)
    here = [area for area in areas if area.space is block.space]
    told = _Local(block, here, call) if block.space is Space.LOCAL else _System(block, here, objects, call)
    rule, what, tensor = told.said()
    return Finding(
        rule,
        what,
        by=by,
        operand=operand,
        tensor=tensor,
        address=told.address,
        lanes=told.lanes,
        nbytes=told.nbytes,
    )


class _Told:
    """What both kinds of memory share. at: the first byte that is wrong."""

    lanes: tuple[int, ...] = ()

    def __init__(self, block: Runs, areas: Sequence[Area], call: LayerCall | None) -> None:
        self.block = block
        self.call = call
        self.areas = areas
        self.does = {READS: "reads", WRITES: "writes"}.get(block.access, "updates")
        self.writes = bool(block.access & WRITES)
        self.at, self.nbytes = block.start, 0

    @property
    def address(self) -> str:
        """The first byte that is wrong, in words."""
        lane = self.lanes[0] if self.lanes else 0
        return address_text(
            self.block.space, self.at + (lane * chip.LOCAL_BYTES if self.block.space is Space.LOCAL else 0)
        )

    def named(self, area: Area) -> str:
        """An object with its size."""
        sized = str(area.nbytes) in area.name
        return area.name if sized else f"{area.name} ({area.nbytes} bytes)"

    def no_right(self, area: Area) -> tuple[str, str, str]:
        """All of it lies in something that it may not use so."""
        if area.rights == READS and self.writes:
            return "memory.read_only", f"{self.does} {area.name}, which is for reading only", area.name
        return "memory.foreign", f"{self.does} {area.name}, which is not its own", area.name

    def beyond(self, area: Area, how: str, where: str = "") -> tuple[str, str, str]:
        """It begins in an object and leaves it."""
        too_much = self.writes and area.role == "output"
        rule = "memory.too_much" if too_much else "memory.beyond"
        return rule, f"{self.does} {how} {self.named(area)}{where}", area.name


class _System(_Told):
    """A block in DDR or L2, which has to lie in one object."""

    def __init__(self, block: Runs, areas: Sequence[Area], objects: Objects, call: LayerCall | None) -> None:
        super().__init__(block, areas, call)
        self._objects = objects

    def said(self) -> tuple[str, str, str]:
        """Rule, sentence, and the object's name."""
        block = self.block
        end = block.start + 1 if block.maybe else block.end
        within = [area for area in self.areas if area.start <= block.start and end <= area.end]
        if within:
            self.nbytes = block.run * len(block.starts())
            return self.no_right(max(within, key=lambda area: area.rights))
        if holding := [area for area in self.areas if area.holds(block.start)]:
            area = max(holding, key=lambda area: (not block.access & ~area.rights, area.end))
            if block.access & ~area.rights:
                self.nbytes = block.run * len(block.starts())
                return self.no_right(area)
            self._wrong(area)
            return self.beyond(area, f"{self._bytes} beyond the end of", self._row(area))
        later = [area for area in self.areas if block.start < area.start < block.end]
        if later:
            area = min(later, key=lambda area: area.start)
            self._wrong(area)
            return self.beyond(area, f"{area.start - block.start} bytes before the begin of")
        self.nbytes = block.run * len(block.starts())
        return self._nobodys()

    @property
    def _bytes(self) -> str:
        return f"{self.nbytes} byte{'s' if self.nbytes != 1 else ''}"

    def _wrong(self, area: Area) -> None:
        """Counts the bytes outside the object, and finds the first of them."""
        starts = self.block.starts()
        ends = starts + self.block.run
        inside = np.clip(np.minimum(ends, area.end) - np.maximum(starts, area.start), 0, None)
        outside = self.block.run - inside
        self.nbytes = int(outside.sum())
        k = int(np.nonzero(outside)[0][0])
        first = int(starts[k])
        self.at = first if not area.start <= first < area.end else area.end

    def _row(self, area: Area) -> str:
        starts = self.block.starts()
        leave = np.nonzero(starts + self.block.run > area.end)[0]
        if len(starts) == 1 or not len(leave):
            return ""
        return f", from row {int(leave[0])} of {len(starts)} on ({self.block.run} bytes each)"

    def _nobodys(self) -> tuple[str, str, str]:
        at, call = self.block.start, self.call
        ddr = self.block.space is Space.DDR
        if ddr and (freed := self._objects.freed_at(at)) is not None:
            return "memory.freed", f"{self.does} {freed.name}, which was freed", freed.name
        before = max((area for area in self.areas if area.end <= at), key=lambda a: a.end, default=None)
        near = before is not None and at - before.end < _NEAR
        if call is not None:
            if near and before is not None and before.role != "tables":
                text = f"{at - before.end} bytes behind the end of {self.named(before)}"
                return (
                    "memory.foreign",
                    f"{self.does} memory that the layer was not given, {text}",
                    before.name,
                )
            other = self._objects.at(at) if ddr else None
            name = f", in {other.name}" if other is not None else ""
            return "memory.foreign", f"{self.does} memory that the layer was not given{name}", ""
        if near and before is not None:
            text = f"{self.does} memory that nobody allocated, {at - before.end} bytes behind the end of"
            return "memory.outside", f"{text} {self.named(before)}", before.name
        return "memory.outside", f"{self.does} memory that nobody allocated", ""


class _Local(_Told):
    """A block in local memory, of a layer's local function."""

    def said(self) -> tuple[str, str, str]:
        """Rule, sentence, and the object's name."""
        block = self.block
        permit = [area for area in self.areas if not block.access & ~area.rights]
        mine = lanes_of(permit, block.start, block.end)
        lanes = 0
        for start in block.starts().tolist():
            part = mine[start - block.start : start - block.start + block.run]
            missing = np.uint64(block.lanes) & ~part
            wrong = np.nonzero(missing)[0]
            if len(wrong):
                if not self.nbytes:
                    self.at = start + int(wrong[0])
                lanes |= int(np.bitwise_or.reduce(missing))
                self.nbytes += (
                    int(np.bitwise_count(missing).sum())
                    if hasattr(np, "bitwise_count")
                    else sum(int(bits).bit_count() for bits in missing[wrong])
                )
        self.lanes = tuple(lane for lane in range(chip.NPU_NUM) if lanes >> lane & 1)
        begins = [area for area in permit if area.holds(block.start) and area.lanes & lanes]
        here = [area for area in self.areas if area.holds(self.at) and area.lanes & lanes]
        own = next((area for area in begins if not self.writes or area.rights & WRITES), None)
        no_buffer = self.call is not None and self.call.kind == LOCAL and not self.call.buffer[1]
        if own is not None:
            return self.beyond(own, f"{self.nbytes} bytes beyond the end of")
        inside = [area for area in here if area.start <= block.start and block.end <= area.end]
        if inside and self.writes:
            return self.no_right(inside[0])
        if no_buffer and block.start == 0:
            text = f"{self.does} a work buffer at offset 0, but the layer asks for none"
            return "memory.no_buffer", text, here[0].name if here else ""
        if here and self.writes:
            return self.no_right(here[0])
        before = max(
            (area for area in self.areas if area.end <= self.at), key=lambda area: area.end, default=None
        )
        if before is not None and self.at - before.end < _NEAR:
            text = f"{self.at - before.end} bytes behind the end of {self.named(before)}"
            return (
                "memory.foreign",
                f"{self.does} local memory that the layer was not given, {text}",
                before.name,
            )
        return "memory.foreign", f"{self.does} local memory that the layer was not given", ""
