"""What the host did with device memory since the last request, for the checks in the device process."""

from __future__ import annotations

import enum


class Deed(enum.IntEnum):
    """What became of a range of DDR."""

    WROTE = 0
    HANDED_OUT = 1
    GAVE_BACK = 2


class Ledger:
    """Ranges of DDR in the order in which something became of them; addresses are absolute."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, int, int]] = []

    def note(self, deed: Deed, start: int, nbytes: int) -> None:
        """One more; a write that goes on where the newest one ended makes that longer."""
        if nbytes <= 0:
            return
        if self._lines:
            last, at, size = self._lines[-1]
            if last == deed == Deed.WROTE and at <= start <= at + size:
                self._lines[-1] = (last, at, max(size, start + nbytes - at))
                return
        self._lines.append((int(deed), start, nbytes))

    def take(self) -> list[tuple[int, int, int]]:
        """All lines, for the header of a request; none are left."""
        lines, self._lines = self._lines, []
        return lines
