"""The table of docs/built-in-layers.md, from the first comments of the layers' C files.

Such a comment ends with what the page says of the layer's inputs and of what it makes:

    Inputs: x, perhaps scale, perhaps shift
    Makes: layer, group, instance and RMS normalization
"""

from __future__ import annotations

import re
from pathlib import Path

from firmware_sim.errors import SourceError

_HEAD = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_STAR = re.compile(r"^ \* ?", re.MULTILINE)
_OP = re.compile(r"^__BM_PARAM__\((\w+)\)", re.MULTILINE)


def layer_table(device_dir: Path) -> str:
    """The rows, one for each layer in device_dir, by name. Errors: SourceError names a file whose first
    comment lacks one of the two."""
    return "".join(row for _, row in sorted(_row(path) for path in device_dir.glob("*.c")))


def _row(path: Path) -> tuple[str, str]:
    """The layer's name and its row."""
    text = path.read_text(encoding="utf-8")
    op, head = _OP.search(text), _HEAD.match(text)
    if op is None or head is None:
        what = "no __BM_PARAM__" if op is None else "no comment at its start"
        raise SourceError(f"{path}: {what}", hint="a built-in layer's file begins with what the layer does")
    comment = _STAR.sub("", head[1])
    local = "yes " if f"__BM_LOCAL__({op[1]})" in text else ""
    inputs, makes = _said(path, comment, "Inputs"), _said(path, comment, "Makes")
    return op[1], f"| `{op[1]}` | {local}| {inputs} | {makes} |\n"


def _said(path: Path, comment: str, word: str) -> str:
    """What the comment says behind `word:`, with lines that are indented below."""
    found = re.search(rf"^{word}: (.+(?:\n    .+)*)", comment, re.MULTILINE)
    if found is None:
        raise SourceError(
            f"{path}: the first comment has no line that begins with `{word}:`",
            hint="docs/built-in-layers.md says it of every layer",
        )
    return " ".join(found[1].split())
