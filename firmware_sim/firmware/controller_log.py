"""What the controller's own code does in memory that the engines use, and which code issued each command.

A native firmware writes both into a block that it shares with this process (fw_watch of
sdk/firmware/fw_message.h); of the controller's images the emulator notes the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from firmware_sim.firmware.source_lines import Line, SourceLines, of_the_user
from firmware_sim.isa.footprint import Space
from firmware_sim.processes.shared_memory import ARENA_CAPACITY

CHAIN_DEPTH = 16  # FW_FRAMES
CHAINS = 8192  # FW_CHAINS
ACCESSES = 4096  # FW_ACCESSES
MOST_ACCESSES = 1 << 16
"""How many accesses between two flushes are kept."""

ACCESS_DTYPE = np.dtype(
    [
        *((name, "<u8") for name in ("offset", "bytes")),
        *((name, "<u4") for name in ("bd", "gdma", "chain")),
        ("space", "u1"),
        ("write", "u1"),
        ("reserved", "u1", (2,)),
    ]
)
WATCH_DTYPE = np.dtype(
    [
        *((name, "<u4") for name in ("on", "access_count", "chain_count", "reserved")),
        ("accesses", ACCESS_DTYPE, (ACCESSES,)),
        ("chains", "<u8", (CHAINS, CHAIN_DEPTH)),
        ("bd_chain", "<u4", (ARENA_CAPACITY,)),
        ("gdma_chain", "<u4", (ARENA_CAPACITY,)),
    ]
)

Chain = tuple[int, ...]
"""Code addresses, innermost first: that behind a call of the kernel API or an access, and those behind the
calls of the functions around it."""

U32 = npt.NDArray[np.uint32]
IssuedBy = tuple[U32, U32]
"""Of BD and GDMA commands, the numbers of their chains."""


@dataclass(frozen=True)
class ControllerAccess:
    """One stretch of bytes that the controller's code read or wrote.

    offset: in its memory, in bytes (local: over all lanes); site: the code address behind the access;
    bd, gdma: how many commands of each engine had been issued and not handed over yet; callers: the code
    addresses behind the calls of the functions around it, innermost first.
    """

    space: Space
    offset: int
    nbytes: int
    write: bool
    site: int
    bd: int
    gdma: int
    callers: Chain = ()


class AccessLog:
    """A log of accesses in which adjacent ones of one place in the code are one; bd, gdma: how many commands
    are pending. The plain words for what sdk/firmware/fw_native_watch.c does.

    An access that joins an entry counts as of the time of the entry's first one. So a read may only join
    over bytes that nothing wrote since, and a write over bytes that nothing read since.
    """

    OPEN = 8
    """How many of the newest entries, one for each place, may still grow."""

    def __init__(self) -> None:
        self.bd = self.gdma = 0
        self.lost = False
        """Whether there was more since the last `take` than is kept."""
        self._entries: list[ControllerAccess] = []
        self._open: dict[tuple[Space, bool, int], int] = {}
        self._closed = {False: -1, True: -1}

    def clear(self) -> None:
        """Forget everything."""
        self.take()
        self.bd = self.gdma = 0

    def take(self) -> list[ControllerAccess]:
        """The entries since the last call, in order."""
        taken, self._entries = self._entries, []
        self._open.clear()
        self._closed = {False: -1, True: -1}
        self.lost = False
        return taken

    def grows(self, space: Space, offset: int, nbytes: int, write: bool, site: int) -> bool:
        """Whether an access joined an entry."""
        i = self._open.get((space, write, site))
        if i is None:
            return False
        own = self._entries[i]
        start, end = min(offset, own.offset), max(offset + nbytes, own.offset + own.nbytes)
        if (own.bd, own.gdma) != (self.bd, self.gdma) or end - start > own.nbytes + nbytes:
            return False
        if self._closed[not write] > i:
            return False
        for k in self._open.values():
            other = self._entries[k]
            touches = offset < other.offset + other.nbytes and other.offset < offset + nbytes
            if k > i and other.write != write and other.space is space and touches:
                return False
        self._entries[i] = replace(own, offset=start, nbytes=end - start)
        return True

    def add(self, space: Space, offset: int, nbytes: int, write: bool, chain: Chain) -> None:
        """One access; chain: its code address and those of the calls around it."""
        site, *callers = chain
        if self.grows(space, offset, nbytes, write, site):
            return
        if len(self._entries) == MOST_ACCESSES:
            self.lost = True
            return
        entry = ControllerAccess(space, offset, nbytes, write, site, self.bd, self.gdma, tuple(callers))
        self._entries.append(entry)
        key = (space, write, site)
        if key not in self._open and len(self._open) == self.OPEN:
            self._close(next(iter(self._open)))
        elif key in self._open:
            self._close(key)
        self._open[key] = len(self._entries) - 1

    def _close(self, key: tuple[Space, bool, int]) -> None:
        write = key[1]
        self._closed[write] = max(self._closed[write], self._open.pop(key))


class Frames:
    """Code addresses as lines of the user's C."""

    def __init__(self, lines: Callable[[], SourceLines], base: int = 0) -> None:
        """lines: gives the image's line table; base: where the image lies."""
        self._lines = lines
        self._base = base
        self._at = lru_cache(maxsize=1 << 14)(self._chain)

    def __call__(self, *addresses: int) -> tuple[Line, ...]:
        """The user's lines of a chain, innermost first, functions that the compiler put inside others
        included; empty where nothing is known."""
        return tuple(line for address in addresses if address for line in self._at(address))

    def _chain(self, address: int) -> tuple[Line, ...]:
        # a return address: the call is just before it
        return tuple(filter(of_the_user, self._lines().chain(address - self._base - 1)))


class WatchBlock:
    """The block that a native firmware writes into: who issued the commands in the arenas, and what the
    controller's code did since the last `take`."""

    def __init__(self) -> None:
        self._block = np.zeros(1, WATCH_DTYPE)
        self._taken: list[ControllerAccess] = []
        self._beyond = False
        self.lost = False
        """Whether the last `take` gave less than there was."""

    @property
    def address(self) -> int:
        """Where it lies."""
        return int(self._block.ctypes.data)

    def watch(self, on: bool) -> None:
        """Whether the firmware writes, from its next request on."""
        self._block["on"] = on
        self._block["access_count"] = 0  # chains the firmware itself forgets, when it begins
        self._taken.clear()
        self.lost = self._beyond = False

    def empty(self) -> None:
        """Move the log out of the block, which the firmware may fill again."""
        block = self._block[0]
        count = int(block["access_count"])
        if count == 0:
            return
        room = MOST_ACCESSES - len(self._taken)
        self._beyond |= count > room
        rows = block["accesses"][: min(count, room)]
        for offset, nbytes, bd, gdma, chain, space, write, _ in rows.tolist():
            site, *callers = self._addresses(chain) or (0,)
            self._taken.append(
                ControllerAccess(Space(space), offset, nbytes, bool(write), site, bd, gdma, tuple(callers))
            )
        block["access_count"] = 0

    def take(self) -> list[ControllerAccess]:
        """The accesses since the last call, in order."""
        self.empty()
        taken, self._taken = self._taken, []
        self.lost, self._beyond = self._beyond, False
        return taken

    def chain(self, engine_is_bd: bool, index: int) -> Chain:
        """Who issued a command that lies in an arena; empty when nobody knows."""
        block = self._block[0]
        return self._addresses(int(block["bd_chain" if engine_is_bd else "gdma_chain"][index]))

    def issued(self, bd_num: int, gdma_num: int) -> IssuedBy:
        """For the first commands in the arenas: which of `chains` each has, copied."""
        block = self._block[0]
        return block["bd_chain"][:bd_num].copy(), block["gdma_chain"][:gdma_num].copy()

    def chains(self) -> list[Chain]:
        """All of this request; the first is empty."""
        return [self._addresses(i) for i in range(int(self._block[0]["chain_count"]) + 1)]

    def _addresses(self, number: int) -> Chain:
        block = self._block[0]
        if not 0 < number <= int(block["chain_count"]):
            return ()
        return tuple(address for address in block["chains"][number].tolist() if address)
