"""Facts by file content: one JSON file, so that an unchanged workspace is scanned by reading it.

An entry is used when the file and everything it depends on (headers; also headers that were looked
for and not found) have the content that they had. All of it is hashed each time: that costs about
20 microseconds per file and, unlike time stamps, is never wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from user_layers.files import write_atomic
from user_layers.scan.model import FileFacts, from_json, to_json


def digest(data: bytes) -> str:
    """What contents are compared by: 128 bits of BLAKE2b, as hex digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def scanner_version() -> str:
    """Changes whenever the scanner itself does."""
    h = hashlib.blake2b(digest_size=16)
    folder = Path(__file__).parent
    for path in sorted([*folder.glob("*.py"), *folder.glob("fake_libc/**/*.h")]):
        h.update(path.read_bytes())
    return h.hexdigest()


class Cache:
    """The cache of one workspace. `settings` are whatever else a result depends on."""

    def __init__(self, path: Path, settings: str) -> None:
        self._path = path
        self._version = digest((scanner_version() + settings).encode())
        self._content: dict[str, str] = {}
        self._old: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        try:
            data = json.loads(path.read_bytes())
            if data["version"] == self._version:
                self._old = dict(data["files"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # none yet, another version, or damaged: it is written again
        self._changed = not self._old

    def _digest_of(self, path: str) -> str:
        if path not in self._content:
            try:
                self._content[path] = digest(Path(path).read_bytes())
            except OSError:
                self._content[path] = ""
        return self._content[path]

    def get(self, path: Path, data: bytes) -> FileFacts | None:
        """The stored facts of a file with this content, None when they must be found again."""
        key = str(path)
        entry = self._old.get(key)
        if entry is None or entry["content"] != digest(data):
            return None
        try:
            if any(self._digest_of(p) != d for p, d in entry["facts"]["depends"].items()):
                return None
            facts = from_json(entry["facts"])
        except (ValueError, KeyError, TypeError, IndexError):
            return None
        self._new[key] = entry
        return facts

    def put(self, path: Path, data: bytes, facts: FileFacts) -> None:
        """Keep the facts of a file for this content; `save` writes them."""
        self._new[str(path)] = {"content": digest(data), "facts": to_json(facts)}
        self._changed = True

    def save(self) -> None:
        """Write the cache if anything in it is new; entries of files that are gone are dropped."""
        if self._changed or self._new.keys() != self._old.keys():
            text = json.dumps({"version": self._version, "files": self._new}, separators=(",", ":"))
            with contextlib.suppress(OSError):  # a read-only folder costs time, nothing else
                write_atomic(self._path, text, durable=False)
