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
        self._live: dict[int, int] = {}  # what is handed out now

    def note(self, deed: Deed, start: int, nbytes: int) -> None:
        """One more; a write that goes on where the newest one ended makes that longer."""
        if nbytes <= 0:
            return
        if deed is Deed.HANDED_OUT:
            self._live[start] = nbytes
        elif deed is Deed.GAVE_BACK:
            self._live.pop(start, None)
        if self._lines:
            last, at, size = self._lines[-1]
            if last == deed == Deed.WROTE and at <= start <= at + size:
                self._lines[-1] = (last, at, max(size, start + nbytes - at))
                return
        self._lines.append((int(deed), start, nbytes))

    def again(self) -> None:
        """A new device process holds the memories: nobody knows any more what was written in a buffer, so all
        of it counts as written."""
        each = ((int(deed), *one) for one in self._live.items() for deed in (Deed.HANDED_OUT, Deed.WROTE))
        self._lines = list(each)

    def take(self) -> list[tuple[int, int, int]]:
        """All lines, for the header of a request; none are left."""
        lines, self._lines = self._lines, []
        return lines
