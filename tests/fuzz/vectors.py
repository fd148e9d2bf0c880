"""Folders of test vectors, arrays in .npz files, and lines of JSON."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.errors import TpulayerError
from tests.fuzz.inputs import Inputs
from tests.fuzz.mutate import damage, number
from tests.paths import ROOT

_BETWEEN = b"\n--\n"
_NAMES = ("desc", "desc_case", "desc_engine", "in_reg", "in_bytes", "out_reg", "out_bytes", "l2")
_LONGEST = 1 << 13  # of a line
_INDEX = b'{"case": 0, "cls": "add", "note": "n"}\n{"case": 1, "cls": "add"}\n'


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=False)
    return out.getvalue()


class Vectors(Inputs):
    """An input is JSON lines, then what the arrays of an .npz hold, each behind a line of two dashes; or an
    .npz as it is, if it begins as one."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        (Path(self._folder.name) / "exec").mkdir()

    def seeds(self) -> list[bytes]:
        rows = np.array([[0, 0, 0, 4], [1, 2, 8, 4]])
        arrays = {
            "desc": np.zeros((2, 128), np.uint8),
            "desc_case": np.array([0, 1]),
            "desc_engine": np.array([0, 1], np.uint8),
            "in_reg": rows,
            "in_bytes": np.arange(8, dtype=np.uint8),
            "out_reg": rows,
            "out_bytes": np.arange(8, dtype=np.uint8),
            "l2": np.zeros(64, np.uint8),
        }
        parts = [_npy(arrays[name]) for name in _NAMES]
        calls = b'{"fn": "okk_gdma_move", "args": {"a": 1}}\n{"seq": [{"call": "okk_bdc_add", "args": {}}]}\n'
        floats = _npy(np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3))
        golden = (ROOT / "tests" / "golden" / "bm1684").glob("*.jsonl")
        lines = [path.read_bytes().partition(b"\n")[0] for path in sorted(golden)]
        return [
            _BETWEEN.join([_INDEX, *parts]),
            _zipped(parts),
            _BETWEEN.join([calls, floats, floats[:80] + b"x"]),
            *(line for line in lines if 0 < len(line) < _LONGEST),
        ]

    def changed(self, rng: random.Random, data: bytes) -> bytes:
        if data[:2] == b"PK":
            return damage(rng, data)
        parts = data.split(_BETWEEN)
        at = rng.randrange(len(parts))
        if rng.randrange(3):
            parts[at] = damage(rng, parts[at], 2)
        elif at and rng.randrange(3):
            kinds = (np.uint8, np.int64, np.float32, np.uint64, bool, "S3", "<M8[s]")
            shape = tuple(rng.choice((0, 1, 2, 4, 128)) for _ in range(rng.randrange(4)))
            made = np.zeros(shape, rng.choice(kinds))
            if made.size and made.dtype.kind in "iu":
                made.reshape(-1)[rng.randrange(made.size)] = number(rng, 8 * made.itemsize - 1)
            parts[at] = _npy(made) if made.size < 1024 else _npy(made[:0])
        else:
            parts[at] = rng.choice(parts)
        return _BETWEEN.join(parts)

    def one(self, data: bytes) -> str:
        from firmware_sim import vectors
        from user_layers.bmodel import manifest
        from user_layers.bmrt.reference_data import load_npz, parse_shapes
        from user_layers.encode.isa import calls_of

        text, *parts = data.split(_BETWEEN) if data[:2] != b"PK" else (_INDEX,)
        folder = Path(self._folder.name)
        archive = folder / "exec" / "one.npz"
        archive.write_bytes(_zipped(parts) if parts or data[:2] != b"PK" else data)
        (folder / "exec" / "l2_lut.npz").write_bytes(archive.read_bytes())
        (folder / "exec" / "index_one.jsonl").write_bytes(text)
        done = []
        takers: dict[str, Callable[[], object]] = {
            "executions": lambda: vectors.executions(folder, "one"),
            "tables": lambda: vectors.l2_tables(folder),
            "arrays": lambda: load_npz(archive, len),
            "calls": lambda: [calls_of(line, "here") for line in vectors.lines(folder / "exec", "index_one")],
            "manifest": lambda: manifest.decode(b'{"tpulayer_manifest":' + text, "here"),
            "shapes": lambda: parse_shapes(text.decode("latin-1"), "--shapes"),
        }
        for name, take in takers.items():
            with contextlib.suppress(TpulayerError):
                take()
                done.append(name)
        return f"taken as {', '.join(done) or 'nothing'}"

    def close(self) -> None:
        self._folder.cleanup()


def _zipped(parts: list[bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in zip(_NAMES, parts, strict=False):
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part)
    return out.getvalue()


def make() -> Any:
    return Vectors()
