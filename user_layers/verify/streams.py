"""The commands that two firmwares issue for the same net, and the first one that differs."""

from __future__ import annotations

import numpy as np

from firmware_sim.checks.text import place
from firmware_sim.chip import DESCRIPTOR_BYTES
from firmware_sim.instructions.disasm import LAYOUTS, disassemble
from firmware_sim.instructions.instruction import Engine
from user_layers.net.command_map import command_maps
from user_layers.net.compiled import CompiledNet, StaticBody
from user_layers.testing.nets import Wrong

_WORDS = DESCRIPTOR_BYTES // 4


def check_streams(native: CompiledNet, arm: CompiledNet) -> int:
    """How many commands are equal, word by word. Errors: Wrong, naming the first command that is not, with
    its line."""
    count = 0
    for subnet, (one, other) in enumerate(zip(_bodies(native), _bodies(arm), strict=True)):
        if len(one.groups) != len(other.groups):
            raise Wrong(f"{len(other.groups)} command groups on the controller, {len(one.groups)} native")
        for number, (a, b) in enumerate(zip(one.groups, other.groups, strict=True), 1):
            for engine, mine, theirs in ((Engine.BD, a.bd, b.bd), (Engine.GDMA, a.gdma, b.gdma)):
                index = first_difference(mine, theirs)
                if index is None:
                    count += len(mine) // DESCRIPTOR_BYTES
                    continue
                line = _line(native, subnet, number, engine, index)
                raise Wrong(
                    f"the first command that differs is {engine.value} {index + 1}{line}: the controller "
                    f"issues `{_text(engine, theirs, index)}`, the native firmware `"
                    f"{_text(engine, mine, index)}`{_fields(engine, mine, theirs, index)}"
                )
    return count


def first_difference(mine: bytes, theirs: bytes) -> int | None:
    """The first command that is not the same in both streams; None where all are."""
    if mine == theirs:
        return None
    a, b = (np.frombuffer(x, np.uint32).reshape(-1, _WORDS) for x in (mine, theirs))
    least = min(len(a), len(b))
    unequal = np.nonzero((a[:least] != b[:least]).any(axis=1))[0]
    return int(unequal[0]) if len(unequal) else least


def _bodies(net: CompiledNet) -> list[StaticBody]:
    return [s.body for stage in net.stages for s in stage.subnets if isinstance(s.body, StaticBody)]


def _line(net: CompiledNet, subnet: int, group: int, engine: Engine, index: int) -> str:
    maps = command_maps(net)
    issuer = maps[subnet].issued(group, engine is Engine.BD, index) if subnet < len(maps) else None
    return f" ({place(issuer.frames[0])})" if issuer is not None and issuer.frames else ""


def _text(engine: Engine, stream: bytes, index: int) -> str:
    words = np.frombuffer(stream, np.uint32).reshape(-1, _WORDS)
    return disassemble(engine, words[index : index + 1])[0] if index < len(words) else "nothing"


def _fields(engine: Engine, mine: bytes, theirs: bytes, index: int) -> str:
    """Which fields of the two are not equal."""
    at = index * DESCRIPTOR_BYTES
    one, other = mine[at : at + DESCRIPTOR_BYTES], theirs[at : at + DESCRIPTOR_BYTES]
    if not one or not other:
        return ""
    a, b = LAYOUTS[engine].decode(one), LAYOUTS[engine].decode(other)
    names = [name for name in a if a[name] != b[name]]
    return f" ({', '.join(f'{name} {b[name]:#x}, native {a[name]:#x}' for name in names[:4])})"
