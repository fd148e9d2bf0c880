"""Batches of commands for tests of the checks, as `Tpu` shows them to who watches."""

from __future__ import annotations

import numpy as np

from firmware_sim.batch import Batch
from firmware_sim.checks.sequence import Records, Sequence
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.example import example
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import BY_NAME
from firmware_sim.isa.layout import BD, GDMA, U32, Row
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu


def command(name: str, number: int, wait: int, **fields: int) -> bytes:
    """A descriptor like the instruction's example, with the engine's number of it and what it waits for."""
    instruction = BY_NAME[name]
    own, other = (
        ("cmd_id_tpu", "cmd_id_gdma") if instruction.engine is Engine.BD else ("cmd_id", "eng0_sync_id")
    )
    layout = BD if instruction.engine is Engine.BD else GDMA
    return layout.encode(**{**example(instruction), **fields, own: number, other: wait})


def row_of(name: str, **fields: int) -> Row:
    """The fields of a descriptor like the instruction's example."""
    instruction = BY_NAME[name]
    layout = LAYOUTS[instruction.engine]
    return layout.columns(words([layout.encode(**{**example(instruction), **fields})])).row(0)


def words(commands: list[bytes]) -> U32:
    """uint32[n, 32]"""
    return np.frombuffer(b"".join(commands), np.uint32).reshape(-1, 32)


class Caught:
    """Keeps the batches that a `Tpu` executes."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def before(self, batch: Batch) -> None:
        """One more."""
        self.batches.append(batch)


def batch_of(bd: list[bytes], gdma: list[bytes]) -> Batch:
    """What a `Tpu` shows of both queues; they are executed, too."""
    tpu = Tpu(Memory.create(ddr_bytes=64 << 20))
    tpu.watcher = caught = Caught()
    tpu.execute(words(bd), words(gdma))
    [batch] = caught.batches
    return batch


def sequence_of(bd: list[bytes], gdma: list[bytes]) -> Sequence:
    """The same as checks see it."""
    return Records().sequence(batch_of(bd, gdma))
