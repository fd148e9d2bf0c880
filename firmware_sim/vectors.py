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

from firmware_sim.chip import DESCRIPTOR_BYTES, L2_BYTES, L2_TABLE_OFFSET
from firmware_sim.errors import UsageError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.l2_tables import l2_tables as chip_tables
from firmware_sim.npy import read_npz

U8 = npt.NDArray[np.uint8]

ENCODINGS = ("okk_encode", "bm_atomic")
REJECTED = ("okk_encode_rejected", "bm_atomic_rejected")
SEQUENCES, UTILITIES = "okk_sequences", "okk_utils"
_MOST_BYTES = 1 << 28  # of the arrays of one file
_TABLES_FILE = "l2_lut"
_ARRAYS = ("desc", "desc_case", "desc_engine", "in_reg", "in_bytes", "out_reg", "out_bytes")
_SPACES = (Space.LOCAL, Space.DDR, Space.L2)  # their numbers in the files


def has(folder: Path, name: str) -> bool:
    """Whether the folder holds NAME.jsonl."""
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
    """Bytes of one memory from byte `offset` on; local memory is counted lane after lane."""

    space: Space
    offset: int
    data: U8


@dataclass
class Execution:
    """Descriptors in the order of their execution, and regions of memory before and after; see the module."""

    name: str  # file and number
    cls: str
    note: str
    descriptors: list[tuple[Engine, bytes]] = field(default_factory=list)
    before: list[Region] = field(default_factory=list)
    after: list[Region] = field(default_factory=list)


def execution_files(folder: Path) -> list[str]:
    """The names that exec/ holds. Raises UsageError where a file lacks its index or an index its file."""
    indices = {p.stem.removeprefix("index_") for p in (folder / "exec").glob("index_*.jsonl")}
    data = {p.stem for p in (folder / "exec").glob("*.npz")} - {_TABLES_FILE}
    for name in sorted(indices ^ data):
        absent = f"{name}.npz" if name in indices else f"index_{name}.jsonl"
        raise UsageError(
            f"{folder / 'exec'} has no {absent}", hint="NAME.npz and index_NAME.jsonl belong together"
        )
    return sorted(indices)


def executions(folder: Path, name: str) -> list[Execution]:
    """One file of executions. Raises UsageError when it is damaged."""
    path = folder / "exec" / f"{name}.npz"
    cases: dict[int, Execution] = {}
    for number, meta in enumerate(lines(folder, f"exec/index_{name}"), 1):
        where = f"{folder / 'exec' / f'index_{name}.jsonl'}:{number}"
        case, cls = meta.get("case"), meta.get("cls")
        if not isinstance(case, int) or not isinstance(cls, str):
            raise UsageError(f"{where}: no case (a number) or no cls (a text)")
        if case in cases:
            raise UsageError(f"{where}: case {case} is there twice")
        cases[case] = Execution(f"{name}[{case}]", cls, str(meta.get("note", "")))
    try:
        found = _arrays(path, _ARRAYS)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} does not hold executions: {error}") from None
    try:
        _add_descriptors(cases, found)
        for key in ("in", "out"):
            _add_regions(cases, key, found)
    except (ValueError, KeyError, OverflowError, TypeError, IndexError) as error:
        raise UsageError(f"{path} and its index do not hold executions: {error}") from None
    for execution in cases.values():
        if not execution.descriptors or not execution.after:
            raise UsageError(f"{path}: case {execution.name} has no descriptor or no memory after it")
    return list(cases.values())


def _arrays(path: Path, keys: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    with open(path, "rb") as f:
        return read_npz(f, keys, _MOST_BYTES)


def _case(cases: dict[int, Execution], number: int, key: str) -> Execution:
    if number not in cases:
        raise ValueError(f"{key} names case {number}, which the index does not have")
    return cases[number]


def _add_descriptors(cases: dict[int, Execution], found: dict[str, npt.NDArray[Any]]) -> None:
    numbers, engines, data = (found[key] for key in ("desc_case", "desc_engine", "desc"))
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != DESCRIPTOR_BYTES:
        raise ValueError(f"desc is {data.dtype} {list(data.shape)}, not rows of {DESCRIPTOR_BYTES} bytes")
    for case, engine, row in zip(numbers.tolist(), engines.tolist(), data, strict=True):
        if engine not in (0, 1):
            raise ValueError(f"desc_engine holds {engine}; 0 is BD, 1 GDMA")
        kind = Engine.BD if engine == 0 else Engine.GDMA
        _case(cases, case, "desc_case").descriptors.append((kind, row.tobytes()))


def _add_regions(cases: dict[int, Execution], key: str, found: dict[str, npt.NDArray[Any]]) -> None:
    rows, data = found[f"{key}_reg"], found[f"{key}_bytes"]
    if data.dtype != np.uint8 or data.ndim != 1 or rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"{key}_reg is not rows of case, space, offset and size, or {key}_bytes not bytes")
    at = 0
    for case, space, offset, size in rows.tolist():
        if not 0 <= space < len(_SPACES) or offset < 0 or size < 0 or at + size > len(data):
            raise ValueError(f"{key}_reg has a region of {size} bytes at {offset} of space {space}")
        region = Region(_SPACES[space], offset, data[at : at + size])
        execution = _case(cases, case, f"{key}_reg")
        (execution.before if key == "in" else execution.after).append(region)
        at += size
    if at != len(data):
        raise ValueError(f"{key}_bytes has {len(data)} bytes and {key}_reg counts {at}")


def l2_tables(folder: Path) -> U8:
    """The bytes of L2 from L2_TABLE_OFFSET on: the folder's, or the chip's own where it has none."""
    path = folder / "exec" / f"{_TABLES_FILE}.npz"
    if not path.exists():
        return chip_tables()
    try:
        tables: U8 = _arrays(path, ("l2",))["l2"]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} does not hold the tables of L2: {error}") from None
    if tables.dtype != np.uint8 or tables.ndim != 1 or L2_TABLE_OFFSET + len(tables) > L2_BYTES:
        raise UsageError(f"{path}: l2 is {tables.dtype} {list(tables.shape)}, not the bytes of the tables")
    return tables


def same_bits(got: U8, want: U8) -> bool:
    """Equal bytes; words that are NaN as float32 in both count as equal (payloads are not specified)."""
    if np.array_equal(got, want):
        return True
    words = len(got) // 4 * 4
    if len(got) != len(want) or not np.array_equal(got[words:], want[words:]):
        return False
    a, b = got[:words].copy().view(np.uint32), want[:words].copy().view(np.uint32)
    both_nan = np.isnan(a.view(np.float32)) & np.isnan(b.view(np.float32))
    return bool(np.all((a == b) | both_nan))
