"""Writes the list of operations in docs/litert.md: `python -m user_layers.tflite.page`, in a checkout."""

from __future__ import annotations

import textwrap
from pathlib import Path

from user_layers.files import write_if_changed
from user_layers.tflite.spellings import TFLITE
from user_layers.workspace import sdk_dir

_HEADING = "made by `python -m user_layers.tflite.page`):\n\n"


def page_path() -> Path:
    """Where the page is, in a checkout."""
    return sdk_dir().parent / "docs" / "litert.md"


def with_operations(page: str) -> str:
    """The page with the list that is true now, which is the last thing on it."""
    head, found, _ = page.partition(_HEADING)
    assert found, "the page has no such list"
    names = ", ".join(sorted(TFLITE)) + "."
    return head + found + textwrap.fill(names, 120, break_long_words=False, break_on_hyphens=False) + "\n"


if __name__ == "__main__":
    path = page_path()
    write_if_changed(path, with_operations(path.read_text()))
