"""The functions of okk.h and bm_atomic.h, from the headers themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from user_layers.workspace import sdk_dir

HEADERS = ("okk.h", "bm_atomic.h")
PROTOTYPE = re.compile(r"^([\w ]+?\*?)\s*\b((?:okk|bm)_\w+)\(([^()]*)\);", re.M)
REGISTRATION = "okk_register_kernel_func"
"""What OKKERNEL_FUNC_REGISTER calls before a kernel runs; no kernel calls it."""

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_STRUCT = re.compile(r"^typedef struct \{([^{}]*)\} (\w+);", re.M)


@dataclass(frozen=True)
class Function:
    """One prototype: parameters as (type, name); struct: the type that param points to (bm_atomic.h)."""

    index: int
    name: str
    result: str
    parameters: tuple[tuple[str, str], ...]
    struct: str | None
    header: str


def code_of(header: str) -> str:
    """The text of a header without its comments."""
    return _COMMENT.sub("", (sdk_dir() / "include" / header).read_text())


@lru_cache(maxsize=1)
def functions() -> dict[str, Function]:
    """Every function of the kernel API by name, but for kernel registration."""
    found: dict[str, Function] = {}
    for header in HEADERS:
        for result, name, parameters in PROTOTYPE.findall(code_of(header)):
            if name == REGISTRATION or name in found:
                continue
            given = [" ".join(p.split()) for p in parameters.split(",") if p.strip() != "void"]
            split = []
            for p in given:
                word = re.split(r"\W", p)[-1]
                split.append((p[: p.rindex(word)].strip(), word))
            takes_struct = header == "bm_atomic.h" and len(split) == 1 and split[0][1] == "param"
            record = split[0][0].removeprefix("const ").rstrip(" *") if takes_struct else None
            found[name] = Function(len(found), name, result.strip(), tuple(split), record, header)
    return found


@lru_cache(maxsize=1)
def _fields() -> dict[str, tuple[str, ...]]:
    return {name: tuple(_names(body)) for body, name in _STRUCT.findall(code_of("bm_atomic.h"))}


def _names(body: str) -> Iterator[str]:
    for declaration in body.split(";"):
        for declared in declaration.split(","):
            if words := re.findall(r"\w+", re.sub(r"\[\d+\]", "", declared)):
                yield words[-1]


def arguments(function: Function) -> tuple[str, ...]:
    """The names that a caller fills in: parameters, or the fields of the struct of bm_atomic.h."""
    if function.struct is None:
        return tuple(name for _, name in function.parameters)
    return _fields()[function.struct]
