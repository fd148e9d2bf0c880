"""Three networks of a few layers, made by onnx alone: the benchmark's path in a moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR = 17, 8


def build(name: str, path: Path) -> None:
    """Write the model of this name (a key of table.TINY)."""
    shape, nodes, weights = {"tiny_cnn": _cnn, "tiny_silu": _silu, "tiny_attention": _attention}[name]()
    rng = np.random.default_rng(1684)
    constants = [
        numpy_helper.from_array(
            (rng.standard_normal(size) / np.sqrt(np.prod(size[1:]))).astype(np.float32), key
        )
        for key, size in weights.items()
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, name, [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    onnx.save(onnx.shape_inference.infer_shapes(model), str(path))


_Made = tuple[tuple[int, ...], list[onnx.NodeProto], dict[str, tuple[int, ...]]]


def _cnn() -> _Made:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w2"], ["y"], pads=[1] * 4, group=20),
    ]
    return (1, 3, 32, 32), nodes, {"w1": (20, 3, 3, 3), "w2": (20, 1, 3, 3)}


def _silu() -> _Made:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("Sigmoid", ["c1"], ["s1"]),
        helper.make_node("Mul", ["c1", "s1"], ["y"]),
    ]
    return (1, 8, 24, 24), nodes, {"w1": (16, 8, 3, 3)}


def _attention() -> _Made:
    nodes = [
        *(helper.make_node("MatMul", ["x", f"w{part}"], [part]) for part in "qkv"),
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    return (1, 16, 32), nodes, {f"w{part}": (32, 32) for part in "qkv"}
