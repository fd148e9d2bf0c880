"""Softmax whose rows without a score are 0, as PyTorch's exporter writes attention: Where(IsNaN(p), 0, p)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tpulayer import Graph
from user_layers.toolkit import Toolkit

BATCH, HEADS, TOKENS, SIZE = 2, 3, 10, 8
WIDTH = HEADS * SIZE
Array = npt.NDArray[Any]
Case = tuple[onnx.ModelProto, dict[str, Array]]  # and its inputs
Ran = tuple[list[Array], list[Array], list[str]]
make = helper.make_node
SCORES = (BATCH, HEADS, TOKENS, TOKENS)


def mask_of(kind: str) -> Any:
    """True where a score counts. rows: of some queries none does."""
    causal = np.tril(np.ones((TOKENS, TOKENS), bool))
    if kind == "none":
        return None
    if kind == "causal":
        return causal
    rows = np.broadcast_to(causal, (BATCH, 1, TOKENS, TOKENS)).copy()
    rows[0, 0, [2, 7]] = False
    rows[1, 0, :, :6] = False
    return rows


def attention(kind: str, *, computed: bool, looked_at: bool = False) -> Case:
    """Attention of x's tokens among themselves, with heads turned as PyTorch's exporter does it."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "heads": np.array([BATCH, TOKENS, HEADS, SIZE]), "flat": np.array([BATCH * HEADS, TOKENS, SIZE]),
        "back": np.array([BATCH, HEADS, SIZE, TOKENS]), "wide": np.array([BATCH, TOKENS, WIDTH]),
        "root": np.float32(SIZE**-0.25), "zero": np.float32(0), "least": np.float32(-np.inf),
    }  # fmt: skip
    inputs = {"x": rng.standard_normal((BATCH, TOKENS, WIDTH)).astype(np.float32)}
    nodes = []
    for name in "qkv":
        constants[f"w{name}"] = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
        nodes += [
            make("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            make("Reshape", [f"{name}0", "heads"], [f"{name}1"]),
            make("Transpose", [f"{name}1"], [f"{name}2"], perm=[0, 2, 1, 3]),
        ]
    nodes += [
        make("Reshape", ["k2", "flat"], ["k3"]),
        make("Transpose", ["k3"], ["k4"], perm=[0, 2, 1]),
        make("Reshape", ["k4", "back"], ["k5"]),
        make("Mul", ["q2", "root"], ["q3"]),
        make("Mul", ["k5", "root"], ["k6"]),
        make("MatMul", ["q3", "k6"], ["s"]),
    ]
    mask, scores = mask_of(kind), "s"
    if mask is not None:
        scores = "s2"
        if computed:
            inputs["m"] = mask
            nodes.append(make("Where", ["m", "zero", "least"], ["mask"]))
        else:
            constants["mask"] = np.where(mask, np.float32(0), np.float32(-np.inf))
        nodes.append(make("Add", ["s", "mask"], ["s2"]))
    nodes += [
        make("Softmax", [scores], ["p"], axis=-1),
        make("IsNaN", ["p"], ["t"]),
        make("Where", ["t", "zero", "p"], ["r"]),
        make("MatMul", ["r", "v2"], ["o"]),
        make("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        make("Reshape", ["o1", "wide"], ["y"]),
    ]
    outputs = {"y": None, **({"p": None} if looked_at else {})}
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    types = {"x": TensorProto.FLOAT, "m": TensorProto.BOOL}
    given = [helper.make_tensor_value_info(name, types[name], a.shape) for name, a in inputs.items()]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "net", given, made, tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), inputs


def ran(proto: onnx.ModelProto, inputs: dict[str, Array], toolkit: Toolkit) -> Ran:
    """What onnxruntime makes, what the net makes, and its layers."""
    want = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
    made = Graph.from_onnx(proto, toolkit=toolkit)
    made.compile()
    fed = {name: a.astype(np.float32) for name, a in inputs.items()}
    return want, made.run(fed), [node.op.short for node in made.nodes]


@pytest.mark.parametrize(
    ("kind", "computed", "cuts"),
    [
        ("none", False, 0),
        ("causal", False, 0),
        ("causal", True, 1),
        ("rows", False, 1),
        ("rows", True, 1),
    ],
)
def test_attention(toolkit: Toolkit, kind: str, computed: bool, cuts: int) -> None:
    """One layer; only a mask that may leave a row without a score takes another one, behind it."""
    proto, inputs = attention(kind, computed=computed)
    (want,), (got,), layers = ran(proto, inputs, toolkit)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)
    assert layers.count("ATTENTION") == 1 and "SOFTMAX" not in layers
    assert layers.count("UNARY") == cuts
    if kind == "rows":
        empty = ~mask_of(kind).any(-1)[:, 0]
        assert empty.any() and not got[empty].any()


def test_weights_that_others_read(toolkit: Toolkit) -> None:
    """They are NaN there, and nothing is put together."""
    proto, inputs = attention("rows", computed=True, looked_at=True)
    want, got, layers = ran(proto, inputs, toolkit)
    for theirs, mine in zip(want, got, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-6)
    assert np.isnan(want[1]).any() and "ATTENTION" not in layers


@pytest.mark.parametrize("zero", [0.0, 1.0])
def test_alone(toolkit: Toolkit, zero: float) -> None:
    """Infinities and zeros of both signs stay; another number than 0 is a choice as ever."""
    x = np.array([[np.nan, 1.5, -np.inf, np.inf], [0.0, -0.0, -np.nan, 1e-40]], np.float32)
    nodes = [make("IsNaN", ["x"], ["t"]), make("Where", ["t", "zero", "x"], ["y"])]
    number = numpy_helper.from_array(np.array(zero, np.float32), "zero")
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy")
    graph = helper.make_graph(nodes, "net", [given], [made], [number])
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (want,), (got,), layers = ran(proto, {"x": x}, toolkit)
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    assert layers == (["UNARY"] if zero == 0 else ["UNARY", "WHERE"])
