"""Programs with more numbers for the controller than it has memory for."""

import pytest

from firmware_sim.arm.layout import SCRATCH_BYTES
from firmware_sim.errors import CompileError
from firmware_sim.wire import DType, Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from user_layers.compiler.controller_memory import check_controller_memory

MOST = SCRATCH_BYTES // 8  # numbers, in the program and once more for the layer


def program(**layers: int) -> Program:
    """A layer of each name that reads so many numbers."""
    made = Program()
    for name, count in layers.items():
        values = tuple(range(count)) if count else None
        record = TensorRecord((count or 1,), dtype=DType.INT32, host_data=values)
        made.steps.append(
            Step(StepOp.GLOBAL, (made.add(ProgramTensor(TensorKind.COEFF, record)),), name=name)
        )
    return made


def test_numbers_up_to_the_memory_are_not_refused() -> None:
    check_controller_memory(program(plain=0, chosen=MOST), "net")


def test_the_layers_that_take_most_are_named() -> None:
    wrong = program(plain=0, small=10, chosen=MOST - 10, placed=1 << 19)
    with pytest.raises(
        CompileError,
        match=r"net 'big': .* has 16\.0 MiB .* 20\.0 MiB of it: chosen 16\.0 MiB, placed 4",
    ) as refused:
        check_controller_memory(wrong, "big")
    assert "plain" not in refused.value.message and "parts" in refused.value.hint
