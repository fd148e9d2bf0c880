"""bmodel files, read and shown, taken apart and put together again."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from firmware_sim.errors import ModelError, UsageError
from tests.fuzz.driver import Finding
from tests.fuzz.guided import Guided


class BModelFiles(Guided):
    """An input is a file."""

    longest = 1 << 14
    words = (
        b"BM1684",
        b"BMODEL",
        b"2.2",
        b'{"tpulayer_manifest":',
        b'"layers":',
        b'"programs":',
        b'"param_hash":',
    )
    name = "bmodel"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)

    def seeds(self) -> list[bytes]:
        from tests.fuzz.networks import bases

        return list(bases())

    def changed(self, rng: random.Random, data: bytes) -> bytes:
        from tests.fuzz.networks import model

        return model(rng, data)

    def one(self, data: bytes) -> str:
        from user_layers.bmodel import contents, info, read
        from user_layers.bmodel.combine import combine, extract

        found = read(data)
        folder = Path(self._folder.name)
        path, out = folder / "given.bmodel", folder / "out"
        path.write_bytes(data)
        info.text(found)
        info.describe(found)
        contents.as_json(path)
        contents.weights(path)
        out.mkdir()
        try:
            made = extract(path, out)
            again = folder / "again.bmodel"
            combine(made, again)
            if len(read(again).nets) > len(found.nets):
                raise Finding("combine made more nets than extract was given")
        except (ModelError, UsageError) as error:
            return f"read, not taken apart: {type(error).__name__}"
        finally:
            for file in out.iterdir():
                file.unlink()
            out.rmdir()
        return "read"

    def close(self) -> None:
        self._folder.cleanup()


def make() -> Any:
    return BModelFiles()
