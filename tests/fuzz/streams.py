"""Streams of descriptors from files: shown, and their time modelled, without executing them."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from firmware_sim.chip import DESCRIPTOR_BYTES
from firmware_sim.instructions.instruction import Engine
from tests.fuzz import descriptors
from tests.fuzz.driver import Finding
from tests.fuzz.inputs import Inputs
from tests.fuzz.mutate import damage

_BD, _GDMA = b"B", b"G"


class Streams(Inputs):
    """An input: for each descriptor a letter, B or G, and its 128 bytes. What follows as a file by itself."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)

    def seeds(self) -> list[bytes]:
        found = {}
        for group in descriptors.bases():
            for engine, values in group[:2]:
                data = descriptors.LAYOUTS[engine].encode(**values)
                found[data] = (_BD if engine is Engine.BD else _GDMA) + data
        return list(found.values())

    def changed(self, rng: random.Random, data: bytes) -> bytes:
        if rng.randrange(8) == 0:
            return damage(rng, data)
        made = descriptors.streams(rng)
        return b"".join(
            letter + one
            for engine, letter in ((Engine.BD, _BD), (Engine.GDMA, _GDMA))
            for one in made[engine]
        )

    def one(self, data: bytes) -> str:
        from firmware_sim.timeline import Timer
        from firmware_sim.wire import CommandGroup
        from user_layers.encode.isa import decoded

        streams = {_BD: b"", _GDMA: b""}
        step = DESCRIPTOR_BYTES + 1
        for at in range(0, len(data), step):
            letter = data[at : at + 1]
            streams[letter if letter == _BD else _GDMA] += data[at + 1 : at + step]
        path = Path(self._folder.name) / "streams"
        for letter, engine in ((_BD, "bd"), (_GDMA, "gdma")):
            if not streams[letter]:
                continue
            path.write_bytes(streams[letter])
            found = decoded(str(path), engine)
            if not all(isinstance(line["text"], str) and line["text"] for line in found):
                raise Finding("a descriptor without a text")
        whole = {
            letter: part[: len(part) // DESCRIPTOR_BYTES * DESCRIPTOR_BYTES]
            for letter, part in streams.items()
        }
        timeline = Timer().timeline(CommandGroup(whole[_BD], whole[_GDMA]))
        if not timeline.cycles >= 0:
            raise Finding(f"{timeline.cycles} cycles")
        return "timed"

    def close(self) -> None:
        self._folder.cleanup()


def make() -> Any:
    return Streams()
