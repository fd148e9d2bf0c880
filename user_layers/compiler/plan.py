"""What the passes decide for a net."""

from __future__ import annotations

from dataclasses import dataclass

from firmware_sim.wire import Program
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.ddr import DdrPlan
from user_layers.compiler.mode import Mode
from user_layers.compiler.schedule import Schedule


@dataclass(frozen=True)
class Plan:
    """Everything of a compile that needs no device. programs: of each part that is not on the host.

    described: the net with its nodes in the order in which they run.
    """

    described: DescribedNet
    mode: Mode
    schedule: Schedule
    ddr: DdrPlan
    programs: tuple[Program | None, ...]
