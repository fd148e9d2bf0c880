"""What the firmware runs of a dynamic program for the compiled shapes, as a program with fixed ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind
from user_layers.compiler.ddr import DDR_ALIGN, DdrPlan


def at_compiled_shapes(program: Program, ddr: DdrPlan, *, whole: bool) -> Program:
    """Dynamic program -> fixed one, in which every group runs on its tiles.

    whole: with the layers outside of groups. Constants lie where `ddr` has them; every other tensor and work
    buffer gets memory of its own from the context's start on, for nobody knows where the firmware puts it.
    """
    free = ddr.ctx_addr

    def take(nbytes: int) -> int:
        nonlocal free
        at, free = free, free + -(-nbytes // DDR_ALIGN) * DDR_ALIGN
        return at

    def placed(t: ProgramTensor) -> ProgramTensor:
        if t.kind in (TensorKind.LOCAL, TensorKind.L2):
            return t
        constant = t.kind is TensorKind.COEFF
        return replace(
            t, tensor=t.tensor.at(ddr.coeff_addr + t.tensor.addr if constant else take(t.max_bytes))
        )

    found = Program([placed(t) for t in program.tensors], in_num=program.in_num, out_num=program.out_num)
    new: dict[int, int] = {}  # numbers of steps
    skipped = range(0)
    for at, step in enumerate(program.steps):
        if step.opcode is StepOp.GROUP:
            behind = at + 1 + step.local_steps
            skipped = range(behind, behind + step.global_steps)
        elif at not in skipped and (whole or step.opcode is not StepOp.GLOBAL):
            new[at] = len(found.steps)
            found.steps.append(_moved(step, new, take))
    return found


def _moved(step: Step, new: dict[int, int], take: Callable[[int], int]) -> Step:
    if step.opcode is StepOp.WAIT:
        return replace(step, bd_after=new[step.bd_after], gdma_after=new[step.gdma_after])
    if step.opcode is StepOp.GLOBAL and step.buffer_bytes:
        return replace(step, buffer_addr=take(step.buffer_bytes))
    return step
