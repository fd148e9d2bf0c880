"""Whether a program fits into the memory that the controller has for one request.

The firmware keeps the program there, and a copy of the numbers that layers read themselves (NEURON_SHAPE).
Only these can be large; what else a request takes is not counted, so that nothing is refused here that would
run.
"""

from collections import Counter

from firmware_sim.arm.layout import SCRATCH_BYTES
from firmware_sim.errors import CompileError
from firmware_sim.wire import Program

_KEPT = 2 * 4  # bytes for each number: in the program, and as the layer gets it
_NAMED = 3


def check_controller_memory(program: Program, net: str) -> None:
    """Raises CompileError, which names the layers that need most, for a program that cannot fit."""
    kept = {i: _KEPT * len(t.tensor.host_data or ()) for i, t in enumerate(program.tensors)}
    need = sum(kept.values())
    if need <= SCRATCH_BYTES:
        return
    of: Counter[str] = Counter()
    for step in program.steps:
        of[step.name] = max(of[step.name], sum(kept[i] for i in step.inputs))
    most = ", ".join(f"{name} {_mebibytes(count)}" for name, count in of.most_common(_NAMED) if count)
    raise CompileError(
        f"net {net!r}: the controller has {_mebibytes(SCRATCH_BYTES)} for one program; numbers that layers "
        f"read themselves, such as constant indices, take {_mebibytes(need)} of it: {most}",
        hint="write such a layer with slices and concatenations, or compile the net in several parts",
    )


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
