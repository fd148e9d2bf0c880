"""What the passes decide for a net."""

from __future__ import annotations

from dataclasses import dataclass

from firmware_sim.wire import Program
from user_layers.compiler.at_compiled import at_compiled_shapes
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.ddr import DdrPlan
from user_layers.compiler.mode import Kind, Mode
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

    def recordable(self, part: int) -> Program | None:
        """What is recorded of a part: all of a static one, the groups of a dynamic one for the compiled
        shapes; None where there is nothing."""
        planned, program = self.schedule.parts[part], self.programs[part]
        if program is None or planned.part.kind is Kind.STATIC:
            return program
        return at_compiled_shapes(program, self.ddr, whole=False) if planned.grouped else None
