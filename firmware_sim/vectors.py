"""Folders of test vectors: encodings, sequences, utilities and executions of the BM1684.

A folder holds any of okk_encode.jsonl, bm_atomic.jsonl, their *_rejected.jsonl, okk_sequences.jsonl,
okk_utils.jsonl, and exec/NAME.npz with exec/index_NAME.jsonl. An execution is descriptors, memory before
(all zero except the listed regions and the L2 tables) and regions of memory after.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import UsageError
from firmware_sim.isa.footprint import Space
from firmware_sim.isa.instruction import Engine

U8 = npt.NDArray[np.uint8]

ENCODINGS = ("okk_encode", "bm_atomic")
REJECTED = ("okk_encode_rejected", "bm_atomic_rejected")
SEQUENCES, UTILITIES = "okk_sequences", "okk_utils"
_SPACES = (Space.LOCAL, Space.DDR, Space.L2)  # their numbers in the files


def has(folder: Path, name: str) -> bool:
    return (folder / f"{name}.jsonl").is_file()


def lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of one file. Raises UsageError naming file and line when one is damaged."""
    path = folder / f"{name}.jsonl"
    try:
        with open(path) as f:
            for number, text in enumerate(f, 1):
                try:
                    line = json.loads(text)
                except json.JSONDecodeError as error:
                    raise UsageError(f"{path}:{number}: not JSON: {error}") from None
                if not isinstance(line, dict):
                    raise UsageError(f"{path}:{number}: not a JSON object")
                yield line
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


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


def execution_files(folder: Path) -> list[str]:
    """The names that exec/ holds."""
    return sorted(p.stem.removeprefix("index_") for p in (folder / "exec").glob("index_*.jsonl"))


def executions(folder: Path, name: str) -> list[Execution]:
    """One file of executions. Raises UsageError when it is damaged."""
    path = folder / "exec" / f"{name}.npz"
    try:
        cases = {
            meta["case"]: Execution(f"{name}[{meta['case']}]", meta["cls"], meta.get("note", ""))
            for meta in lines(folder, f"exec/index_{name}")
        }
        with np.load(path) as arrays:
            rows = zip(arrays["desc_case"], arrays["desc_engine"], arrays["desc"], strict=True)
            for case, engine, data in rows:
                kind = Engine.BD if engine == 0 else Engine.GDMA
                cases[int(case)].descriptors.append((kind, data.tobytes()))
            for key in ("in", "out"):
                data, at = arrays[f"{key}_bytes"], 0
                for case, space, offset, size in arrays[f"{key}_reg"].tolist():
                    region = Region(_SPACES[space], offset, data[at : at + size])
                    (cases[case].before if key == "in" else cases[case].after).append(region)
                    at += size
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise UsageError(f"{path} and its index do not hold executions: {error!r}") from None
    return list(cases.values())


def l2_tables(folder: Path) -> U8:
    """The bytes of L2 from 0x30_0000 on."""
    with np.load(folder / "exec" / "l2_lut.npz") as arrays:
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
