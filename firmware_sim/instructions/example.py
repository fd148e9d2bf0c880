"""A legal descriptor of every instruction: what the documentation shows and what tests start from.

All begin alike, with a result of 1 x 64 x 16 x 16 elements and each operand in a place of its own; a row of
the instruction table states the fields in which its own differs (Instruction.example).
"""

from __future__ import annotations

import itertools

import numpy as np

from firmware_sim import chip
from firmware_sim.instructions.instruction import Engine, Instruction
from firmware_sim.isa.codes import Direction
from firmware_sim.isa.layout import BD, GDMA, Row

_SHAPE = (1, 64, 16, 16)
_APART = 0x4000  # bytes between operands
_OPERANDS = ("res0", "res1", "opd0", "opd1", "opd2", "opd3")
LAYOUTS = {Engine.BD: BD, Engine.GDMA: GDMA}


def _bd() -> dict[str, int]:
    places = {f"{name}_addr": chip.LOCAL_BASE + i * _APART for i, name in enumerate(_OPERANDS)}
    sizes = {
        f"{name}_{axis}": size for name in ("res0", "opd0") for axis, size in zip("nchw", _SHAPE, strict=True)
    }
    return {**places, **sizes, "cmd_id_tpu": 1}


def _gdma(fields: dict[str, int]) -> dict[str, int]:
    """Strides without gaps on both sides, of the sizes that are given."""
    direction = Direction(fields["direction"])
    local = {
        "src": direction in (Direction.L2S, Direction.L2L),
        "dst": direction in (Direction.S2L, Direction.L2L),
    }
    out = {"cmd_id": 1, "stride_enable": 1}
    for i, side in enumerate(("src", "dst")):
        address = chip.LOCAL_BASE + i * _APART if local[side] else chip.DDR_BASE + i * chip.NPU_NUM * _APART
        out |= {f"{side}_start_addr_l32": address & 0xFFFF_FFFF, f"{side}_start_addr_h8": address >> 32}
        sizes = {f"{side}_{axis}size": size for axis, size in zip("nchw", _SHAPE, strict=True)}
        out |= sizes | {name: fields[name] for name in sizes if name in fields}
        steps = itertools.accumulate(
            (out[f"{side}_{axis}size"] for axis in "whc"), initial=1, func=int.__mul__
        )
        out |= {f"{side}_{axis}stride": step for axis, step in zip("whcn", steps, strict=True)}
    return out


def example(instruction: Instruction) -> dict[str, int]:
    """All fields of the descriptor, by name; the first command of its engine."""
    selecting = {name: min(values) for name, values in instruction.match.items()}
    own = {**selecting, **instruction.example}
    common = _bd() if instruction.engine is Engine.BD else _gdma(own)
    return {**LAYOUTS[instruction.engine].defaults, **common, **own}


def row_of(engine: Engine, fields: dict[str, int]) -> Row:
    """A descriptor with these fields. Raises UsageError naming a field that does not fit."""
    layout = LAYOUTS[engine]
    return layout.columns(np.frombuffer(layout.encode(**fields), np.uint32).reshape(1, -1)).row(0)
