"""What tpulayer itself notes in a bmodel, beyond the vendor's fields.

The manifest is JSON in NetParameter.net_stat, one per stage. The vendor's runtime reads that field
only when the net also carries profile data, and then only copies it; its other tools leave it
alone. A bmodel without a manifest was made by another compiler.

    {"tpulayer_manifest": 2, "tool": "tpulayer 0.1.0",
     "layers": [{"op": "TPU_CROP", "op_type": 0, "param_bytes": 64, "param_hash": "0x..."}],
     "programs": [{"bytes": 420, "arena_addr": 4379901952, "arena_bytes": 8192}]}

Hashes are 64-bit numbers, written in hexadecimal because JSON readers round large integers. There is a
program for each dynamic subnet, in order: its length (the stored form is padded to 32-bit words) and the part
of the context from which the firmware allocates while it runs. Where the shapes of outputs are known only
when the net has run, the names of these outputs follow, as "varying". `"c_fixed": true` follows for a dynamic
net whose inputs must have their second dimension as compiled: the vendor's fields have no place for that one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import ModelError

if TYPE_CHECKING:  # the compiler imports this package
    from user_layers.net.compiled import LayerUse

VERSION = 2
MAX_BYTES = 1 << 20
_START = b'{"tpulayer_manifest":'


@dataclass(frozen=True)
class ProgramUse:
    """One dynamic subnet's program: its length, and the memory it may allocate from."""

    nbytes: int
    arena_addr: int
    arena_bytes: int


@dataclass(frozen=True)
class Manifest:
    """One stage's manifest: the tool that wrote it, the layers it needs, its dynamic subnets' programs,
    the outputs whose stored shapes are the largest ones, and whether the inputs' second extent is fixed."""

    tool: str
    layers: tuple[LayerUse, ...] = ()
    programs: tuple[ProgramUse, ...] = ()
    varying: tuple[str, ...] = ()
    c_fixed: bool = False

    def encode(self) -> bytes:
        """The JSON as bytes. ModelError when it is longer than MAX_BYTES, which readers refuse."""
        layers = [
            {
                "op": use.op,
                "op_type": use.op_type,
                "param_bytes": use.param_bytes,
                "param_hash": f"0x{use.param_hash:016x}",
            }
            for use in self.layers
        ]
        content: dict[str, object] = {
            "tpulayer_manifest": VERSION,
            "tool": self.tool,
            "layers": layers,
            "programs": [
                {"bytes": p.nbytes, "arena_addr": p.arena_addr, "arena_bytes": p.arena_bytes}
                for p in self.programs
            ],
        }
        if self.varying:
            content["varying"] = list(self.varying)
        if self.c_fixed:
            content["c_fixed"] = True
        data = json.dumps(content, separators=(",", ":")).encode()
        if len(data) > MAX_BYTES:
            raise ModelError(f"the net uses {len(layers)} layers, too many for one manifest")
        return data


def decode(data: bytes, where: str) -> Manifest | None:
    """The manifest in net_stat's bytes, or None when they are another tool's.

    Raises ModelError, beginning with `where`, for a damaged or newer manifest.
    """
    if not data.startswith(_START):
        return None
    if len(data) > MAX_BYTES:
        raise ModelError(f"damaged bmodel: {where}: manifest of {len(data)} bytes, at most {MAX_BYTES}")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"damaged bmodel: {where}: manifest is not JSON: {error}") from error
    version = content["tpulayer_manifest"]
    if version != VERSION:
        raise ModelError(
            f"{where}: manifest version {version!r}; this tpulayer knows version {VERSION}",
            hint="run it with the tpulayer that made it, or compile again",
        )
    try:
        return Manifest(
            tool=_text(content["tool"]),
            layers=tuple(_layer(item) for item in _list(content["layers"])),
            programs=tuple(_program(item) for item in _list(content["programs"])),
            varying=tuple(_text(item) for item in _list(content.get("varying", []))),
            c_fixed=_flag(content.get("c_fixed", False)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"damaged bmodel: {where}: manifest: {error!r}") from error


def _layer(item: Any) -> LayerUse:
    from user_layers.net.compiled import LayerUse

    return LayerUse(
        op=_text(item["op"]),
        op_type=_count(item["op_type"]),
        param_bytes=_count(item["param_bytes"]),
        param_hash=_hash(item["param_hash"]),
    )


def _program(item: Any) -> ProgramUse:
    return ProgramUse(_count(item["bytes"]), _count(item["arena_addr"]), _count(item["arena_bytes"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not true or false")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise ValueError(f"{value!r} is not a number from 0 to 2^64-1")
    return value


def _hash(value: Any) -> int:
    return _count(int(_text(value), 16))
