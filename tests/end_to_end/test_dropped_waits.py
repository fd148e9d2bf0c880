"""What the check of programs finds when waits are dropped, the check of recorded commands finds, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from firmware_sim.checks.streams import hazards
from firmware_sim.wire import Program, StepOp
from tests.support.group_graphs import GRAPHS
from tests.support.program_checker import Checker
from tests.support.workspaces import builtin_toolkit
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.plan import Plan
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit

_TRIED = 8  # waits of each net


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


def wrong(plan: Plan, program: Program) -> bool:
    """Whether the check of programs finds something."""
    try:
        Checker(plan.described, plan.ddr, program).run()
    except AssertionError as error:
        # It knows no lanes: parts of one concatenation that share a row are told, and do not meet.
        return str(error).count("mode='w'") < 2
    return False


@pytest.mark.parametrize(
    # dense: a part of its concatenation in DDR lies where the check of programs knows of no tensor
    "name",
    [
        "inception",
        *(pytest.param(n, marks=pytest.mark.slow) for n in GRAPHS if n not in ("inception", "dense")),
    ],
)
def test_dropped_waits(toolkit: Toolkit, name: str) -> None:
    graph = GRAPHS[name](toolkit, (1, 64, 28, 28))
    plan = plan_net(gather_attributes(infer_shapes(graph), toolkit), opt=2)
    [program] = plan.programs
    assert program is not None
    assert not wrong(plan, program)
    assert not list(hazards(toolkit.device.record(program).groups))
    waits = [i for i, step in enumerate(program.steps) if step.opcode is StepOp.WAIT]
    tried = np.random.default_rng(1684).permutation(waits)[:_TRIED].tolist()
    found = 0
    for at in tried:
        mutant = without(program, at)
        told = bool(list(hazards(toolkit.device.record(mutant).groups)))
        assert told or not wrong(plan, mutant), f"step {at} of {name}"
        found += told
    assert found > len(tried) // 2
