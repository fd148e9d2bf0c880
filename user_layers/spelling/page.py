"""Lists of operations in the documentation, which are made from the tables of spellings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from user_layers.files import write_if_changed
from user_layers.workspace import sdk_dir

_WIDTH = 120


def page_path(name: str) -> Path:
    """Where a page is, in a checkout."""
    return sdk_dir().parent / "docs" / name


def with_list(page: str, module: str, names: Iterable[str], more: str = "") -> str:
    """A page whose list, the last thing on it, is the names; above it stands which module makes it. more:
    Markdown behind the list."""
    heading = f"made by `python -m {module}`):\n\n"
    head, found, _ = page.partition(heading)
    assert found, f"the page has no list that {module} makes"
    listed = textwrap.fill(", ".join(names) + ".", _WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"{head}{found}{listed}\n{more}"


def rewrite(name: str, page: str) -> None:
    """Write a page if it is another one now."""
    write_if_changed(page_path(name), page)
