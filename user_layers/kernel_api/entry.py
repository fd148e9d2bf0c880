"""What the reference states about one function of the kernel API.

Formulas are numpy expressions over the operands by name; `old` is what the result held before the call. Costs
are Python expressions over the extents n, c, h, w and these names:

    L  channel slots of an NPU, ceil((NPU + c) / 64)
    P  steps of 16 pixels in a channel, ceil(h * w / 16)

Tests evaluate both.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


class Level(enum.Enum):
    """What happens where a limit is broken: the kernel ends, or the log says so and it goes on."""

    ERROR = "refused"
    WARNING = "a warning"


class Layout(enum.Enum):
    """Where the elements of an operand lie."""

    STRIDED = "strided (NULL: aligned)"
    EXPLICIT = "strided"
    ALIGNED = "aligned"
    CHANNEL = "one element for each channel, compact"
    SYSTEM = "strided (NULL: continuous)"
    CONTINUOUS = "continuous"
    COMPACT = "compact"
    MATRIX = "matrix"
    SYSTEM_MATRIX = "rows of row_stride elements"
    WEIGHTS = "weights"
    TABLE = "a table"


@dataclass(frozen=True)
class Operand:
    """One operand in memory. name: the parameter or field without `_addr`; unit: what its address is a
    multiple of, in bytes (0 for unit_without_strides: the same without strides); extent: its size where it is
    not `shape`; note: what else is to know."""

    name: str
    element: str
    layout: Layout
    role: str = "input"
    unit: int = 4
    extent: str = ""
    note: str = ""
    unit_without_strides: int = 0

    @property
    def place(self) -> str:
        """The memory that it lies in."""
        if self.layout in (Layout.SYSTEM, Layout.CONTINUOUS, Layout.SYSTEM_MATRIX):
            return "DDR or L2"
        return "L2" if self.layout is Layout.TABLE else "local memory"


def aligned(
    name: str, element: str = "fp32", role: str = "input", extent: str = "", note: str = ""
) -> Operand:
    """An operand on the aligned layout."""
    return Operand(name, element, Layout.ALIGNED, role, 128, extent, note)


@dataclass(frozen=True)
class Limit:
    """The numbers low..high of an argument, or of each entry of a list; None: no limit but that of the type,
    or of the descriptor's field. text: what the reference says in place of the bare range; hidden: another
    limit says it already. given: the other arguments for which it holds, as a test sets them.
    """

    argument: str
    low: int | None
    high: int | None
    text: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    level: Level = Level.ERROR
    hidden: bool = False

    def said(self) -> str:
        """The limit in words."""
        if self.text:
            return self.text
        if self.high is None:
            return f"{self.argument} from {self.low}"
        return f"{self.argument} {self.low}..{self.high}"


_ANY = "of any extent (large ones in several commands)"


@dataclass(frozen=True)
class Extents:
    """How large `shape` (or input_shape) may be: beyond its limit an axis of `cut` becomes several commands,
    each other one is refused. strided: the same with strides or an unaligned address, where that differs."""

    most: Mapping[str, int]
    cut: str = ""
    strided: Extents | None = None
    strided_when: str = "with strides or an address off 128"
    argument: str = "shape"

    def said(self) -> str:
        """The extents in words."""
        out = f"{self.argument} {self._ranges()}"
        if self.strided is not None:
            out += f"; {self.strided_when} {self.strided._ranges()}"
        return out

    def _ranges(self) -> str:
        if self.cut == "nchw":
            return _ANY
        groups: dict[int, list[str]] = {}
        for axis, most in self.most.items():
            groups.setdefault(0 if axis in self.cut else most, []).append(axis)
        ranges = {most: f"1..{most}" if most else _ANY for most in groups}
        return "; ".join(f"{', '.join(axes)} {ranges[most]}" for most, axes in groups.items())


_WORDS = {"n": 65519, "c": 4095, "h": 65519, "w": 65519}  # of one piece
FIELDS = Extents({"n": 65535, "c": 4095, "h": 65535, "w": 65535})
CUT = Extents(_WORDS, "nchw")
CUT_WITH_STRIDES = replace(FIELDS, strided=CUT)


@dataclass(frozen=True)
class Cost:
    """What one call issues, by the names of docs/isa.md, and the cycles of that at 550 MHz. when: in which
    case; commands: how many, where it is not one for each of `issues`."""

    issues: tuple[str, ...]
    cycles: str
    when: str = ""
    commands: str = ""


@dataclass(frozen=True)
class Entry:
    """One function. formula: of the result (the first operand); within: how far the emulator may be from it,
    as a part of `within_of`, 0: the same bits. in_place: the inputs that the result may be; apart: operands
    that are not at one address, and apart_level what happens else; values: arguments of which only some
    numbers exist."""

    name: str
    does: str
    formula: str = ""
    within: float = 0.0
    operands: tuple[Operand, ...] = ()
    extents: Extents | None = None
    limits: tuple[Limit, ...] = ()
    costs: tuple[Cost, ...] = ()
    in_place: tuple[str, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    values: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    within_of: str = "the value"
    apart_level: Level = Level.WARNING


@dataclass(frozen=True)
class Family:
    """Functions that belong together, with what holds for all of them."""

    title: str
    text: str
    entries: tuple[Entry, ...]
