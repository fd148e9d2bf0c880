"""Files of other frameworks, .tflite, .ms and .mindir, read."""

from __future__ import annotations

from typing import Any

from tests.fuzz.guided import Guided
from tests.paths import TESTS


class ForeignFiles(Guided):
    """An input is a file; those of TFLite to begin with are in the corpus."""

    longest = 1 << 13
    words = (b"TFL3", b"MSL2", b"\x0c\0\0\0", b"\xff\xff\xff\xff")
    name = "foreign"

    def seeds(self) -> list[bytes]:
        from tests.fuzz.guided import kept

        files = sorted((TESTS / "sources" / "mindspore").glob("*.m*"))
        return [path.read_bytes() for path in files] + [
            data for data in kept(self.name) if data[4:8] == b"TFL3"
        ]

    def one(self, data: bytes) -> str:
        from user_layers.mindir.mindir import read_mindir
        from user_layers.mindir.ms import read_ms
        from user_layers.tflite.read import read_tflite

        kind = data[4:8]
        if kind == b"TFL3":
            read_tflite(data)
        elif kind == b"MSL2":
            read_ms(data)
        else:
            read_mindir(data)
        return f"read {kind!r}" if kind in (b"TFL3", b"MSL2") else "read"


def make() -> Any:
    return ForeignFiles()
