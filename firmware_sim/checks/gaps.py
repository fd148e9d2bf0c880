"""Buffers that a free kernel should have written: what nothing has written of them when the host reads it.

Whether a kernel has to write a buffer nobody says; that the host reads it does. So what is left unwritten
when a kernel has returned is kept with who wrote beside it, and told when the host reads there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.objects import Area, Objects
from firmware_sim.checks.records import WRITES, Record
from firmware_sim.checks.sequence import Sequence
from firmware_sim.checks.shadow import Shadow
from firmware_sim.checks.stored import Stored, without
from firmware_sim.isa.footprint import Space, address_text


class Gaps:
    """What of the host's buffers nothing has written."""

    def __init__(self, objects: Objects, shadow: Shadow) -> None:
        self._objects = objects
        self._shadow = shadow
        self._writer: dict[int, Issued] = {}
        self._left: dict[int, Stored | None] = {}  # by the buffer's start; None: all of it is written
        self._targets: dict[int, tuple[int, ...]] = {}

    def begin(self) -> None:
        """A request begins."""
        self._writer.clear()
        self._targets.clear()
        for start in self._objects.take_fresh():
            self._left.pop(start, None)

    def commands(self, commands: Sequence, issued: Callable[[int], Issued]) -> None:
        """Commands of a free kernel: the newest one that writes each buffer is kept."""
        distinct, last = np.unique(commands.address[::-1], return_index=True)
        newest: dict[int, int] = {}
        for address, k in zip(distinct.tolist(), (len(commands) - 1 - last).tolist(), strict=True):
            for start in self._written_by(address, commands.records[k]):
                newest[start] = max(k, newest.get(start, -1))
        for start, k in newest.items():
            if start not in self._left or self._left[start] is not None:
                self._writer[start] = issued(k)

    def accessed(self, start: int) -> None:
        """The controller's code wrote there."""
        if (area := self._objects.at(start)) is not None:
            self._left.pop(area.start, None)

    def wrote(self, start: int, nbytes: int) -> None:
        """The host wrote there: no launch leaves that out any more."""
        for area, one in self._left.items():
            if one is not None and one.overlaps(start, nbytes):
                rest = one.outside(start, nbytes)
                self._left[area] = rest if len(rest.ranges) else None

    def end(self, kernel: Callable[[], tuple[Frame, ...]], doubtful: list[Stored]) -> list[Stored]:
        """A free kernel has returned: what is left unwritten. kernel: the line of its function; doubtful:
        what was written and depends on unwritten memory, which is not meant."""
        for area in self._objects.areas:
            if area.start not in self._left or area.start in self._writer:
                self._left[area.start] = self._unwritten(area, kernel, doubtful)
        return self.left()

    def left(self) -> list[Stored]:
        """What is left unwritten, as far as is known."""
        known = {area.start for area in self._objects.areas}
        return [one for start, one in self._left.items() if one is not None and start in known]

    def _written_by(self, address: int, record: Record) -> tuple[int, ...]:
        found = self._targets.get(address)
        if found is None:
            blocks = (b for b in record.blocks if b.space is Space.DDR and b.access & WRITES)
            areas = (self._objects.at(block.start) for block in blocks)
            found = self._targets[address] = tuple(area.start for area in areas if area is not None)
        return found

    def _unwritten(
        self, area: Area, kernel: Callable[[], tuple[Frame, ...]], doubtful: list[Stored]
    ) -> Stored | None:
        ranges = self._shadow.unwritten(area.start, area.nbytes)
        for one in doubtful:
            if one.overlaps(area.start, area.nbytes):
                ranges = without(ranges, one.ranges)
        if not len(ranges):
            return None
        missing = int((ranges[:, 1] - ranges[:, 0]).sum())
        all_of_it = missing == area.nbytes
        text = (
            "is never written" if all_of_it else f"is not written in part: {missing} of {area.nbytes} bytes"
        )
        finding = Finding(
            "memory.not_written",
            f"{area.name} {text}, and the host reads it",
            by=self._writer.get(area.start) or Issued("", 0, "", kernel()),
            tensor=area.name,
            address=address_text(Space.DDR, int(ranges[0, 0])),
            nbytes=missing,
        )
        return Stored(ranges, finding)
