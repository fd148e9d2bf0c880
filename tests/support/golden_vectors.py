"""The golden vectors under golden/bm1684, captured from the vendor's functional model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firmware_sim import vectors
from firmware_sim.instructions.instruction import Engine
from firmware_sim.vectors import U8, Execution, same_bits
from tests.paths import GOLDEN

FOLDER = GOLDEN / "bm1684"

__all__ = ["FOLDER", "Execution", "encoded_descriptors", "executions", "l2_tables", "lines", "same_bits"]


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of one file: okk_encode, bm_atomic, okk_sequences, okk_utils, *_rejected."""
    return vectors.lines(FOLDER, name)


def encoded_descriptors() -> Iterator[tuple[Engine, bytes]]:
    """Every descriptor of the encodings and sequences."""
    for name in vectors.ENCODINGS:
        for entry in lines(name):
            for engine in Engine:
                for text in entry[engine.value.lower()]:
                    yield engine, bytes.fromhex(text)
    for entry in lines(vectors.SEQUENCES):
        for call in entry["seq"]:
            for engine in Engine:
                for text in call.get(engine.value.lower(), []):
                    yield engine, bytes.fromhex(text)


def executions() -> Iterator[Execution]:
    for name in vectors.execution_files(FOLDER):
        yield from vectors.executions(FOLDER, name)


def l2_tables() -> U8:
    """The bytes of L2 from 0x30_0000 on."""
    return vectors.l2_tables(FOLDER)
