"""For tests of limits: requests with one number changed, and what the firmware says of them."""

from __future__ import annotations

import re
import struct

from firmware_sim import chip, wire
from firmware_sim.wire import RunMode
from firmware_sim.wire_structs import BY_NAME
from tests.support import firmware_harness as fh


def check(reply: fh.Reply, says: str, what: object) -> None:
    """says: what the refusal says, "" where the request is to be taken."""
    if says:
        assert reply.status < 0 and re.search(says, reply.text), (what, says, reply)
    else:
        assert reply.status == 0, (what, reply.text)


def member(struct_name: str, name: str) -> tuple[int, struct.Struct]:
    """Where a member of a wire struct begins, and how it is packed."""
    codes = {"u64": "Q", "u32": "I", "i32": "i", "u8": "B", "char": "s", "pad": "x"}
    at = 0
    for m in BY_NAME[struct_name].members:
        if m.name == name:
            return at, struct.Struct(f"<{codes[m.kind]}")
        at += (
            BY_NAME[m.kind].form.size if m.kind in BY_NAME else m.count * struct.calcsize(f"<{codes[m.kind]}")
        )
    raise KeyError(name)


def changed(data: bytes, start: int, struct_name: str, name: str, value: int, index: int = 0) -> bytes:
    """The bytes with another number in the struct that begins at `start`; index: of an array's element."""
    at, form = member(struct_name, name)
    result = bytearray(data)
    form.pack_into(result, start + at + index * form.size, value)
    return bytes(result)


def run_bytes(firmware: fh.Harness, data: bytes, mode: int = RunMode.FIXED, record: bool = False) -> fh.Reply:
    head = wire.RUN.pack(mode, 0, 0, len(data), 0, chip.DDR_BASE, 1 << 19, 0)
    return firmware.request(wire.Op.PROGRAM, [head, b"", data], record=record)
