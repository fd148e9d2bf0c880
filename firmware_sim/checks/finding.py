"""One finding of a check, as the device process sends it and as users see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from firmware_sim.checks.rules import RULES, Rule


@dataclass(frozen=True)
class Frame:
    """A place in the user's code: file as its debug information has it, line, function ("" unknown)."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class Issued:
    """Who issued a command. engine: "BD", "GDMA" or "controller"; id: the engine's number of it; name: its
    instruction; frames: innermost first, the user's functions; layer, node, tile: of a net; group: the
    command group of a static net, counted from 1."""

    engine: str
    id: int
    name: str
    frames: tuple[Frame, ...] = ()
    layer: str = ""
    node: str = ""
    tile: str = ""
    group: int = 0


@dataclass(frozen=True)
class Finding:
    """what: the sentence, without place and hint; operand: which one ("res0"); tensor: the buffer or tensor
    it lies in; address: "lane 3 +0x1000", "ddr +0x200"; lanes: those concerned; nbytes: how many bytes are
    wrong; other: the other command of a hazard, or who wrote what is wrong; proof: what another legal order
    changes; count: how often the same was found at this place."""

    rule: str
    what: str
    by: Issued | None = None
    operand: str = ""
    tensor: str = ""
    address: str = ""
    lanes: tuple[int, ...] = ()
    nbytes: int = 0
    other: Issued | None = None
    proof: str = ""
    count: int = 1
    more: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        frames = self.by.frames if self.by is not None else ()
        place = f" at {frames[0].file}:{frames[0].line}" if frames else ""
        return f"<Finding {self.rule}{place}: {self.what}>"

    def _repr_html_(self) -> str:
        """For Jupyter: as commands tell it."""
        import html

        from firmware_sim.checks.text import told

        return f"<pre>{html.escape(told(self))}</pre>"

    @property
    def about(self) -> Rule:
        """The row of the table of rules."""
        return RULES[self.rule]

    @property
    def key(self) -> tuple[object, ...]:
        """Findings with the same key are one, counted."""
        by, other = self.by, self.other
        return (
            self.rule,
            by and (by.engine, by.frames or by.name, by.layer, by.node),
            self.tensor or self.operand,
            other and (other.engine, other.frames or other.name),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, texts and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """What `to_json` made."""

        def issued(one: Mapping[str, Any] | None) -> Issued | None:
            if one is None:
                return None
            return Issued(**{**one, "frames": tuple(Frame(**frame) for frame in one["frames"])})

        plain = {**data, "by": issued(data["by"]), "other": issued(data["other"])}
        return cls(**{**plain, "lanes": tuple(data["lanes"])})


Attribute = Callable[[Issued], Issued]
"""Says more of who issued a command of a stored stream, which is known where the stream was recorded."""


def attributed(finding: Finding, attribute: Attribute | None) -> Finding:
    """The same finding, with what `attribute` knows of its commands in stored streams."""
    if attribute is None:
        return finding

    def more(one: Issued | None) -> Issued | None:
        return attribute(one) if one is not None and one.group and not one.frames else one

    return replace(finding, by=more(finding.by), other=more(finding.other))
