"""gdb's protocol as the emulated controller speaks it, without gdb: a program of five instructions."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from unicorn import UC_ARCH_ARM, UC_MODE_ARM, Uc, UcError
from unicorn import arm_const as arm

from firmware_sim.arm import gdb_server
from firmware_sim.arm.gdb_server import GdbServer
from firmware_sim.errors import DeviceError
from firmware_sim.processes.debugger import LEFT
from tests.support.gdb_remote import Remote, word

BASE, DATA = 0x1000, 0x4000
LOOP = struct.pack(
    "<5I",
    0xE3A00001,  # 1000 mov r0, #1
    0xE2833001,  # 1004 add r3, r3, #1
    0xE5813000,  # 1008 str r3, [r1]
    0xE1520003,  # 100c cmp r2, r3
    0x1AFFFFFB,  # 1010 bne 1004
)
END = BASE + len(LOOP)
R1, R2, R3, PC = "1", "2", "3", "f"


class Target:
    """The loop on an emulator in a thread of its own, which runs until r3 is r2."""

    def __init__(self, rounds: int = 1000) -> None:
        self.uc = Uc(UC_ARCH_ARM, UC_MODE_ARM)
        for page in (BASE, DATA):
            self.uc.mem_map(page, 0x1000)
        self.uc.mem_write(BASE, LOOP)
        self.uc.reg_write(arm.UC_ARM_REG_R1, DATA)
        self.uc.reg_write(arm.UC_ARM_REG_R2, rounds)
        # what ends the loop: the emulator's own stop, as the wait for an interrupt is
        self.uc.hook_add(4, lambda uc, at, size, data: uc.emu_stop(), None, END, END)  # UC_HOOK_CODE
        self.uc.mem_write(END, struct.pack("<I", 0xE1A00000))
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = GdbServer(listener.detach())
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.server.run(self.uc, BASE)
        except UcError as error:
            self.server.show_fault(self.uc)  # as the machine does
            self.error = error
        except Exception as error:
            self.error = error

    def ended(self) -> bool:
        self._thread.join(60)
        self.server.leave()
        return not self._thread.is_alive()

    def register(self, number: int) -> int:
        return int(self.uc.reg_read(number))


@pytest.fixture
def target() -> Iterator[Target]:
    one = Target()
    yield one
    if not one.ended():  # a test that failed
        raise AssertionError("the target still runs")


def test_registers_and_memory(target: Target) -> None:
    with Remote(target.port) as gdb:
        assert gdb.ask("?") == "S05"
        registers = gdb.ask("g")
        assert len(registers) == 17 * 8
        assert word(registers[15 * 8 : 16 * 8]) == BASE and word(registers[8:16]) == DATA
        assert word(gdb.ask("p" + PC)) == BASE
        assert gdb.ask("P3=05000000") == "OK" and word(gdb.ask("p3")) == 5
        assert gdb.ask("G" + registers) == "OK" and word(gdb.ask("p3")) == 0
        assert bytes.fromhex(gdb.ask(f"m{BASE:x},14")) == LOOP
        assert gdb.ask(f"M{DATA + 8:x},4:01020304") == "OK"
        assert gdb.ask(f"m{DATA + 8:x},4") == "01020304"
        for wrong in ("m9000,4", "M9000,1:00", "p40", "P99=00000000", "mx", f"M{DATA:x},2:00", "G00"):
            assert gdb.ask(wrong) == "E01", wrong
        gdb.tell("c")
    assert target.ended() and target.error is None


def test_what_it_says_of_itself(target: Target) -> None:
    with Remote(target.port) as gdb:
        said = gdb.ask("qSupported:multiprocess+;swbreak+")
        assert "qXfer:features:read+" in said and "PacketSize=" in said
        text, at = "", 0
        while True:
            part = gdb.ask(f"qXfer:features:read:target.xml:{at:x},50")
            text += part[1:]
            at += len(part) - 1
            if part[0] == "l":
                break
        names = [one.get("name") for one in ElementTree.fromstring(text).iter("reg")]
        assert names == [*(f"r{i}" for i in range(13)), "sp", "lr", "pc", "cpsr"]
        assert gdb.ask("vCont?").startswith("vCont")
        assert (gdb.ask("qfThreadInfo"), gdb.ask("qsThreadInfo"), gdb.ask("qC")) == ("m1", "l", "QC1")
        assert (gdb.ask("Hg0"), gdb.ask("T1"), gdb.ask("qAttached")) == ("OK", "OK", "0")
        for unknown in ("vMustReplyEmpty", "qOffsets", "X0,0:", "Z2,4000,4", "!", "qXfer:auxv:read::0,10"):
            assert gdb.ask(unknown) == "", unknown
        assert gdb.ask("D") == "OK"
    assert target.ended() and target.error is None


def test_acknowledgements(target: Target) -> None:
    with Remote(target.port) as gdb:
        gdb.send(b"+$?#00")  # its sum is wrong
        assert gdb.sign() == b"-"
        gdb.tell("?")
        assert gdb.sign() == b"+" and gdb.heard() == "S05"
        gdb.tell("QStartNoAckMode")
        assert gdb.sign() == b"+" and gdb.heard() == "OK"
        gdb.tell("?")
        assert gdb.sign() == b"$"
        gdb.tell("D")


def test_steps(target: Target) -> None:
    with Remote(target.port) as gdb:
        for step, at in (("s", 0x1004), ("vCont;s:1;c", 0x1008), ("vCont;s", 0x100C), ("S05", 0x1010)):
            assert gdb.ask(step) == "S05"
            assert word(gdb.ask("p" + PC)) == at
        assert gdb.ask("s") == "S05" and word(gdb.ask("p" + PC)) == 0x1004
        assert gdb.ask(f"m{DATA:x},4") == "01000000"
        gdb.tell("vCont;c")
    assert target.ended() and target.register(arm.UC_ARM_REG_R3) == 1000


def test_breakpoints_in_code_that_has_run_before(target: Target) -> None:
    with Remote(target.port) as gdb:
        assert gdb.ask("Z0,1008,4") == "OK"
        for r3 in (1, 2, 3):
            assert gdb.ask("c") == "S05"
            assert word(gdb.ask("p" + PC)) == 0x1008 and word(gdb.ask("p3")) == r3
            assert word(gdb.ask(f"m{DATA:x},4")) == r3 - 1  # stopped before the store
        assert gdb.ask("Z0,1004,4") == "OK"
        assert gdb.ask("c") == "S05" and word(gdb.ask("p" + PC)) == 0x1004
        assert gdb.ask("s") == "S05" and word(gdb.ask("p" + PC)) == 0x1008  # itself a breakpoint
        assert gdb.ask("s") == "S05" and word(gdb.ask("p" + PC)) == 0x100C
        for address in ("1004", "1008"):
            assert gdb.ask(f"z0,{address},4") == "OK"
        assert gdb.ask("Z1,1010,4") == "OK"
        assert gdb.ask("c") == "S05" and word(gdb.ask("p" + PC)) == 0x1010
        assert gdb.ask("s") == "S05" and word(gdb.ask("p" + PC)) == 0x1004
        assert gdb.ask("P3=00010000") == "OK"
        assert gdb.ask("c") == "S05" and word(gdb.ask("p3")) == 0x101
        assert gdb.ask("z1,1010,4") == "OK"
        gdb.tell("c")
    assert target.ended() and target.register(arm.UC_ARM_REG_PC) == END


def test_interrupting_what_does_not_end() -> None:
    target = Target(rounds=0)
    with Remote(target.port) as gdb:
        gdb.tell("c")
        gdb.send(b"\x03")
        assert gdb.heard() == "S02"
        assert BASE < word(gdb.ask("p" + PC)) < END
        r3 = word(gdb.ask("p" + R3))
        gdb.tell("c")
        gdb.send(b"\x03")
        assert gdb.heard() == "S02" and word(gdb.ask("p" + R3)) > r3
        assert gdb.ask("P2=" + gdb.ask("p" + R3)) == "OK"
        gdb.tell("c")
        gdb.send(b"\x03")
        assert gdb.heard() == "S02"
        below = (word(gdb.ask("p" + R3)) + 1000).to_bytes(4, "little").hex()
        assert gdb.ask(f"P{R2}={below}") == "OK"
        gdb.tell("c")
    assert target.ended() and target.error is None


def test_a_gdb_that_goes_leaves_the_rest_to_run(target: Target) -> None:
    with Remote(target.port) as gdb:
        assert gdb.ask("Z0,1008,4") == "OK" and gdb.ask("c") == "S05"
    assert target.ended() and target.register(arm.UC_ARM_REG_R3) == 1000


def test_a_gdb_that_goes_while_it_runs() -> None:
    target = Target(rounds=3_000_000)
    with Remote(target.port) as gdb:
        gdb.tell("c")
    assert target.ended() and target.register(arm.UC_ARM_REG_R3) == 3_000_000


def test_killing_ends_the_process(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise RuntimeError("the end of the process")

    monkeypatch.setattr(os, "_exit", leave)
    with Remote(target.port) as gdb:
        gdb.tell("k")
        assert target.ended()
    assert codes == [LEFT]


def test_a_fault_is_shown_and_then_raised() -> None:
    target = Target()
    with Remote(target.port) as gdb:
        assert gdb.ask("P1=00000090") == "OK"
        gdb.tell("c")
        assert gdb.heard() == "S0b" and word(gdb.ask("p" + PC)) == 0x1008
        gdb.tell("c")
        assert target.ended() and isinstance(target.error, UcError)


def test_nobody_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gdb_server, "CONNECT_LIMIT", 0.05)
    target: Any = Target()
    assert target.ended() and isinstance(target.error, DeviceError)
    assert "no gdb connected" in target.error.message
