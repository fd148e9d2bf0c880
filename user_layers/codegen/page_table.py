"""Tables of the documentation whose rows are made."""

from __future__ import annotations

import re

from firmware_sim.errors import SourceError


def with_table(page: str, columns: int, rows: str) -> str:
    """The page with these rows below the heading of its table of so many columns. Errors: SourceError when
    it has not exactly one."""
    heading = r"\n\|" + r"---\|" * columns + r"\n"
    made, count = re.subn(rf"(?<={heading})(?:\|.*\n)*", lambda _: rows, page)
    if count != 1:
        raise SourceError(f"the page has {count} tables of {columns} columns to be made, expected 1")
    return made
