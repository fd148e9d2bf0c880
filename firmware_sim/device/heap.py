"""The allocator of device memory: first fit over a sorted list of free blocks."""

from __future__ import annotations

import bisect

from firmware_sim.errors import DeviceError


class Heap:
    """Addresses [start, start + size) handed out in multiples of `align` bytes.

    DeviceError: no block is large enough; nothing is allocated at the address to free.
    """

    def __init__(self, start: int, size: int, align: int) -> None:
        self.start = start
        self.size = size
        self._free = [(start, size)]  # sorted, never adjacent
        self._used: dict[int, int] = {}
        self._align = align

    @property
    def used(self) -> int:
        """Bytes handed out, rounded up to the alignment."""
        return sum(self._used.values())

    def malloc(self, nbytes: int) -> int:
        """The address of a new block of at least nbytes."""
        if nbytes <= 0:
            raise DeviceError(f"cannot allocate {nbytes} bytes of device memory")
        size = -(-nbytes // self._align) * self._align
        for i, (at, room) in enumerate(self._free):
            if room >= size:
                if room == size:
                    del self._free[i]
                else:
                    self._free[i] = (at + size, room - size)
                self._used[at] = size
                return at
        total = sum(room for _, room in self._free)
        largest = max((room for _, room in self._free), default=0)
        raise DeviceError(
            f"out of device memory: {nbytes} bytes asked for, {total} free, {largest} in one piece",
            hint="free buffers that are no longer used",
        )

    def free(self, address: int) -> int:
        """Give back the block that starts at `address`; returns its bytes."""
        size = self._used.pop(address, None)
        if size is None:
            raise DeviceError(
                f"no block of device memory starts at {address:#x}",
                hint="it was freed already, or never came from malloc",
            )
        i = bisect.bisect(self._free, (address, 0))
        start, end = address, address + size
        if i < len(self._free) and self._free[i][0] == end:
            end += self._free.pop(i)[1]
        if i > 0 and sum(self._free[i - 1]) == start:
            i -= 1
            start = self._free.pop(i)[0]
        self._free.insert(i, (start, end - start))
        return size
