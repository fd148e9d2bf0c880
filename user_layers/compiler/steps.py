"""The step of a program that calls one layer: the same for recording, measuring and dynamic nets."""

from __future__ import annotations

from collections.abc import Sequence

from firmware_sim.wire import Step, StepOp
from user_layers.net.nodes import LayerNode


def layer_step(
    opcode: StepOp,
    node: LayerNode,
    inputs: Sequence[int],
    outputs: Sequence[int],
    nbytes: int,
    address: int = 0,
) -> Step:
    """opcode: GLOBAL or LOCAL; inputs, outputs: indices of the program's tensors; nbytes, address: of the
    layer's work buffer (a dynamic net's firmware finds the place)."""
    return Step(
        opcode,
        tuple(inputs),
        tuple(outputs),
        op_type=node.op.op_type,
        name=node.name,
        param=node.param,
        buffer_addr=address,
        buffer_bytes=nbytes,
        param_check=node.op.param_check,
    )
