"""ONNX matrix products, softmax and reductions."""

from __future__ import annotations

import numpy as np

from user_layers.onnx.lower import Lowering, Unsupported, converts
from user_layers.onnx.model import Node


@converts("MatMul")
def matmul(to: Lowering, node: Node) -> None:
    to.need_float(*node.inputs)
    if not to.shape(node.outputs[0]):
        raise Unsupported("a result without dimensions")
    param = {"trans_a": 0, "trans_b": 0, "alpha": 1.0}
    to.simple("TPU_MATMUL", node, [to.tensor(name) for name in node.inputs], param)


@converts("Gemm")
def gemm(to: Lowering, node: Node) -> None:
    """alpha * A' * B' + beta * C."""
    to.need_float(*node.inputs)
    alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    sides = [to.tensor(name) for name in node.inputs[:2]]
    turned = {"trans_a": node.attributes.get("transA", 0), "trans_b": node.attributes.get("transB", 0)}
    param: dict[str, float] = {"alpha": alpha, **{name: int(value) for name, value in turned.items()}}
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


@converts("Softmax", "LogSoftmax")
def softmax(to: Lowering, node: Node) -> None:
    to.need_float(node.inputs[0])
    old = to.model.opset < 13  # then everything from the axis on is one dimension
    param = {"axis": int(node.attributes.get("axis", 1 if old else -1)), "flatten": int(old)}
    param["log"] = int(node.op == "LogSoftmax")
    to.simple("TPU_SOFTMAX", node, [to.tensor(node.inputs[0])], param)


_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@converts(*(f"Reduce{name}" for name in _REDUCTIONS))
def reduce(to: Lowering, node: Node) -> None:
    to.need_float(node.inputs[0])
    axes = to.option(node, "axes", 1)
    if (axes is None or not axes.size) and node.attributes.get("noop_with_empty_axes", 0):
        to.simple("TPU_COPY", node, [to.tensor(node.inputs[0])], {"reserved": 0})
        return
    found = [] if axes is None else [int(axis) for axis in axes.reshape(-1)]
    if not to.shape(node.outputs[0]):
        raise Unsupported("a result without dimensions")
    param = {"kind": _REDUCTIONS.index(node.op.removeprefix("Reduce")), "axes_num": len(found)}
    fields = {"axes": [*found, *[0] * (8 - len(found))], "keep_dims": int(node.attributes.get("keepdims", 1))}
    to.simple("TPU_REDUCE", node, [to.tensor(node.inputs[0])], {**param, **fields})


def _norm(to: Lowering, node: Node, groups: int, axis: int, rms: int = 0) -> None:
    to.need_float(*node.inputs)
    if len([name for name in node.outputs if name]) > 1:
        raise Unsupported("mean and deviation as outputs")
    inputs = [to.tensor(node.inputs[0])]
    for index, default in ((1, 1.0), (2, 0.0)):
        values = to.known(node, index)
        if values is None:
            shape = to.shape(node.inputs[0])
            count = shape[1] if groups else int(np.prod(shape[axis:]))
            values = np.full(count, default, np.float32)
        inputs.append(to.add_const(np.ascontiguousarray(values).reshape(-1), f"{node.outputs[0]}:{index}"))
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    to.simple("TPU_NORM", node, inputs, {"groups": groups, "axis": axis, "rms": rms, "epsilon": epsilon})


@converts("LayerNormalization")
def layer_normalization(to: Lowering, node: Node) -> None:
    rank = len(to.shape(node.inputs[0]))
    _norm(to, node, 0, int(node.attributes.get("axis", -1)) % rank)


@converts("InstanceNormalization")
def instance_normalization(to: Lowering, node: Node) -> None:
    _norm(to, node, -1, 0)


@converts("ArgMax", "ArgMin")
def arg(to: Lowering, node: Node) -> None:
    """Indices, which are int32 on the device."""
    to.need_float(node.inputs[0])
    if not to.shape(node.outputs[0]):
        raise Unsupported("a result without dimensions")
    param = {
        "axis": int(node.attributes.get("axis", 0)),
        "keep_dims": int(node.attributes.get("keepdims", 1)),
    }
    param |= {"select_last": int(node.attributes.get("select_last_index", 0))}
    param["smallest"] = int(node.op == "ArgMin")
    to.simple("TPU_ARG", node, [to.tensor(node.inputs[0])], param)


@converts("TopK")
def top_k(to: Lowering, node: Node) -> None:
    to.need_float(node.inputs[0])
    count = to.option(node, "k", 1)
    assert count is not None
    param = {"axis": int(node.attributes.get("axis", -1)), "k": int(count.reshape(-1)[0])}
    param["smallest"] = 1 - int(node.attributes.get("largest", 1))
    outputs = [
        to.output(node, 0),
        to.output(node, 1) if node.outputs[1] else to.fresh(f"{node.outputs[0]}:k"),
    ]
    to.layer("TPU_TOPK", node, [to.tensor(node.inputs[0])], param, outputs)
