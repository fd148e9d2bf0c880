"""Writes the list of operations in docs/litert.md: `python -m user_layers.tflite.page`, in a checkout."""

from __future__ import annotations

from user_layers.spelling.page import page_path, rewrite, with_list
from user_layers.tflite.spellings import TFLITE

PAGE = "litert.md"


def with_operations(page: str) -> str:
    """The page with the list that is true now, which is the last thing on it."""
    return with_list(page, "user_layers.tflite.page", sorted(TFLITE))


if __name__ == "__main__":
    rewrite(PAGE, with_operations(page_path(PAGE).read_text()))
