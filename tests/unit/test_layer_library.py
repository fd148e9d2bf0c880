"""What built-in layers share stands in sdk/layers/lib: once, compiled once, under names of the toolkit."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.paths import ROOT

LAYERS = ROOT / "sdk" / "layers"
SHORT = 3  # lines of an inline function's body
# The descriptors, which are C++, compile these too.
LONGER = {"bm_attend_room_of", "bm_binary_work", "bm_unary_work", "bm_detection_buffer_at"}


class Function(NamedTuple):
    """A function's definition; parameters and body without their white space."""

    file: str
    static: bool
    name: str
    parameters: str
    body: str
    lines: int


_DEFINITION = re.compile(r"^(static )?(?:inline )?(?:const )?[\w ]+?[ *](\w+)\(([^;{]*?)\) \{", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def functions(path: Path) -> list[Function]:
    text = _COMMENT.sub("", path.read_text())
    found = []
    for m in _DEFINITION.finditer(text):
        depth, end = 1, m.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        body = text[m.end() : end - 1]
        lines = sum(1 for line in body.splitlines() if line.strip())
        arguments, squeezed = (" ".join(part.split()) for part in (m[3], body))
        found.append(Function(path.name, m[1] is not None, m[2], arguments, squeezed, lines))
    return found


FOUND = [
    x
    for folder in ("device", "lib")
    for path in sorted((LAYERS / folder).glob("*.[ch]"))
    for x in functions(path)
]


def test_functions_are_found() -> None:
    names = {x.name for x in FOUND}
    assert {"bm_run_tiles", "bm_axis_part", "smaller", "conv_global", "load_step"} <= names
    assert len(FOUND) > 300


def test_headers_hold_short_functions_only() -> None:
    headers = [x for x in FOUND if x.file.endswith(".h")]
    assert all(x.static for x in headers)
    assert {x.name for x in headers if x.lines > SHORT} == LONGER


def test_no_function_exists_twice() -> None:
    same = defaultdict(list)
    entries = ("_shape", "_global", "_local")  # a layer's own, whatever they do
    for x in FOUND:
        if x.static or not x.name.endswith(entries):
            same[x.parameters, x.body].append(f"{x.file}: {x.name}")
    assert [places for places in same.values() if len(places) > 1] == []


def test_names_of_the_library_are_the_toolkits() -> None:
    """All layers are linked into one firmware: a user's function may have any name but bm_..."""
    own = [x for x in FOUND if x.file.startswith("bm_layer_") and not x.static]
    assert len(own) > 40
    assert [x.name for x in own if not x.name.startswith("bm_")] == []


def test_layers_hold_no_headers() -> None:
    assert not list((LAYERS / "device").glob("*.h"))
    assert {path.name[:9] for path in (LAYERS / "lib").iterdir()} == {"bm_layer_"}
