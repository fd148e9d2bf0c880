"""What the firmware runs of a dynamic program at the compiled shapes: tiles in groups, each layer once."""

from __future__ import annotations

from itertools import pairwise

from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from user_layers.compiler.at_compiled import at_compiled_shapes
from user_layers.compiler.ddr import Coefficients, DdrPlan

PLAN = DdrPlan({}, {}, {}, Coefficients(b"", {}), 1 << 32, (1 << 32) + 4096, 1 << 20)
STEPS = [
    Step(StepOp.GLOBAL, name="before", buffer_bytes=100),
    Step(StepOp.GROUP, name="group", local_steps=4, global_steps=2),
    Step(StepOp.PARALLEL_START),
    Step(StepOp.LOCAL, name="a on a tile"),
    Step(StepOp.WAIT, bd_after=3, gdma_after=2),
    Step(StepOp.PARALLEL_END),
    Step(StepOp.GLOBAL, name="a"),
    Step(StepOp.GLOBAL, name="b"),
    Step(StepOp.GLOBAL, name="behind", buffer_bytes=300),
]


def test_steps() -> None:
    tensor = ProgramTensor(TensorKind.NEURON, TensorRecord(shape=(3, 5)), max_bytes=60)
    program = Program([tensor, tensor], list(STEPS))
    whole = at_compiled_shapes(program, PLAN, whole=True)
    called = [step.name for step in whole.steps if step.opcode in (StepOp.GLOBAL, StepOp.LOCAL)]
    assert called == ["before", "a on a tile", "behind"]
    (wait,) = (step for step in whole.steps if step.opcode is StepOp.WAIT)
    assert [whole.steps[at].opcode for at in (wait.bd_after, wait.gdma_after)] == [
        StepOp.LOCAL,
        StepOp.PARALLEL_START,
    ]
    tiles = at_compiled_shapes(program, PLAN, whole=False)
    assert [step.opcode for step in tiles.steps] == [step.opcode for step in STEPS[2:6]]


def test_everything_has_memory_of_its_own() -> None:
    tensor = ProgramTensor(TensorKind.NEURON, TensorRecord(shape=(3, 5)), max_bytes=60)
    whole = at_compiled_shapes(Program([tensor, tensor], list(STEPS)), PLAN, whole=True)
    places = [(each.tensor.addr, each.max_bytes) for each in whole.tensors]
    places += [(step.buffer_addr, step.buffer_bytes) for step in whole.steps if step.buffer_bytes]
    places.sort()
    assert places[0][0] == PLAN.ctx_addr and len(places) == 4
    assert all(at + size <= behind for (at, size), (behind, _) in pairwise(places))
