"""The controller: an emulated ARM926EJ-S with the chip's memories, run from interrupt to interrupt."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from unicorn import (
    UC_ARCH_ARM,
    UC_HOOK_BLOCK,
    UC_HOOK_INTR,
    UC_HOOK_MEM_INVALID,
    UC_HOOK_MEM_READ,
    UC_HOOK_MEM_WRITE,
    UC_MODE_ARM,
    UC_PROT_ALL,
    UC_PROT_EXEC,
    UC_PROT_NONE,
    UC_PROT_READ,
    UC_PROT_WRITE,
    Uc,
    UcError,
)
from unicorn import arm_const as arm
from unicorn import unicorn_const as const

from firmware_sim.arm import hooks, layout
from firmware_sim.arm.images import Images
from firmware_sim.arm.watcher import Watcher
from firmware_sim.chip import (
    DDR_WINDOW_BYTES,
    DTCM_BASE,
    DTCM_BYTES,
    ITCM_BASE,
    ITCM_BYTES,
    L2_BASE,
    LOCAL_BASE,
)
from firmware_sim.processes.process_child import FRAMES
from firmware_sim.processes.shared_memory import SharedMemory

if TYPE_CHECKING:
    from firmware_sim.arm.gdb_server import GdbServer

_PAGE = 0x1000
_TRANSLATIONS = 64 << 20  # bytes for translated code; it begins again when they are full
_STACK_TOP = DTCM_BASE + 0x1_7C00  # __stack_top of sdk/arm/firmware.ld
_NEVER = 0xFFFF_FFFF  # emu_start's end: no instruction starts there
# undefined instructions of sdk/arm/crt.S, sdk/libc/stdlib.c and sdk/firmware/fw_port.c
_MARKED = {
    0xE7F0DBF0: "integer division by zero",
    0xE7F0ABF0: "abort or failed assertion",
    0xE7F0CBF0: "memory was written beyond the end of what malloc gave",
    0xE7F09BF0: "a local array was written beyond its end",
    0xE7F0EBF0: "exit was called, and the controller has nothing to return to",
}
_CODE_START = 0x1000  # in ITCM: before it there are only the vectors
_SCANNED = 512  # words of the stack that are looked at for return addresses

_BELOW_STACK = 1 << 20  # bytes
_RED = 0x1000  # bytes below the stack pointer that a call may touch
_OVERFLOW = "below the stack: stack overflow"
_OWN_MEMORY = "where the firmware's own memory is"

_KINDS = {
    const.UC_MEM_READ_UNMAPPED: "read of",
    const.UC_MEM_READ_PROT: "read of",
    const.UC_MEM_WRITE_UNMAPPED: "write to",
    const.UC_MEM_WRITE_PROT: "write to",
    const.UC_MEM_FETCH_UNMAPPED: "jump to",
    const.UC_MEM_FETCH_PROT: "jump to",
}
_EXCEPTIONS = {
    1: "undefined instruction",
    2: "software interrupt",
    3: "prefetch abort",
    4: "data abort",
    6: "interrupt",
    7: "fast interrupt",
}
# exception numbers of unicorn's interrupt hook, as QEMU has them
_INTERRUPTS = {**_EXCEPTIONS, 7: "breakpoint"}


@dataclass(frozen=True)
class Fault(Exception):
    """The controller cannot go on. cause: for people; frames: return addresses, innermost first, the first
    that of the fault itself plus 1 (as in process.Crash)."""

    cause: str
    frames: tuple[int, ...]


class Machine:
    """One controller with its memories.

    activity_page: the page that the link block lies in, shared with the parent process; frames_address: the
    word in it that gets the newest block's address + 1.
    """

    def __init__(self, memory: SharedMemory, activity_page: int, frames_address: int) -> None:
        self._memory = memory
        self._page = activity_page
        self._itcm = mmap.mmap(-1, ITCM_BYTES)
        self._itcm_bytes = np.frombuffer(self._itcm, np.uint8)
        self._registers = mmap.mmap(-1, 2 * _PAGE)
        registers = np.frombuffer(self._registers, np.uint8)
        self.gdma = registers[: layout.ENGINE_DTYPE.itemsize].view(layout.ENGINE_DTYPE)[0]
        self.bd = registers[_PAGE : _PAGE + layout.ENGINE_DTYPE.itemsize].view(layout.ENGINE_DTYPE)[0]
        offset = layout.LINK % _PAGE
        block = (ctypes.c_uint8 * _PAGE).from_address(activity_page)
        page = np.ctypeslib.as_array(block)
        links = page[offset : offset + layout.LINK_DTYPE.itemsize].view(layout.LINK_DTYPE)
        self.link = links[0]
        self.window = memory.controller_window()
        ring = layout.RING - layout.WINDOW
        self.ring = self.window[ring : ring + layout.RING_DTYPE.itemsize].view(layout.RING_DTYPE).reshape(())
        self._counters = np.zeros(hooks.WORDS, np.uint64)
        self._counters[hooks.PC_POINTER] = frames_address
        self._counters[hooks.ASIDE_POINTER] = links["aside"].ctypes.data
        self._newest = (ctypes.c_uint64 * FRAMES).from_address(frames_address)
        self._stop = hooks.stop_on_abort()
        self._code: list[tuple[int, int]] = []
        self._invalid: tuple[int, int, int] | None = None
        self._interrupt: int | None = None
        self._uc: Uc | None = None
        self._pc = 0
        self._watching = False
        self.gdb: GdbServer | None = None
        self.watcher: Watcher | None = None
        """While somebody wants to know, once the images have booted."""

    def watch(self, on: bool) -> None:
        """Whether the watcher notes who issues commands, and kernels' accesses, from now on."""
        self._watching = on
        if self.watcher is not None and not on:
            self.watcher.end()
            self.watcher = None
        own = int(self.link["own_start"]), int(self.link["own_end"])
        if self.watcher is None and on and self._uc is not None and own[1] > own[0]:
            self.watcher = Watcher(self._uc, self._memory, own, self._returns)

    @property
    def instructions(self) -> int:
        """How many the controller has run since it was made, but for those that work on messages."""
        return int(self._counters[hooks.BYTES]) // 4

    def load(self, images: Images) -> None:
        """Reset: fresh memories of the firmware, the images in place, the program counter at the vector.

        What belongs to kernels (their part of DTCM, L2, local memory, DDR beyond the firmware's) stays.
        """
        self._itcm_bytes[:] = 0
        self._itcm_bytes[: len(images.tcm)] = np.frombuffer(images.tcm, np.uint8)
        self.ring[()] = np.zeros((), layout.RING_DTYPE)
        self.window[: len(images.ddr)] = np.frombuffer(images.ddr, np.uint8)
        for block in (self.link, self.gdma, self.bd):
            for name in block.dtype.names or ():
                block[name] = 0
        self._code = [(_CODE_START, len(images.tcm)), (layout.WINDOW, layout.WINDOW + len(images.ddr))]
        self._counters[hooks.OWN_BYTES] = 0
        # A new machine: the translations of the one before may be of another program.
        self.watcher = None
        if self._uc is not None:
            # Its hooks hold it and it holds them: its memory would stay until Python looks for such cycles.
            self._uc = None
            gc.collect()
        self._uc = self._new()
        self._pc = ITCM_BASE

    def _new(self) -> Uc:
        uc = Uc(UC_ARCH_ARM, UC_MODE_ARM)
        uc.ctl_set_tcg_buffer_size(_TRANSLATIONS)
        uc.ctl_set_cpu_model(arm.UC_CPU_ARM_926)
        m = self._memory
        data = UC_PROT_READ | UC_PROT_WRITE
        itcm = self._itcm_bytes.ctypes.data
        registers = np.frombuffer(self._registers, np.uint8).ctypes.data
        window = self.window.ctypes.data
        code = layout.CODE_BYTES
        guard = layout.ARGUMENTS + layout.ARGUMENTS_BYTES - layout.WINDOW
        behind = guard + layout.GUARD_BYTES
        for base, size, rights, address in (
            (ITCM_BASE, _PAGE, UC_PROT_EXEC, itcm),
            (ITCM_BASE + _PAGE, ITCM_BYTES - _PAGE, UC_PROT_READ | UC_PROT_EXEC, itcm + _PAGE),
            (DTCM_BASE, DTCM_BYTES, data, m.dtcm.ctypes.data),
            (LOCAL_BASE, m.local.size, data, m.local.ctypes.data),
            (L2_BASE, m.l2.size, data, m.l2.ctypes.data),
            (layout.GDMA_REGS, 2 * _PAGE, data, registers),
            (layout.LINK // _PAGE * _PAGE, _PAGE, data, self._page),
            (layout.WINDOW, code, UC_PROT_ALL, window),
            (layout.WINDOW + code, guard - code, data, window + code),
            (layout.WINDOW + behind, DDR_WINDOW_BYTES - behind, data, window + behind),
        ):
            uc.mem_map_ptr(base, size, rights, address)
        on_block, on_access = hooks.addresses()
        hooks.add(uc, UC_HOOK_BLOCK, on_block, self._counters)
        hooks.add(uc, UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, on_access, self._counters)
        uc.hook_add(UC_HOOK_MEM_INVALID, self._on_invalid)
        uc.hook_add(UC_HOOK_INTR, self._on_interrupt)
        return uc

    def protect(self) -> None:
        """After boot: a jump through a NULL pointer is a fault (it would be a reset on the chip), and so are
        writes to the code in DDR and writes of others where only the firmware's own code writes."""
        assert self._uc is not None
        code_end = int(self.link["code_end"])
        if layout.WINDOW < code_end <= layout.WINDOW + layout.CODE_BYTES and code_end % _PAGE == 0:
            self._uc.mem_protect(layout.WINDOW, code_end - layout.WINDOW, UC_PROT_READ | UC_PROT_EXEC)
        own = int(self.link["own_start"]), int(self.link["own_end"])
        self._counters[hooks.CODE_START], self._counters[hooks.CODE_BYTES] = own[0], max(0, own[1] - own[0])
        self._counters[hooks.OWN_START] = layout.RING
        self._counters[hooks.OWN_BYTES] = layout.SCRATCH - layout.RING
        self._uc.mem_protect(ITCM_BASE, _PAGE, UC_PROT_NONE)
        self._uc.ctl_remove_cache(ITCM_BASE, ITCM_BASE + _PAGE)
        self.watch(self._watching)

    def _on_invalid(self, uc: Uc, kind: int, address: int, size: int, value: int, data: object) -> bool:
        self._invalid = (kind, address, size)
        return False

    def _on_interrupt(self, uc: Uc, number: int, data: object) -> None:
        self._interrupt = number
        uc.emu_stop()

    def run(self) -> int:
        """Raise the interrupt and run until the controller waits again: LINK_* of the link block.

        The caller serves the command and sets link["command"] to LINK_NONE. Raises Fault.
        """
        uc = self._uc
        assert uc is not None
        self._invalid = self._interrupt = None
        self._counters[hooks.BAD_SIZE] = 0
        while True:
            try:
                if self.gdb is None:
                    uc.emu_start(self._pc, _NEVER)
                else:
                    self.gdb.run(uc, self._pc)
            except UcError as error:
                if self.gdb is not None:
                    self.gdb.show_fault(uc)
                raise self._fault(uc, str(error)) from None
            if self._stop.value:
                self._end()
            if self.gdb is not None and (self._counters[hooks.BAD_SIZE] or self._interrupt is not None):
                self.gdb.show_fault(uc)
            if self._counters[hooks.BAD_SIZE]:
                size, address = int(self._counters[hooks.BAD_SIZE]), int(self._counters[hooks.BAD_ADDRESS])
                if address % min(size, 4):
                    raise self._fault(uc, f"alignment fault: {size} bytes at {address:#x}")
                raise self._fault(uc, f"data abort: write to {address:#x}, {_OWN_MEMORY}")
            if self._interrupt is not None:
                raise self._fault(uc, "")
            self._pc = uc.reg_read(arm.UC_ARM_REG_PC)
            command = int(self.link["command"])
            if command == layout.LINK_FAULT:
                raise self._noted_fault()
            if command != layout.LINK_NONE:
                self._newest[0] = 0  # the controller is where it should be
                return command

    # ---- faults ----

    def _end(self) -> NoReturn:
        """Note where the controller is, and end the process: its parent has asked for it."""
        assert self._uc is not None
        pc, sp, lr = _where(self._uc)
        for i, frame in enumerate(self._frames(pc, lr, sp)):
            self._newest[i] = frame
        os._exit(1)

    def _fault(self, uc: Uc, text: str) -> Fault:
        pc, sp, lr = _where(uc)
        word = self._word(pc)
        if self._invalid is not None:
            kind, address, _ = self._invalid
            cause = f"{_KINDS.get(kind, 'access to')} {address:#x}"
            if kind in (const.UC_MEM_FETCH_UNMAPPED, const.UC_MEM_FETCH_PROT):
                cause, pc = f"prefetch abort: {cause}", 0
            elif address < _PAGE:
                cause = f"data abort: {cause}, a NULL pointer"
            elif 0 <= address - layout.ARGUMENTS - layout.ARGUMENTS_BYTES < layout.GUARD_BYTES:
                cause = f"data abort: {cause}, behind the arguments that were sent"
            elif layout.WINDOW <= address < layout.WINDOW + layout.CODE_BYTES:
                cause = f"data abort: {cause}, {_OWN_MEMORY}"
            elif DTCM_BASE - _BELOW_STACK <= address < DTCM_BASE:
                index = address + _RED < sp
                why = "far below the local variables, as by a negative index" if index else _OVERFLOW
                cause = f"data abort: {cause}, {why}"
            else:
                cause = f"data abort: {cause}, where no memory is that may be used so"
        elif word in _MARKED:
            cause, pc = _MARKED[word], 0  # the caller is of interest
        elif self._interrupt is not None:
            cause = _INTERRUPTS.get(self._interrupt, f"exception {self._interrupt}")
        elif "INSN_INVALID" in text or "EXCEPTION" in text:
            cause = "undefined instruction" + (f" {word:08x}" if word is not None else "")
        else:
            cause = text
        return Fault(cause, self._frames(pc, lr, sp))

    def _noted_fault(self) -> Fault:
        """What the firmware's own exception handler wrote."""
        link = self.link
        number = int(link["fault"])
        cause = _EXCEPTIONS.get(number, f"exception {number}")
        if number == 4:
            cause += f" at {int(link['fault_address']):#x}"
        return Fault(cause, self._frames(int(link["fault_pc"]), int(link["fault_lr"]), int(link["fault_sp"])))

    def _frames(self, pc: int, lr: int, sp: int) -> tuple[int, ...]:
        """The fault, the caller, and the functions around it: by the chain of frames, and where it is damaged
        what on the stack looks like a return address."""
        found = [pc + 1] if self._is_code(pc) else []
        if self._returns(lr):
            found.append(lr)
        assert self._uc is not None
        frame = int(self._uc.reg_read(arm.UC_ARM_REG_R11))
        while frame != 0 and len(found) < FRAMES:  # 0: crt.S's, before the first function
            if (pair := self._stack_words(frame, 2)) is None or frame < sp:
                words = self._stack_words(sp, _SCANNED) or []
                found += [word for word in words if word != lr and self._returns(word)]
                break
            sp, (frame, address) = frame + 4, pair
            if self._returns(address) and address != lr:
                found.append(address)
        return tuple(found[:FRAMES])

    def _stack_words(self, address: int, most: int) -> list[int] | None:
        """Words from an address of the stack to its end, at most so many; None for another address."""
        start, end = address - DTCM_BASE, _STACK_TOP - DTCM_BASE
        if address % 4 != 0 or not 0 <= start <= end - 8:
            return None
        words: list[int] = self._memory.dtcm[start : min(end, start + 4 * most)].view(np.uint32).tolist()
        return words

    def _is_code(self, address: int) -> bool:
        return address % 4 == 0 and any(low <= address < high for low, high in self._code)

    def _returns(self, address: int) -> bool:
        """Whether the instruction before it is a call: BL, or BLX to a register."""
        word = self._word(address - 4) if self._is_code(address) else None
        return word is not None and (word >> 24 & 0xF == 0xB or word & 0x0FFFFFF0 == 0x012FFF30)

    def _word(self, address: int) -> int | None:
        if not self._is_code(address):
            return None
        in_window = address >= layout.WINDOW
        image = self.window if in_window else self._itcm_bytes
        at = address - (layout.WINDOW if in_window else ITCM_BASE)
        (word,) = struct.unpack("<I", image[at : at + 4].tobytes())
        return int(word)

    def text(self, address: int, limit: int = 512) -> str:
        """A NUL-terminated text in DDR, DTCM or ITCM; empty for any other address."""
        for base, data in (
            (layout.WINDOW, self.window),
            (DTCM_BASE, self._memory.dtcm),
            (ITCM_BASE, self._itcm_bytes),
        ):
            if base <= address < base + data.size:
                raw = data[address - base : address - base + limit].tobytes()
                return re.split(rb"\0", raw, maxsplit=1)[0].decode(errors="replace")
        return ""


def _where(uc: Uc) -> tuple[int, int, int]:
    """The program counter, the stack pointer and the return address."""
    pc, sp, lr = (int(uc.reg_read(r)) for r in (arm.UC_ARM_REG_PC, arm.UC_ARM_REG_SP, arm.UC_ARM_REG_LR))
    return pc, sp, lr
