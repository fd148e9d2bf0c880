"""Reading the golden vectors under golden/bm1684: encodings, sequences, utilities, executions.

They were captured from the vendor's functional model. An execution holds descriptors, memory before
(all zero except the listed regions and the L2 tables) and regions of memory after, with guard bytes
around what is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.isa.footprint import Space
from firmware_sim.isa.instruction import Engine

FOLDER = Path(__file__).parent / "golden" / "bm1684"
U8 = npt.NDArray[np.uint8]

_SPACES = (Space.LOCAL, Space.DDR, Space.L2)  # their numbers in the files
_FILES = ("okk", "bm", "gdma", "hand")


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of one file: okk_encode, bm_atomic, okk_sequences, okk_utils, *_rejected."""
    with open(FOLDER / f"{name}.jsonl") as f:
        for line in f:
            yield json.loads(line)


def encoded_descriptors() -> Iterator[tuple[Engine, bytes]]:
    """Every descriptor of the encodings and sequences."""
    for name in ("okk_encode", "bm_atomic"):
        for entry in lines(name):
            for engine in Engine:
                for text in entry[engine.value.lower()]:
                    yield engine, bytes.fromhex(text)
    for entry in lines("okk_sequences"):
        for call in entry["seq"]:
            for engine in Engine:
                for text in call.get(engine.value.lower(), []):
                    yield engine, bytes.fromhex(text)


@dataclass(frozen=True)
class Region:
    space: Space
    offset: int
    data: U8


@dataclass
class Execution:
    name: str  # file and number
    cls: str
    note: str
    descriptors: list[tuple[Engine, bytes]] = field(default_factory=list)
    before: list[Region] = field(default_factory=list)
    after: list[Region] = field(default_factory=list)


def executions() -> Iterator[Execution]:
    for name in _FILES:
        with np.load(FOLDER / "exec" / f"{name}.npz") as arrays:
            cases = {
                meta["case"]: Execution(f"{name}[{meta['case']}]", meta["cls"], meta["note"])
                for meta in lines(f"exec/index_{name}")
            }
            for case, engine, data in zip(
                arrays["desc_case"], arrays["desc_engine"], arrays["desc"], strict=True
            ):
                kind = Engine.BD if engine == 0 else Engine.GDMA
                cases[int(case)].descriptors.append((kind, data.tobytes()))
            for key in ("in", "out"):
                data, at = arrays[f"{key}_bytes"], 0
                for case, space, offset, size in arrays[f"{key}_reg"].tolist():
                    region = Region(_SPACES[space], offset, data[at : at + size])
                    (cases[case].before if key == "in" else cases[case].after).append(region)
                    at += size
        yield from cases.values()


def l2_tables() -> U8:
    """The bytes of L2 from 0x30_0000 on."""
    with np.load(FOLDER / "exec" / "l2_lut.npz") as arrays:
        tables: U8 = arrays["l2"]
        return tables


def same_bits(got: U8, want: U8) -> bool:
    """Equal bytes; words that are NaN as float32 in both count as equal (payloads are not specified)."""
    if np.array_equal(got, want):
        return True
    if len(got) % 4:
        return False
    a, b = got.copy().view(np.uint32), want.copy().view(np.uint32)
    both_nan = np.isnan(a.view(np.float32)) & np.isnan(b.view(np.float32))
    return bool(np.all((a == b) | both_nan))
