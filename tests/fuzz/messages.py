"""Requests to the firmware's message loop: good ones of every kind, and damaged ones."""

from __future__ import annotations

import random
import struct
from typing import Any

from firmware_sim import wire
from firmware_sim.wire import Program, ProgramTensor, TensorKind, TensorRecord
from tests.fuzz.mutate import damage
from tests.fuzz.requests import Requests, packed, request
from tests.fuzz.watched import BLOBS


def _good(rng: random.Random) -> tuple[int, bytes, bytes]:
    """op, payload, and what lies in DDR."""
    tensor = TensorRecord((2, 3, 4), addr=BLOBS + 0x10_0000)
    one = b"".join(
        wire.packed(wire.GROUP, BLOBS, BLOBS + 256, rng.randrange(3), rng.randrange(3))
        for _ in range(rng.randrange(3))
    )
    program = Program([ProgramTensor(TensorKind.INPUT, tensor)], [], 1, 0).encode()
    kind = rng.randrange(6)
    if kind == 0:
        return wire.Op.QUERY, b"", b""
    if kind == 1:
        return wire.Op.LAUNCH, wire.LAUNCH.pack(b"sane", 12) + struct.pack("<Qf", BLOBS, 1.0), b""
    if kind == 2:
        param = struct.pack("<fii", 1.5, rng.randrange(5), 0)
        op_type = rng.choice((wire.BUILTIN_OP_BASE, wire.BUILTIN_OP_BASE + 1))
        param = param if op_type == wire.BUILTIN_OP_BASE else param[:4] + b"\0" * 0
        host = struct.pack("<24i", *range(24)) if rng.randrange(2) else b""
        record = tensor.encode(0 if host else wire.NONE)
        head = wire.LAYER_CALL.pack(op_type, len(param), 1, 1, len(host), 0)
        return wire.Op.SHAPE, head + record + param + b"\0" * (-len(param) % 8) + host, b""
    if kind == 3:
        return wire.Op.STREAMS, wire.STREAMS.pack(len(one) // wire.GROUP.size, 0) + one, rng.randbytes(512)
    if kind == 4:
        head = wire.RUN.pack(wire.RunMode.FIXED, 0, 0, len(program), 0, 0, 0, 0)
        return wire.Op.PROGRAM, head + program, b""
    head = wire.RUN.pack(wire.RunMode.DYNAMIC, 1, 0, len(program), BLOBS, BLOBS + 0x20_0000, 4096, BLOBS)
    return wire.Op.PROGRAM, head + tensor.encode(), program


class Messages(Requests):
    """Any request."""

    name = "messages"

    def generated(self, rng: random.Random) -> bytes:
        op, payload, ddr = _good(rng)
        flags = rng.choice((0, 0, 1))
        payload = damage(rng, payload) if rng.randrange(4) else payload
        return packed(request(op, payload, flags), damage(rng, ddr) if rng.randrange(2) else ddr)

    def seeds(self) -> list[bytes]:
        made = (_good(random.Random(number)) for number in range(60))
        return [
            packed(request(op, payload, number % 2), ddr) for number, (op, payload, ddr) in enumerate(made)
        ]


def make() -> Any:
    return Messages()
