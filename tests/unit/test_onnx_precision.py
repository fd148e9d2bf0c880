"""Models in float16 and bfloat16: what of them is float32, and what keeps its type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.support.examples import examples
from user_layers.onnx.check import random_inputs, reference, tolerance
from user_layers.onnx.load import from_proto
from user_layers.onnx.model import Model
from user_layers.onnx.precision import described, in_float32, narrow_types

HALF, BRAIN, FLOAT = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT


def _model(nodes: list[Any], kind: int, outputs: dict[str, int], constants: dict[str, Any]) -> Model:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, [2, 3])],
        [helper.make_tensor_value_info(name, type_, None) for name, type_ in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("tpulayer", 1)]
    return from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def _dtypes(model: Model) -> dict[str, str]:
    names = dict.fromkeys(name for node in model.nodes for name in (*node.reads, *node.makes))
    return {name: str(model.value(name).dtype) for name in names}


def _dense() -> list[Any]:
    return [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]


def test_float16_keeps_its_type_at_the_edge_alone() -> None:
    model = _model(_dense(), HALF, {"y": HALF}, {"w": np.ones((3, 4), np.float16)})
    wide = in_float32(model)
    assert narrow_types(model) == ["float16"]
    assert [node.op for node in wide.nodes] == ["Cast", "MatMul", "Relu", "Cast"]
    assert [str(v.dtype) for v in (*wide.inputs, *wide.outputs)] == ["float16", "float16"]
    assert {name: kind for name, kind in _dtypes(wide).items() if name not in ("x", "y")} == {
        "x:float32": "float32",
        "w": "float32",
        "h": "float32",
        "y:float32": "float32",
    }


def test_bfloat16_is_float32_at_the_edge_too() -> None:
    """Also in an opset in which the operation has no bfloat16."""
    model = _model(_dense(), BRAIN, {"y": BRAIN}, {"w": np.ones((3, 4), ml_dtypes.bfloat16)})
    wide = in_float32(model)
    assert [str(v.dtype) for v in (*model.inputs, *model.outputs)] == ["bfloat16", "bfloat16"]
    assert [node.op for node in wide.nodes] == ["MatMul", "Relu"]
    assert set(_dtypes(wide).values()) == {"float32"}
    assert "as are bfloat16 inputs and outputs" in described(narrow_types(model))[0]


def test_casts_of_a_model_with_float32_edges_do_nothing() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=HALF),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=FLOAT),
    ]
    model = _model(nodes, FLOAT, {"y": FLOAT}, {"w": np.ones((3, 4), np.float16)})
    wide = in_float32(model)
    assert set(_dtypes(wide).values()) == {"float32"}
    assert [node.attributes for node in wide.nodes] == [{"to": FLOAT}, {}, {"to": FLOAT}]


def test_a_model_without_narrow_types_stays_the_same_object() -> None:
    model = _model(_dense(), FLOAT, {"y": FLOAT}, {"w": np.ones((3, 4), np.float32)})
    assert in_float32(model) is model and not described(narrow_types(model))


def test_layers_of_the_users_keep_their_types() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("TPU_DOUBLE", ["a"], ["b"], domain="tpulayer"),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", HALF, [2, 3])],
        [helper.make_tensor_value_info("y", HALF, [2, 3])],
        value_info=[helper.make_tensor_value_info("b", HALF, [2, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("tpulayer", 1)]
    wide = in_float32(from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8)))
    own = next(node for node in wide.nodes if node.op == "TPU_DOUBLE")
    assert [str(wide.value(name).dtype) for name in (*own.inputs, *own.outputs)] == ["float16", "float16"]
    assert str(wide.value(wide.nodes[-2].inputs[0]).dtype) == "float32"  # of Neg


def test_subgraphs_and_constants_in_attributes_are_widened() -> None:
    """What a branch captures is read under its new name."""
    one = helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.ones(3, np.float16)))
    then = helper.make_graph(
        [one, helper.make_node("Add", ["x", "one"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", HALF, [2, 3])],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["o"])],
        "else",
        [],
        [helper.make_tensor_value_info("o", HALF, [2, 3])],
    )
    nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=other)]
    model = _model(nodes, HALF, {"y": HALF}, {"yes": np.array(True)})
    wide = in_float32(model)
    assert wide.nodes[1].captured == ("x:float32",)
    inputs = {"x": np.arange(6, dtype=np.float16).reshape(2, 3)}
    (y,) = reference(wide, inputs)
    assert y.dtype == np.float16 and np.array_equal(y, inputs["x"] + 1)


@examples(25)
@given(st.lists(st.sampled_from(["Relu", "Neg", "Sigmoid", "w", "Cast"]), min_size=1, max_size=6), st.data())
def test_float32_is_as_exact_as_float16_asks(ops: list[str], data: st.DataObject) -> None:
    """The slow reference is onnxruntime on the model as it is."""
    rng = np.random.default_rng(len(ops))
    constants = {"w": rng.standard_normal((3, 3)).astype(np.float16)}
    nodes, last = [], "x"
    for i, op in enumerate(ops):
        name = "y" if i == len(ops) - 1 else f"v{i}"
        if op == "w":
            nodes.append(helper.make_node("MatMul", [last, "w"], [name]))
        elif op == "Cast":
            nodes.append(helper.make_node("Cast", [last], [f"c{i}"], to=FLOAT))
            nodes.append(helper.make_node("Cast", [f"c{i}"], [name], to=HALF))
        else:
            nodes.append(helper.make_node(op, [last], [name]))
        last = name
    model = _model(nodes, HALF, {"y": HALF}, constants)
    inputs = random_inputs(model, data.draw(st.integers(0, 99)))
    (own,), (wide,) = reference(model, inputs), reference(in_float32(model), inputs)
    assert wide.dtype == own.dtype == np.float16
    assert np.abs(wide.astype(float) - own).max() <= 8 * len(ops) * tolerance(own.dtype) * np.abs(own).max()


@pytest.mark.parametrize(("kind", "limit"), [(np.float32, 1e-4), (np.float16, 1e-4 + 2**-10)])
def test_the_tolerance_is_that_of_the_outputs_type(kind: type, limit: float) -> None:
    assert tolerance(np.dtype(kind)) == pytest.approx(limit)


def test_random_inputs_in_bfloat16_are_no_whole_numbers() -> None:
    model = _model(_dense(), BRAIN, {"y": BRAIN}, {"w": np.ones((3, 4), ml_dtypes.bfloat16)})
    x = random_inputs(model)["x"]
    assert x.dtype == ml_dtypes.bfloat16 and len(np.unique(x.astype(np.float32))) == 6


def test_a_model_that_is_given_is_not_changed() -> None:
    graph = helper.make_graph(
        _dense(),
        "g",
        [helper.make_tensor_value_info("x", BRAIN, [2, 3])],
        [helper.make_tensor_value_info("y", BRAIN, [2, 4])],
        [numpy_helper.from_array(np.ones((3, 4), ml_dtypes.bfloat16), "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    before = proto.SerializeToString()
    in_float32(from_proto(proto))
    assert proto.SerializeToString() == before and isinstance(proto, onnx.ModelProto)
