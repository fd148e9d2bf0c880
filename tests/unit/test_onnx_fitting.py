"""Shapes given for inputs, beside what a file fixes: what fits is compiled, what contradicts it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmware_sim.errors import ModelError, TpulayerError, UsageError
from tests.support.onnx_models import make_model
from user_layers.onnx.build import build
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.fitting import check_shapes
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.load import Source, from_proto
from user_layers.onnx.model import Model, Node, Value
from user_layers.toolkit import Toolkit


def _check(proto: Any, **shapes: tuple[int, ...]) -> None:
    check_shapes(fold_constants(from_proto(proto, shapes)))


def _flattened() -> Any:
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"], name="dense"),
    ]
    return make_model(nodes, {"x": (1, 2, 3, 3)}, ["y"], {"w": np.ones((18, 4), np.float32)})


def _reshaped() -> Any:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "target"], ["y"], name="heads"),
    ]
    return make_model(nodes, {"x": (1, 32, 4)}, ["y"], {"target": np.array([1, 32, 2, 2])})


def _convolved() -> Any:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="c")
    return make_model([node], {"x": (1, 3, 3, 3)}, ["y"], {"w": np.ones((8, 3, 1, 1), np.float32)})


def _turned() -> Any:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "target"], ["y"]),
    ]
    return make_model(nodes, {"x": (2, 6)}, ["y"], {"target": np.array([2, 6])})


def _positions() -> Any:
    """As exporters write embeddings of positions: looked up when the model is folded."""
    nodes = [
        helper.make_node("Gather", ["table", "places"], ["p"]),
        helper.make_node("Add", ["x", "p"], ["y"], name="embedded"),
    ]
    constants = {"table": np.ones((9, 4), np.float32), "places": np.arange(5)}
    return make_model(nodes, {"x": (1, 5, 4)}, ["y"], constants)


@pytest.mark.parametrize(
    ("proto", "shape", "named"),
    [
        (_flattened(), (1, 2, 4, 4), r"the constant w \[18, 4\] of Gemm dense"),
        (_reshaped(), (1, 16, 4), r"the constant target = \[1, 32, 2, 2\] of Reshape heads: 64 numbers"),
        (_reshaped(), (3, 16, 4), r"the constant target = \[1, 32, 2, 2\] of Reshape heads: 192 numbers"),
        (_convolved(), (1, 4, 3, 3), r"the constant w \[8, 3, 1, 1\] of Conv c: 4 channels, .* for 3"),
        (_convolved(), (2, 4, 3, 3), r"the constant w \[8, 3, 1, 1\] of Conv c: 4 channels, .* for 3"),
        (_positions(), (1, 3, 4), r"the constant p \[5, 4\] of Add embedded"),
    ],
)
def test_a_contradiction_names_constant_and_node(
    proto: Any, shape: tuple[int, ...], named: str, tmp_path: Path, toolkit: Toolkit
) -> None:
    with pytest.raises(UsageError, match=rf"the shape given, x \[.*\], contradicts {named}") as caught:
        _check(proto, x=shape)
    assert "export it for these" in caught.value.hint
    onnx.save(proto, str(tmp_path / "m.onnx"))
    text = ["x=" + "x".join(map(str, shape))]
    steps: list[str] = []
    for shapes, stages in ((text, []), ([], text)):
        options = CompileOptions(tmp_path / "m.onnx", tmp_path / "out", shapes=shapes, stages=stages)
        with pytest.raises(UsageError, match=named):
            run(options, print, toolkit, step=steps.append)
        assert not (tmp_path / "out").exists()
        assert not any("compiling" in step for step in steps)  # not even the stages that fit


def _head(*targets: list[int]) -> Any:
    """Features of a batch of two, as an exporter writes them that saw one shape."""
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["r0"])]
    constants: dict[str, Any] = {"w": np.arange(12, dtype=np.float32).reshape(6, 2)}
    for i, target in enumerate(targets):
        constants[f"t{i}"] = np.array(target)
        nodes.append(helper.make_node("Reshape", [f"r{i}", f"t{i}"], [f"r{i + 1}"], name=f"rs{i}"))
    nodes.append(helper.make_node("Gemm", [f"r{len(targets)}", "w"], ["y"], name="dense"))
    return make_model(nodes, {"x": (2, 6, 1, 1)}, ["y"], constants)


@pytest.mark.parametrize(
    "targets",
    # The last one changes nothing of the batch that is given.
    [([2, 6],), ([2, -1],), ([2, 2, 3], [2, 6]), ([0, -1],), ([-1, 6],), ([0, 6], [2, 6])],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_files_batch_in_reshapes_becomes_the_given_one(
    targets: tuple[list[int], ...], dynamic: bool, toolkit: Toolkit, tmp_path: Path
) -> None:
    onnx.save(_head(*targets), str(tmp_path / "m.onnx"))
    lines: list[str] = []
    options = CompileOptions(tmp_path / "m.onnx", tmp_path / "out", dynamic, shapes=["x=5x6x1x1"])
    assert run(options, lines.append, toolkit)
    told = [line for line in lines if "is taken for the batch" in line]
    held = [f"rs{i}" for i, target in enumerate(targets) if target[0] == 2]
    assert len(told) == bool(held)
    if told:
        names = ", ".join(held)
        assert told[0].startswith(
            f"the 2 that begins the target of Reshape {names} is taken for the batch, 5"
        )
    model = Source.of(tmp_path / "m.onnx").load(_head(*targets), {"x": (5, 6, 1, 1)})
    assert model.value("y").fixed == (5, 2)


@pytest.mark.parametrize(
    ("proto", "shape"),
    [
        (_reshaped(), (1, 16, 4)),  # the batch stays
        (_reshaped(), (3, 16, 4)),  # it contradicts either way
        (_turned(), (5, 6)),  # two of what are six: not the batch
    ],
)
def test_what_is_no_batch_stays(proto: Any, shape: tuple[int, ...]) -> None:
    model = Source.of(proto).load(proto, {"x": shape})
    assert "target" in model.constants and len(model.constants) == 1 and not model.notes
    with pytest.raises(UsageError, match="contradicts the constant target"):
        check_shapes(fold_constants(model))


def test_what_fits_as_it_is_written_stays() -> None:
    """All numbers in one row: nothing contradicts that."""
    nodes = [helper.make_node("Reshape", ["x", "t"], ["y"])]
    proto = make_model(nodes, {"x": (1, 6)}, ["y"], {"t": np.array([1, -1])})
    model = Source.of(proto).load(proto, {"x": (5, 6)})
    assert model.value("y").fixed == (1, 30) and not model.notes


def test_only_reshapes_of_the_batch_are_read_otherwise() -> None:
    """One whose input begins with neither batch keeps its number."""
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["f"], name="features"),
        helper.make_node("Transpose", ["f"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "rows"], ["y"], name="rows"),
    ]
    constants = {"flat": np.array([1, 6]), "rows": np.array([1, -1])}
    proto = make_model(nodes, {"x": (1, 6, 1)}, ["y"], constants)
    model = Source.of(proto).load(proto, {"x": (5, 6, 1)})
    assert model.value("f").fixed == (5, 6) and model.value("y").fixed == (1, 30)
    assert "Reshape features is taken" in model.notes[0]


def test_other_batches_where_nothing_fixes_them() -> None:
    _check(_flattened(), x=(7, 2, 3, 3))
    _check(_positions(), x=(7, 5, 4))
    free = _reshaped()
    free.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([-1, 32, 2, 2]), "target"))
    _check(free, x=(7, 32, 4))


def test_stale_shapes_of_values_are_dropped() -> None:
    """Exporters write the shapes of all values, subgraphs' too, and of outputs: those of the old inputs."""
    proto = make_model(
        [
            helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Relu", ["p"], ["y"]),
        ],
        {"x": (1, 2, 8, 8)},
        [],
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, [1, 2, 4, 4]))
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 4, 4]))
    model = from_proto(proto, {"x": (3, 2, 6, 4)})
    assert model.value("p").fixed == model.value("y").fixed == (3, 2, 3, 2)
    check_shapes(model)


def test_a_file_that_is_not_valid_is_still_called_so() -> None:
    proto = make_model([helper.make_node("MatMul", ["x", "x"], ["y"])], {"x": (2, 3)}, ["y"])
    with pytest.raises(ModelError, match="is not valid"):
        from_proto(proto, {"x": (2, 4)})


def test_a_file_whose_own_reshape_cannot_be() -> None:
    with pytest.raises(ModelError, match="Reshape heads contradicts itself: 128 numbers cannot be reshaped"):
        proto = _reshaped()
        proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([1, 30, 2, 2]), "target"))
        build(from_proto(proto), "net")


@pytest.mark.parametrize(
    ("source", "target", "allowzero", "fits"),
    [
        ((2, 3), [3, 2], 0, True),
        ((2, 3), [-1], 0, True),
        ((2, 3), [0, -1], 0, True),
        ((2, 3), [4, -1], 0, False),
        ((2, 3), [0, 2], 0, False),
        ((2, 3), [2, 3, 0], 0, False),
        ((2, 0), [0, 2], 1, True),
    ],
)
def test_what_a_reshape_can_do(
    source: tuple[int, ...], target: list[int], allowzero: int, fits: bool
) -> None:
    node = Node("Reshape", "", "r", ("x", "t"), ("y",), {"allowzero": allowzero})
    value = Value("x", source, np.dtype(np.float32))
    model = Model("m", 17, (value,), (), {"t": np.array(target)}, (node,), {"x": value})
    if fits:
        check_shapes(model)
    else:
        with pytest.raises(ModelError, match="Reshape r contradicts itself"):
            check_shapes(model)


@pytest.mark.parametrize("extent", [4, 6])
def test_what_only_a_run_finds(extent: int, toolkit: Toolkit, tmp_path: Path) -> None:
    """A branch that no inference looks into; it reads a constant of the old shape."""
    graphs = []
    for name, target in (("r", [2, 2]), ("s", [1, -1])):
        body = [
            helper.make_node("Constant", [], [f"{name}_to"], value_ints=target),
            helper.make_node("Reshape", ["x", f"{name}_to"], [name]),
        ]
        made = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a", "b"])
        graphs.append(helper.make_graph(body, name, [], [made]))
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "least"], ["yes"]),
        helper.make_node("If", ["yes"], ["some"], then_branch=graphs[0], else_branch=graphs[1]),
        helper.make_node("ReduceMax", ["some"], ["y"], keepdims=0),
    ]
    proto = make_model(nodes, {"x": (4,)}, ["y"], {"least": np.float32(-1e9)})
    onnx.save(proto, str(tmp_path / "m.onnx"))
    options = CompileOptions(tmp_path / "m.onnx", tmp_path / "out", shapes=[f"x={extent}"], check=False)
    if extent == 4:
        assert run(options, print, toolkit)
        return
    with pytest.raises(TpulayerError, match="the model does not run with the shapes given") as caught:
        run(options, print, toolkit)
    assert isinstance(caught.value, UsageError) and not (tmp_path / "out").exists()
