"""How objects show themselves at a prompt: one line with names, shapes and sizes, never the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Commands(Protocol):
    """A command group (wire.CommandGroup): how many descriptors it holds for each engine."""

    @property
    def bd_num(self) -> int:
        """Descriptors of the tensor unit."""

    @property
    def gdma_num(self) -> int:
        """Descriptors of the DMA engine."""


_NAMES = 4  # of tensors and the like; the rest is counted
_ITEMS = 8  # of a sequence, as a shape has at most
_BYTES = 16  # that are shown as they are
_LETTERS = 60  # of a text


def brief(self: object) -> str:
    """A `__repr__` for dataclasses: every field, long ones by their size alone."""
    values = ((f.name, getattr(self, f.name)) for f in fields(self) if f.repr)  # type: ignore[arg-type]
    return f"{type(self).__name__}({', '.join(f'{name}={_value(value)}' for name, value in values)})"


def listed(texts: Iterable[str], separator: str = ", ") -> str:
    """The first few of some texts, and how many more there are."""
    found = list(texts)
    more = [f"and {len(found) - _NAMES} more"] if len(found) > _NAMES else []
    return separator.join([*found[:_NAMES], *more]) or "(none)"


def count(number: int, what: str) -> str:
    """`1 layer`, `2 layers`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def tensor(name: str, shape: Sequence[int] | None = None, dtype: str = "", *, varies: bool = False) -> str:
    """`x [1, 3, 64, 64] float32`; shape: None where nothing is known yet. varies: shape is the largest."""
    known = name if name.isprintable() else repr(name)
    most = "at most " if varies else ""
    return known if shape is None else f"{known} {most}{list(shape)} {dtype}".rstrip()


def array(value: Any) -> str:
    """`[1, 3, 64, 64] float32` of a numpy array."""
    return f"{list(value.shape)} {value.dtype}"


def edges(inputs: Iterable[str], outputs: Iterable[str]) -> str:
    """What goes in and what comes out."""
    return f"{listed(inputs)} -> {listed(outputs)}"


def mode(dynamic: bool, n_dynamic: bool, c_dynamic: bool, h_w_dynamic: bool) -> str:
    """`static` or `dynamic`, and what of a dynamic net's inputs may not vary."""
    if not dynamic:
        return "static"
    kinds = (("n", n_dynamic), ("c", c_dynamic), ("h, w", h_w_dynamic))
    fixed = [axes for axes, varies in kinds if not varies]
    return f"dynamic ({', '.join(fixed)} fixed)" if fixed else "dynamic"


def commands(groups: Iterable[Commands]) -> str:
    """How many descriptors some command groups hold."""
    found = list(groups)
    return f"{sum(g.bd_num for g in found)} BD and {sum(g.gdma_num for g in found)} GDMA commands"


def _value(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return repr(bytes(value)) if len(value) <= _BYTES else f"<{len(value)} bytes>"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str):
        return repr(value) if len(value) <= _LETTERS else f"<{len(value)} letters>"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return f"{{{_items(list(value.items()), lambda pair: f'{_value(pair[0])}: {_value(pair[1])}')}}}"
    if isinstance(value, (tuple, list)):
        left, right = "()" if isinstance(value, tuple) else "[]"
        only = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"{left}{_items(value, _value)}{only}{right}"
    if hasattr(value, "__array_interface__"):  # without importing numpy
        return f"<{array(value)}>"
    return repr(value)


def _items(values: Sequence[T], text: Callable[[T], str]) -> str:
    more = f", and {len(values) - _ITEMS} more" if len(values) > _ITEMS else ""
    return ", ".join(map(text, values[:_ITEMS])) + more
