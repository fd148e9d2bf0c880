"""ONNX matrix products."""

from __future__ import annotations

import numpy as np

from user_layers.onnx.lower import Lowering, Unsupported, converts
from user_layers.onnx.model import Node


@converts("MatMul")
def matmul(to: Lowering, node: Node) -> None:
    to.need_float(*node.inputs)
    param = {"trans_a": 0, "trans_b": 0, "alpha": 1.0}
    to.simple("TPU_MATMUL", node, [to.tensor(name) for name in node.inputs], param)


@converts("Gemm")
def gemm(to: Lowering, node: Node) -> None:
    """alpha * A' * B' + beta * C. Constants are transposed here, which the device does slowly."""
    to.need_float(*node.inputs)
    alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    sides = []
    param: dict[str, float] = {"alpha": alpha}
    for name, attribute, field in zip(
        node.inputs, ("transA", "transB"), ("trans_a", "trans_b"), strict=False
    ):
        turned = int(node.attributes.get(attribute, 0))
        values = to.constant(name)
        if turned and values is not None:
            sides.append(to.add_const(np.ascontiguousarray(values.T), f"{name}:transposed"))
            turned = 0
        else:
            sides.append(to.tensor(name))
        param[field] = turned
    if alpha == 0:
        raise Unsupported("alpha is 0")
    added = node.inputs[2] if len(node.inputs) > 2 else ""
    if not added or beta == 0:
        to.simple("TPU_MATMUL", node, sides, param)
        return
    columns = to.shape(node.outputs[0])[1]
    values = to.constant(added)
    if values is None or values.size not in (1, columns) or values.shape[-1:] not in ((columns,), (1,), ()):
        raise Unsupported(f"its third operand {added!r} is no constant with one number per column")
    bias = np.broadcast_to(values.reshape(-1) * np.float32(beta), (columns,)).astype(np.float32)
    to.simple("TPU_MATMUL", node, [*sides, to.add_const(bias, f"{added}:bias")], param)
