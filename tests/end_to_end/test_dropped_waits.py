"""Nets without one of the waits of their program, looked at without running them: the hazard is found, or the
commands that lost their order have no memory in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from firmware_sim.checks.hazard import conflicts
from firmware_sim.checks.sequence import BD, GDMA, Records, Sequence
from firmware_sim.checks.streams import batch_of_group, hazards
from firmware_sim.errors import CompileError
from firmware_sim.wire import CommandGroup, Program, StepOp
from tests.support.group_graphs import GRAPHS
from tests.support.workspaces import builtin_toolkit
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.plan import Plan
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.verify import verify
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as toolkit:
        yield toolkit


def without(program: Program, at: int) -> Program:
    """The program whose step `at`, a wait, waits only for the begin of its section."""
    start = max(i for i in range(at) if program.steps[i].opcode is StepOp.PARALLEL_START)
    steps = list(program.steps)
    steps[at] = replace(steps[at], bd_after=start, gdma_after=start)
    return replace(program, steps=type(program.steps)(steps))


def unordered(sequence: Sequence) -> set[tuple[int, int]]:
    """All pairs of a GDMA and a BD command, by their numbers, that may run in either order."""
    found = set()
    for g, transfer in enumerate(sequence.position[GDMA].tolist()):
        for b, call in enumerate(sequence.position[BD].tolist()):
            if b >= sequence.after[transfer] and g >= sequence.after[call]:
                found.add((g, b))
    return found


def harmless(group: CommandGroup, mutant: CommandGroup) -> bool:
    """Whether the pairs of commands that lost their order use no byte of any lane together, one writing."""
    before, after = (Records().sequence(batch_of_group(one)) for one in (group, mutant))
    for g, b in unordered(after) - unordered(before):
        transfer, call = after.position[GDMA][g], after.position[BD][b]
        if next(conflicts(after.records[transfer], after.records[call]), None) is not None:
            return False
    return True


def refused(plan: Plan, program: Program) -> bool:
    """Whether the compiler would not have let the program pass."""
    try:
        verify(replace(plan, programs=(program,)))
    except CompileError as error:
        assert "without an order" in error.message
        return True
    return False


@pytest.mark.parametrize(
    "name", ["inception", *(pytest.param(n, marks=pytest.mark.slow) for n in GRAPHS if n != "inception")]
)
def test_dropped_waits(toolkit: Toolkit, name: str) -> None:
    graph = GRAPHS[name](toolkit, (1, 64, 28, 28))
    plan = plan_net(prepare_constants(gather_attributes(infer_shapes(graph), toolkit)), opt=2)
    [program] = plan.programs
    assert program is not None
    groups = toolkit.device.record(program).groups
    assert not list(hazards(groups))
    found, waits = 0, [i for i, step in enumerate(program.steps) if step.opcode is StepOp.WAIT]
    for at in waits:
        mutant = without(program, at)
        commands = toolkit.device.record(mutant).groups
        if any(hazards(commands)):
            assert refused(plan, mutant), f"step {at} of {name}"
            found += 1
        else:
            assert all(map(harmless, groups, commands)), f"step {at} of {name}"
    assert found > len(waits) // 2
