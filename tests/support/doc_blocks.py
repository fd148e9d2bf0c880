"""Fenced code blocks of the documentation, and how each is run.

- ```bash: run with `bash -euo pipefail` in the page's workspace.
- ```python: run with this Python in the page's workspace.
- ```c / ```cpp / ```python whose first line is a comment with a path (`/* device/x.c */`, `// host/x.h`,
  `# caffe/x.py`): written to that file of the workspace.
- anything after a line `<!-- excerpt: REASON -->` is not run; the reason is required.
- ```text is output, not run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)[^\n]*$")
_EXCERPT = re.compile(r"^<!-- excerpt: (.+) -->$")
_FOLDERS = "device|host|include|examples|caffe|imp_bmnetu"
_PATH = re.compile(rf"^(?:/\*|//|#)\s*((?:{_FOLDERS})/[\w./-]+)\s*(?:\*/)?$")

RUN = ("bash", "python")
SOURCE = ("c", "cpp", "python")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, text, first line in the page, target file, and excuse if any."""

    language: str
    text: str
    line: int
    path: str | None
    excerpt: str | None


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page. ValueError for a fence that never closes or has no language."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    excerpt: str | None = None
    i = 0
    while i < len(lines):
        if m := _EXCERPT.match(lines[i]):
            excerpt = m.group(1)
        elif m := _FENCE.match(lines[i]):
            language, start = m.group(1), i + 1
            if not language:
                raise ValueError(f"{page.name}:{start}: a fence without a language")
            i += 1
            body: list[str] = []
            while i < len(lines) and lines[i] != "```":
                body.append(lines[i])
                i += 1
            if i == len(lines):
                raise ValueError(f"{page.name}:{start}: a fence that never closes")
            target = _PATH.match(body[0]) if body and language in SOURCE else None
            found.append(Block(language, "\n".join(body) + "\n", start, target and target.group(1), excerpt))
            excerpt = None
        elif lines[i].strip():
            excerpt = None
        i += 1
    return found
