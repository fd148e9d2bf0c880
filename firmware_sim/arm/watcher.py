"""Who issues commands, and what kernels' C does in memory that the engines use, seen by the emulator.

Nothing is compiled into the images for it. That a command is issued the emulator sees by the store of its
site; the stack then tells the calls around. Accesses are those to DDR above the firmware's own memory, to
local memory and to L2. Those of the firmware's own code count where a kernel called it, as it calls memcpy:
under the kernel's line.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from unicorn import arm_const as arm
from unicorn.unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, UC_MEM_WRITE
from unicorn.unicorn_py3.unicorn import HOOK_MEM_ACCESS_CFUNC, uccallback

from firmware_sim.arm import hooks, layout
from firmware_sim.chip import (
    DDR_WINDOW_BYTES,
    DTCM_BASE,
    L2_BASE,
    L2_BYTES,
    LOCAL_BASE,
    STATIC_CONTEXT_OFFSET,
)
from firmware_sim.firmware.controller_log import (
    CHAIN_DEPTH,
    CHAINS,
    AccessLog,
    Chain,
    ControllerAccess,
    IssuedBy,
)
from firmware_sim.isa.footprint import Space
from firmware_sim.processes.shared_memory import ARENA_CAPACITY, SharedMemory

_PAIR = struct.Struct("<II")
_DEEPEST = 64  # frames of the firmware between its API and where it is
_SITE_BYTES = 8


class Watcher:
    """What one booted machine is asked to note.

    own_code: start and end of the firmware's own code; returns: whether an address is one that a call
    returns to.
    """

    def __init__(
        self, uc: Uc, memory: SharedMemory, own_code: tuple[int, int], returns: Callable[[int], bool]
    ) -> None:
        self._own = own_code
        self._returns = lru_cache(maxsize=1 << 14)(returns)  # code does not change
        self._stack = memoryview(memory.dtcm)  # type: ignore[arg-type]
        self._numbers: dict[Chain, int] = {(): 0}
        self._chains: list[Chain] = [()]
        self._issued = [np.zeros(ARENA_CAPACITY, np.uint32) for _ in range(2)]
        self.log = AccessLog()
        self._uc = uc
        both = UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE
        sites = layout.SITES + 2 * ARENA_CAPACITY * _SITE_BYTES
        self._hooks = [uc.hook_add(UC_HOOK_MEM_WRITE, self._on_site, None, layout.SITES, sites - 1)]
        self._seen = np.zeros(hooks.SEEN_WORDS, np.uint64)
        self._on_new = uccallback(uc, HOOK_MEM_ACCESS_CFUNC)(self._on_access)
        self._seen[hooks.SEEN_FUNCTION] = hooks.address_of(self._on_new)
        self._windows = (
            (Space.DDR, layout.WINDOW, STATIC_CONTEXT_OFFSET, DDR_WINDOW_BYTES),
            (Space.LOCAL, LOCAL_BASE, 0, memory.local.size),
            (Space.L2, L2_BASE, 0, L2_BYTES),
        )
        for _, base, start, nbytes in self._windows:
            own = base + start, base + nbytes - 1
            self._hooks.append(hooks.add(uc, both, hooks.on_watched(), self._seen, *own))

    def end(self) -> None:
        """Watch no longer."""
        for hook in self._hooks:
            self._uc.hook_del(hook)
        self._hooks.clear()

    def begin(self) -> None:
        """A request begins: its chains are counted anew."""
        self._numbers, self._chains = {(): 0}, [()]
        self.log.clear()
        self._nothing_seen()

    def taken(self) -> list[ControllerAccess]:
        """The log of accesses since the last call, in order."""
        self._nothing_seen()
        return self.log.take()

    def _nothing_seen(self) -> None:
        """An access may tell something again that it told before."""
        self._seen[hooks.SEEN_NUMBER] += 1

    def handed_over(self) -> None:
        """A flush begins: the commands that were pending no longer are, once it has ended."""
        self.log.bd = self.log.gdma = 0

    def chain(self, engine_is_bd: bool, index: int) -> Chain:
        """Who issued a command in the arena."""
        return self._chains[int(self._issued[0 if engine_is_bd else 1][index])]

    def issued(self, bd_num: int, gdma_num: int) -> IssuedBy:
        """Which of `chains` each of the first commands in the arenas has, copied."""
        return self._issued[0][:bd_num].copy(), self._issued[1][:gdma_num].copy()

    @property
    def chains(self) -> list[Chain]:
        """All of this request; the first is empty."""
        return list(self._chains)

    def _on_site(self, uc: Uc, kind: int, address: int, size: int, site: int, data: object) -> None:
        gdma, at = divmod(address - layout.SITES, ARENA_CAPACITY * _SITE_BYTES)
        index, rest = divmod(at, _SITE_BYTES)
        if rest:  # the upper half, which is 0
            return
        if gdma:
            self.log.gdma = index + 1
        else:
            self.log.bd = index + 1
        self._nothing_seen()
        site &= 0xFFFF_FFFF
        chain: Chain = ()
        if site:
            around = list(self._around(uc))
            chain = (site, *(around[around.index(site) + 1 :] if site in around else ()))[:CHAIN_DEPTH]
        number = self._numbers.get(chain)
        if number is None:
            if len(self._chains) == CHAINS:
                chain = ()
            number = self._numbers.setdefault(chain, len(self._chains))
            if number == len(self._chains):
                self._chains.append(chain)
        self._issued[gdma][index] = number

    def _on_access(self, uc: Uc, kind: int, address: int, size: int, value: int, data: object) -> None:
        """An access to bytes that, as far as is known, had no such access before."""
        pc = int(uc.reg_read(arm.UC_ARM_REG_PC))
        low, high = self._own
        space, base = next((s, b) for s, b, _, nbytes in self._windows if b <= address < b + nbytes)
        write = kind == UC_MEM_WRITE
        if not low <= pc < high:
            chain: Chain = (pc + 4,)
            if self.log.grows(space, address - base, size, write, pc + 4):
                return
            chain = (pc + 4, *self._around(uc))
        else:
            around = list(self._around(uc))
            lr = int(uc.reg_read(arm.UC_ARM_REG_LR))
            # A function that has called none may read before it makes its frame: a kernel called it.
            if not low <= lr < high and self._returns(lr) and lr not in around:
                around.insert(0, lr)
            outside = next((i for i, at in enumerate(around) if not low <= at < high), None)
            if outside is None:  # a kernel's to the same bytes is to be told
                self._nothing_seen()
                return
            chain = tuple(around[outside:])
        self.log.add(space, address - base, size, write, chain[:CHAIN_DEPTH])

    def _around(self, uc: Uc) -> Iterator[int]:
        """The return addresses of the frames on the stack, innermost first; 0 ends their chain (crt.S)."""
        frame = int(uc.reg_read(arm.UC_ARM_REG_R11))
        stack, below = self._stack, 0
        for _ in range(_DEEPEST):
            at = frame - DTCM_BASE
            if at % 4 or not below <= at <= stack.nbytes - _PAIR.size:
                return
            frame, address = _PAIR.unpack_from(stack, at)
            if self._returns(address):
                yield address
            below = at + 4
