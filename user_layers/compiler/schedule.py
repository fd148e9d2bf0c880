"""What runs, in order: the parts of a net with what happens in each."""

from __future__ import annotations

from dataclasses import dataclass

from user_layers.compiler.grouping import Group, Segment
from user_layers.compiler.partition import Part


@dataclass(frozen=True)
class PartPlan:
    """One part. segments: of a static or dynamic one, in which each of its nodes is once (of a dynamic one
    for the compiled shapes); arena_bytes: DDR for what the firmware allocates in a dynamic one; note: what is
    to be said of how the segments were found."""

    part: Part
    segments: tuple[Segment, ...] = ()
    arena_bytes: int = 0
    note: str = ""

    @property
    def grouped(self) -> bool:
        """Whether layers of it run on tiles."""
        return any(isinstance(segment, Group) for segment in self.segments)


@dataclass(frozen=True)
class Schedule:
    """All parts. dynamic: the net's inputs and outputs have no fixed place, the runtime allocates them."""

    parts: tuple[PartPlan, ...]
    dynamic: bool = False

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those of all parts, in order."""
        return tuple(segment for plan in self.parts for segment in plan.segments)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of how they were found."""
        return tuple(plan.note for plan in self.parts if plan.note)
