"""What runs, in order: the parts of a net with what happens in each."""

from __future__ import annotations

from dataclasses import dataclass

from user_layers.compiler.grouping import Segment
from user_layers.compiler.partition import Part


@dataclass(frozen=True)
class PartPlan:
    """One part. segments: of a static one, in which each of its nodes is once; arena_bytes: DDR for what
    the firmware allocates in a dynamic one; note: what is to be said of how the segments were found."""

    part: Part
    segments: tuple[Segment, ...] = ()
    arena_bytes: int = 0
    note: str = ""


@dataclass(frozen=True)
class Schedule:
    """All parts. dynamic: the net's inputs and outputs have no fixed place, the runtime allocates them."""

    parts: tuple[PartPlan, ...]
    dynamic: bool = False

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those of all static parts, in order."""
        return tuple(segment for plan in self.parts for segment in plan.segments)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of how those of static parts were found."""
        return tuple(plan.note for plan in self.parts if plan.note)
