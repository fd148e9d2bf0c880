"""The bytes of requests to the firmware, and what its replies hold."""

from __future__ import annotations

from collections.abc import Sequence

from firmware_sim import wire
from firmware_sim.chip import MAX_TENSORS
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.wire import TensorRecord


def text(data: bytes) -> str:
    """A text of the firmware, up to its end or the first NUL."""
    return data.split(b"\0", 1)[0].decode(errors="replace")


def launch(kernel: str, args: bytes) -> bytes:
    """The payload of a launch. UsageError for what is no kernel's name, and for too many bytes."""
    name = kernel.encode()
    if not name or len(name) > wire.NAME_BYTES or b"\0" in name:
        raise UsageError(f"{kernel!r} is not a kernel name: 1 to {wire.NAME_BYTES} bytes")
    if len(args) > wire.MAX_ARGUMENTS:
        raise UsageError(
            f"kernel {kernel}: {len(args)} bytes of arguments; {wire.MAX_ARGUMENTS} at most",
            hint="put large data into device memory, and give the kernel their address",
        )
    return aligned([wire.LAUNCH.pack(name, len(args)), args])


def aligned(parts: Sequence[bytes]) -> bytes:
    """The payload of a message: each part at the next multiple of 8."""
    out = bytearray()
    for part in parts:
        out += b"\0" * (-len(out) % 8)
        out += part
    return bytes(out)


def encode(tensors: Sequence[TensorRecord], what: str) -> tuple[bytes, bytes]:
    """fw_tensor records and the host data that they point into."""
    if len(tensors) > MAX_TENSORS:
        raise UsageError(f"{len(tensors)} {what}: a layer or net has at most {MAX_TENSORS}")
    records, host = bytearray(), bytearray()
    for t in tensors:
        offset = wire.NONE if t.host_data is None else len(host)
        records += t.encode(offset)
        if t.host_data is not None:
            host += wire.packed(f"<{len(t.host_data)}i", *t.host_data)
    return bytes(records), bytes(host)


def decode(payload: bytes, count: int) -> list[TensorRecord]:
    """The first `count` fw_tensor records of a reply, whose host data follows them."""
    size = wire.TENSOR.size
    if len(payload) < count * size:
        raise DeviceError(
            f"the firmware's reply holds {len(payload)} bytes where {count} tensors were expected"
        )
    return [TensorRecord.decode(payload, i * size, payload[count * size :]) for i in range(count)]
