"""Programs of partitions, by both of their readers; sums and sizes are right, and so protect nothing."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from firmware_sim.errors import CompileError
from tests.fuzz.driver import Finding
from tests.fuzz.guided import Guided
from tests.support.core_copies import core_copies, read_program

_HEAD = struct.Struct("<8sIIQII")


class Partitions(Guided):
    """An input is what follows the head, behind a byte that says how many partitions there are."""

    longest = 1 << 12
    words = (b"\x40\0\0\0\0\0\0\0", b"\x41\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x80")
    name = "partitions"

    def __init__(self) -> None:
        self._library = core_copies()  # now, for an input may not take as long as building it

    def seeds(self) -> list[bytes]:
        from tests.unit.test_delegate_program import SAMPLE
        from user_layers.delegates.program import pack

        return [_input(pack(SAMPLE[:count])) for count in range(1, len(SAMPLE) + 1)]

    def one(self, data: bytes) -> str:
        from user_layers.delegates.program import pack, unpack

        program = _program(data)
        for name in (None, "first"):  # whether or not the other reader takes it
            read_program(self._library, program, name)
        found = unpack(program)
        for partition in found:
            status, why = read_program(self._library, program, partition.name)
            if status != 0 and "\0" not in partition.name:
                raise Finding(f"the library refuses what Python reads: {why}")
        try:
            again = pack(found)
        except CompileError as error:
            return f"read, not written: {error.message}"
        if unpack(again) != found:
            raise Finding("written again it means something else")
        return "read"


def _input(program: bytes) -> bytes:
    return bytes([_HEAD.unpack_from(program)[2]]) + program[_HEAD.size :]


def _program(data: bytes) -> bytes:
    count, body = data[:1], data[1:]
    head = _HEAD.pack(
        b"TPLDPRG\0", 1, int.from_bytes(count, "little"), _HEAD.size + len(body), zlib.crc32(body), 0
    )
    return head + body


def make() -> Any:
    return Partitions()
