"""gdb and the emulated controller: the side of gdb's remote serial protocol that a target has.

Packets are those of gdb's manual, "Remote Protocol". The emulator stands still while gdb is asked what to do,
in the thread that runs it; while it runs it looks every POLL seconds whether gdb says something. Breakpoints
are hooks of the emulator, so no byte of the images changes. The target is one processor with one thread.
"""

from __future__ import annotations

import os
import re
import select
import socket
from collections.abc import Callable

from unicorn import UC_HOOK_CODE, UC_QUERY_TIMEOUT, Uc, UcError
from unicorn import arm_const as arm

from firmware_sim.chip import ITCM_BASE
from firmware_sim.errors import DeviceError
from firmware_sim.processes.debugger import LEFT

POLL = 0.1  # s
CONNECT_LIMIT = 600.0  # s for gdb to connect, perhaps by hand
_PACKET = 0x4000  # bytes of a packet at most, both ways
_NEVER = 0xFFFF_FFFF  # emu_start's end: no instruction starts there
_INTERRUPT, _TRAP, _FAULT = 2, 5, 11  # signals, as gdb numbers them

_REGISTERS = (
    *(getattr(arm, f"UC_ARM_REG_R{i}") for i in range(13)),
    *(arm.UC_ARM_REG_SP, arm.UC_ARM_REG_LR, arm.UC_ARM_REG_PC, arm.UC_ARM_REG_CPSR),
)
_NAMES = (*(f"r{i}" for i in range(13)), "sp", "lr", "pc", "cpsr")
_KINDS = {"sp": ' type="data_ptr"', "pc": ' type="code_ptr"'}
_TARGET = (
    '<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target version="1.0">'
    '<architecture>armv5te</architecture><feature name="org.gnu.gdb.arm.core">'
    + "".join(f'<reg name="{name}" bitsize="32"{_KINDS.get(name, "")}/>' for name in _NAMES)
    + "</feature></target>"
)


class GdbServer:
    """listener: the number of a listening socket, which becomes this object's. It accepts one connection, and
    when that ends the controller runs on without gdb. waits: called when it begins to wait for that."""

    def __init__(self, listener: int, waits: Callable[[], None] = lambda: None) -> None:
        self._waits = waits
        self._listener: socket.socket | None = socket.socket(fileno=listener)
        self._socket: socket.socket | None = None
        self._bytes = b""
        self._acknowledges = True
        self._wanted: set[int] = set()  # addresses of breakpoints
        self._hooks: dict[int, int] = {}  # those that are in place -> the emulator's number
        self._everywhere: int | None = None  # the number of the hook for steps
        self._uc: Uc | None = None  # where they are in place
        self._hit = False
        self._passing: int | None = None  # where execution begins that has stopped there before
        self._stepping = False

    # ---- running ----

    def run(self, uc: Uc, pc: int) -> None:
        """Run from pc as `uc.emu_start(pc, ...)` does, until something else than gdb stops the controller.
        Raises UcError as that does, and DeviceError when gdb does not connect."""
        if self._listener is not None and pc != ITCM_BASE:  # once the firmware has booted
            self._connect(self._listener)
            self._listener = None
            uc.reg_write(arm.UC_ARM_REG_PC, pc)
            self._serve(uc, _TRAP)
            pc = uc.reg_read(arm.UC_ARM_REG_PC)
            self._passing = pc
        while self._socket is not None:
            self._place(uc)
            self._hit = False
            uc.emu_start(pc, _NEVER, timeout=int(POLL * 1e6))
            self._passing = None
            if self._hit:
                self._stop(uc, _TRAP)
            elif self._asked():
                self._stop(uc, _INTERRUPT)
            elif not uc.query(UC_QUERY_TIMEOUT):
                return
            pc = uc.reg_read(arm.UC_ARM_REG_PC)
        uc.emu_start(pc, _NEVER)

    def show_fault(self, uc: Uc) -> None:
        """The controller cannot go on: gdb may look at where it is before that becomes an error."""
        if self._socket is not None:
            self._stop(uc, _FAULT)

    def _place(self, uc: Uc) -> None:
        """Put the breakpoints that gdb wants into this emulator."""
        if self._uc is not uc:
            self._hooks, self._everywhere, self._uc = {}, None, uc
        changed = self._wanted ^ self._hooks.keys()
        for address in self._hooks.keys() - self._wanted:
            uc.hook_del(self._hooks.pop(address))
        for address in self._wanted - self._hooks.keys():
            self._hooks[address] = uc.hook_add(UC_HOOK_CODE, self._on_breakpoint, None, address, address)
        toggled = self._stepping != (self._everywhere is not None)
        if self._stepping and self._everywhere is None:
            self._everywhere = uc.hook_add(UC_HOOK_CODE, self._on_step)
        elif self._everywhere is not None and not self._stepping:
            uc.hook_del(self._everywhere)
            self._everywhere = None
        if changed or toggled:
            uc.ctl_flush_tb()  # code that was translated before calls the hooks that there were then

    def _on_breakpoint(self, uc: Uc, address: int, size: int, data: object) -> None:
        if address != self._passing and not self._stepping:
            self._hit = True
            uc.emu_stop()  # before the instruction
        elif not self._stepping:
            self._passing = None

    def _on_step(self, uc: Uc, address: int, size: int, data: object) -> None:
        if self._passing is None:
            self._hit = True
            uc.emu_stop()
        self._passing = None

    def _asked(self) -> bool:
        """Whether gdb wants the controller to stop, or has said anything else."""
        if self._socket is not None and select.select([self._socket], [], [], 0)[0]:
            self._receive()
        interrupted = b"\x03" in self._bytes
        self._bytes = self._bytes.replace(b"\x03", b"")
        return interrupted or b"#" in self._bytes

    # ---- the connection ----

    def _connect(self, listener: socket.socket) -> None:
        self._waits()
        listener.settimeout(CONNECT_LIMIT)
        try:
            self._socket, _ = listener.accept()
        except TimeoutError:
            raise DeviceError(
                f"no gdb connected within {CONNECT_LIMIT:.0f} s", hint="run it without --gdb-port"
            ) from None
        finally:
            listener.close()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def leave(self) -> None:
        """Part from gdb: nothing stops the controller any more."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._stepping = False
        self._wanted.clear()
        if self._uc is not None:
            self._place(self._uc)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except OSError:
            data = b""
        self._bytes += data
        if not data:
            self.leave()

    def _packet(self) -> str | None:
        """The next packet, acknowledged; None when gdb is gone."""
        while self._socket is not None:
            found = re.search(rb"\$([^#]*)#([0-9a-fA-F]{2})", self._bytes)
            if found is None:
                self._receive()
                continue
            self._bytes = self._bytes[found.end() :]
            good = sum(found[1]) & 0xFF == int(found[2], 16)
            if self._acknowledges:
                self._send(b"+" if good else b"-")
            if good:
                return found[1].decode("latin-1")
        return None

    def _answer(self, text: str) -> None:
        data = text.encode("latin-1")
        self._send(b"$%s#%02x" % (data, sum(data) & 0xFF))

    def _send(self, data: bytes) -> None:
        if self._socket is not None:
            try:
                self._socket.sendall(data)
            except OSError:
                self.leave()

    # ---- standing still ----

    def _stop(self, uc: Uc, signal: int) -> None:
        self._answer(f"S{signal:02x}")
        self._serve(uc, signal)
        self._passing = uc.reg_read(arm.UC_ARM_REG_PC)

    def _serve(self, uc: Uc, signal: int) -> None:
        """Answer gdb until it wants the controller to go on, or is gone."""
        self._stepping = False
        while (packet := self._packet()) is not None:
            if packet == "?":
                self._answer(f"S{signal:02x}")
            elif match := re.fullmatch(r"(?:vCont;)?([cCsS])(?:[0-9a-fA-F]{2})?(?::.*|;.*)?", packet):
                self._stepping = match[1] in "sS"
                return
            elif packet.startswith(("k", "vKill")):
                os._exit(LEFT)
            elif packet == "D" or packet.startswith("D;"):
                self._answer("OK")
                self.leave()
                return
            else:
                self._answer(self._reply(uc, packet))
            if packet == "QStartNoAckMode":
                self._acknowledges = False

    def _reply(self, uc: Uc, packet: str) -> str:
        """What is said to a question; empty, as the protocol wants it, for one that is not known."""
        if packet[:1] in ("H", "T"):  # which thread: there is one
            return "OK"
        if (answer := _FIXED.get(packet.partition(":")[0])) is not None:
            return answer
        if match := re.fullmatch(r"qXfer:features:read:target\.xml:([0-9a-f]+),([0-9a-f]+)", packet):
            at, size = (int(number, 16) for number in match.groups())
            part = _TARGET[at : at + min(size, _PACKET - 8)]
            return ("m" if at + len(part) < len(_TARGET) else "l") + part
        for kind, call in _CALLS.items():
            if packet[0] == kind:
                try:
                    return call(uc, packet[1:])
                except (ValueError, IndexError, UcError):
                    return "E01"
        if match := re.fullmatch(r"([zZ])[01],([0-9a-f]+),[0-9a-f]+(?:;.*)?", packet):
            change = self._wanted.add if match[1] == "Z" else self._wanted.discard
            change(int(match[2], 16))
            return "OK"
        return ""


_FIXED = {
    "qSupported": f"PacketSize={_PACKET:x};qXfer:features:read+;QStartNoAckMode+;vContSupported+",
    "QStartNoAckMode": "OK",
    "vCont?": "vCont;c;C;s;S",
    "qC": "QC1",
    "qfThreadInfo": "m1",
    "qsThreadInfo": "l",
    "qAttached": "0",
}


def _all_registers(uc: Uc, rest: str) -> str:
    return "".join(_hex(uc.reg_read(register)) for register in _REGISTERS)


def _set_all(uc: Uc, rest: str) -> str:
    words = [rest[i : i + 8] for i in range(0, len(rest), 8)]
    for register, word in zip(_REGISTERS, words, strict=True):
        uc.reg_write(register, _number(word))
    return "OK"


def _one_register(uc: Uc, rest: str) -> str:
    return _hex(uc.reg_read(_REGISTERS[int(rest, 16)]))


def _set_one(uc: Uc, rest: str) -> str:
    number, word = rest.split("=")
    uc.reg_write(_REGISTERS[int(number, 16)], _number(word))
    return "OK"


def _memory(uc: Uc, rest: str) -> str:
    address, size = (int(number, 16) for number in rest.split(","))
    return bytes(uc.mem_read(address, min(size, _PACKET // 2 - 8))).hex()


def _set_memory(uc: Uc, rest: str) -> str:
    head, data = rest.split(":")
    address, size = (int(number, 16) for number in head.split(","))
    raw = bytes.fromhex(data)
    if len(raw) != size:
        raise ValueError(size)
    uc.mem_write(address, raw)
    uc.ctl_flush_tb()  # it may have been code
    return "OK"


_CALLS: dict[str, Callable[[Uc, str], str]] = {
    "g": _all_registers,
    "G": _set_all,
    "p": _one_register,
    "P": _set_one,
    "m": _memory,
    "M": _set_memory,
}


def _hex(value: int) -> str:
    return (int(value) & 0xFFFF_FFFF).to_bytes(4, "little").hex()


def _number(word: str) -> int:
    return int.from_bytes(bytes.fromhex(word), "little")
