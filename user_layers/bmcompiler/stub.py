"""__init__.pyi: for type checkers, the flat parameters of functions that have records here."""

from __future__ import annotations

import inspect

import user_layers.bmcompiler as module
from user_layers.bmcompiler.calls import (
    BOOL,
    FLOAT,
    FUNCTIONS,
    HANDLE,
    INT,
    TEXT,
    Arrays,
    Bytes,
    Floats,
    Function,
    Ints,
    Parameter,
    Shapes,
    Texts,
    Unread,
)

STUB = "__init__.pyi"  # which `stub` makes

_HEAD = '''\
"""Generated with the toolkit from user_layers/bmcompiler; changes here are lost."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

'''

_TYPES = {HANDLE: "BMCompiler", INT: "int", FLOAT: "float", TEXT: "str", BOOL: "bool"}
_ARRAYS: dict[type, str] = {
    Ints: "Sequence[int]",
    Texts: "Sequence[str]",
    Shapes: "Sequence[Sequence[int]]",
    Floats: "ArrayLike",
    Bytes: "bytes",
    Arrays: "Sequence[ArrayLike]",
    Unread: "None",
}


def stub() -> str:
    """The text of __init__.pyi: functions with records in full, all other names from where they are."""
    functions = [FUNCTIONS[name] for name in module.__all__ if name in FUNCTIONS]
    flat = [function for function in functions if _has_records(function)]
    others = sorted(set(module.__all__) - {function.name for function in flat})
    imports = "".join(f"from {_home(name)} import {name}\n" for name in others)
    names = "".join(f'    "{name}",\n' for name in module.__all__)
    return "\n".join((_HEAD + imports, f"__all__ = [\n{names}]\n", *map(_definition, flat)))


def _has_records(function: Function) -> bool:
    inner = inspect.signature(inspect.unwrap(function.call)).parameters
    return [*inner] != [*inspect.signature(function.call).parameters]


def _home(name: str) -> str:
    """The module that a name of the package is from; numbers are codes."""
    return getattr(getattr(module, name), "__module__", f"{module.__name__}.codes")


def _definition(function: Function) -> str:
    parameters = "".join(f"    {_declaration(p)},\n" for p in function.parameters)
    return f"def {function.name}(\n{parameters}) -> None: ...\n"


def _declaration(parameter: Parameter) -> str:
    kind = parameter.kind
    text = _TYPES[kind] if isinstance(kind, str) else _ARRAYS[type(kind)]
    if parameter.optional and text != "None":
        text += " | None"
    return f"{parameter.name}: {text}" + (" = ..." if parameter.default is not None else "")
