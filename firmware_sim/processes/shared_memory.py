"""The chip's memories in one memfd, mapped by the device process and by the program that uses it.

    offset      bytes    what
    0           32 MiB   local memory, 512 KiB per NPU
    +guard      4 MiB    L2
    +guard      512 KiB  DTCM
    +guard      8 MiB    arena of BD descriptors, 128 bytes each
    +guard      8 MiB    arena of GDMA descriptors
    +guard      2 MiB    who issued the descriptors: code addresses and addresses of layer names, of each
                         first BD, then GDMA
    +guard      12 GiB   DDR
    +guard

The file is sparse: only pages that were written take memory. The device process makes the guards
(2 MiB each) inaccessible, so that native code running over the end of one memory faults there. A memfd
has no name in the file system: it goes with its last process.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import (
    DDR_BYTES,
    DDR_WINDOW_BYTES,
    DESCRIPTOR_BYTES,
    DTCM_BYTES,
    L2_BYTES,
    LOCAL_BYTES,
    NPU_NUM,
)

U8 = npt.NDArray[np.uint8]

# Above the 65535 ids of one command group: while recording, ids run out first.
ARENA_CAPACITY = 65536
_GUARD = 2 << 20
_SITE_BYTES = 8

_SIZES = {
    "local": NPU_NUM * LOCAL_BYTES,
    "l2": L2_BYTES,
    "dtcm": DTCM_BYTES,
    "bd": ARENA_CAPACITY * DESCRIPTOR_BYTES,
    "gdma": ARENA_CAPACITY * DESCRIPTOR_BYTES,
    "sites": 4 * ARENA_CAPACITY * _SITE_BYTES,
    "ddr": DDR_BYTES,
}


def _layout() -> tuple[dict[str, int], list[tuple[int, int]], int]:
    """Offset of each part, the (start, bytes) of each guard, the file's size."""
    at = 0
    starts: dict[str, int] = {}
    guards: list[tuple[int, int]] = []
    for name, size in _SIZES.items():
        starts[name] = at
        end = at + size
        at = -(-end // _GUARD) * _GUARD + _GUARD
        guards.append((end, at - end))
    return starts, guards, at


def _protect(address: int, size: int, rights: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_int(rights)) != 0:
        raise OSError(ctypes.get_errno(), "mprotect of a guard area")


def _extents(fd: int) -> Iterator[tuple[int, int]]:
    """Start and end of what a sparse file holds."""
    at = 0
    while True:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nothing from there on
                raise
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at


class SharedMemory:
    """All memories of one chip as flat uint8 arrays: ddr, local, l2, dtcm, and the arenas.

    bd, gdma: uint32[ARENA_CAPACITY, 32]. bd_site, gdma_site, bd_layer, gdma_layer: uint64[ARENA_CAPACITY].
    The mapping lives as long as any array made from it.
    """

    window_bytes = DDR_WINDOW_BYTES  # of `controller_window`, and of the guard behind it
    guard_bytes = _GUARD

    def __init__(self, fd: int) -> None:
        starts, guards, size = _layout()
        self.fd = fd
        self.offsets = starts
        """Where each part begins in the file."""
        self.guards = guards
        """Start and size of what `protect_guards` makes inaccessible, that behind DDR last."""
        self._map = mmap.mmap(fd, size)
        self._map.madvise(mmap.MADV_DONTDUMP)
        whole: U8 = np.frombuffer(self._map, np.uint8)

        def part(name: str) -> U8:
            return whole[starts[name] : starts[name] + _SIZES[name]]

        self.local = part("local")
        self.l2 = part("l2")
        self.dtcm = part("dtcm")
        self.ddr = part("ddr")
        self.bd = part("bd").view(np.uint32).reshape(ARENA_CAPACITY, -1)
        self.gdma = part("gdma").view(np.uint32).reshape(ARENA_CAPACITY, -1)
        sites = part("sites").view(np.uint64).reshape(4, ARENA_CAPACITY)
        self.bd_site, self.gdma_site, self.bd_layer, self.gdma_layer = sites
        self._base = whole.ctypes.data

    @classmethod
    def create(cls, name: str) -> SharedMemory:
        """New memories, all zero. OSError when the system refuses the address space."""
        fd = os.memfd_create(name)
        try:
            os.ftruncate(fd, _layout()[2])
            return cls(fd)
        except BaseException:
            os.close(fd)
            raise

    def protect_guards(self) -> None:
        """Make the space between the memories inaccessible in this process."""
        for start, size in self.guards:
            _protect(self._base + start, size)

    def controller_window(self, reserved: int = 0) -> U8:
        """DDR as the controller's pointers reach it: its first DDR_WINDOW_BYTES, mapped again with a guard
        behind them, so that a pointer beyond faults although there is more DDR. reserved: bytes at its start
        that are for reading only."""
        window = mmap.mmap(self.fd, DDR_WINDOW_BYTES + _GUARD, offset=self.offsets["ddr"])
        window.madvise(mmap.MADV_DONTDUMP)
        view: U8 = np.frombuffer(window, np.uint8)[:DDR_WINDOW_BYTES]
        _protect(view.ctypes.data + DDR_WINDOW_BYTES, _GUARD)
        _protect(view.ctypes.data, reserved, mmap.PROT_READ)
        return view

    def ddr_file(self, offset: int) -> tuple[str, int]:
        """A path by which other processes of this user open the file while this one has it, and where in the
        file a byte of DDR lies."""
        return f"/proc/{os.getpid()}/fd/{self.fd}", self.offsets["ddr"] + offset

    def discard_ddr(self, offset: int, size: int) -> None:
        """Give whole pages of DDR back to the system; they read as zero afterwards."""
        page = mmap.PAGESIZE
        first = -(-offset // page) * page
        last = (offset + size) // page * page
        if last > first:
            self._map.madvise(mmap.MADV_REMOVE, self.offsets["ddr"] + first, last - first)

    def copied(self) -> SharedMemory:
        """New memories with the same content; what nobody wrote takes no room in them either."""
        copy = SharedMemory.create("a copy")
        source, target = np.frombuffer(self._map, np.uint8), np.frombuffer(copy._map, np.uint8)
        for start, end in _extents(self.fd):
            target[start:end] = source[start:end]
        return copy

    def become(self, other: SharedMemory) -> None:
        """Take the content of another one; arrays of this one then show it."""
        for start, end in list(_extents(self.fd)):
            self._map.madvise(mmap.MADV_REMOVE, start, end - start)
        source, target = np.frombuffer(other._map, np.uint8), np.frombuffer(self._map, np.uint8)
        for start, end in _extents(other.fd):
            target[start:end] = source[start:end]

    def close(self) -> None:
        """Close the file; arrays handed out stay valid."""
        os.close(self.fd)
