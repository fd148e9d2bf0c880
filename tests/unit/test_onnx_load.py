"""Reading ONNX models: shapes, checks, constant folding, bad files."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmware_sim.errors import ModelError, UsageError
from tests.paths import ROOT
from tests.support.onnx_models import make_model
from user_layers.onnx import fold
from user_layers.onnx.build import build
from user_layers.onnx.fold import fold_constants, run_node
from user_layers.onnx.load import from_proto, infer_values, load_model
from user_layers.onnx.model import Model, Node, Value

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RELU = helper.make_node("Relu", ["x"], ["y"], name="act")


def test_values_get_shapes_and_types(tmp_path: Path) -> None:
    w = np.ones((4, 3, 3, 3), np.float32)
    conv = helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], auto_pad="SAME_UPPER")
    onnx.save(
        make_model([conv, helper.make_node("Relu", ["c"], ["y"])], {"x": (1, 3, 9, 9)}, ["y"], {"w": w}),
        tmp_path / "m.onnx",
    )
    model = load_model(tmp_path / "m.onnx")
    assert [v.name for v in model.inputs] == ["x"] and model.opset == 17
    assert model.value("c").fixed == (1, 4, 5, 5) and model.value("y").dtype == np.float32
    assert model.nodes[0].attributes == {"strides": [2, 2], "auto_pad": "SAME_UPPER"}
    assert np.array_equal(model.constants["w"], w)
    assert model.nodes[0].title == "Conv with the output c"
    assert [n.op for n in model.consumers["c"]] == ["Relu"]


def test_free_dimensions_must_be_given() -> None:
    proto = make_model([RELU], {"x": ("n", 3)}, ["y"])
    with pytest.raises(UsageError, match=r"free dimensions: x \['n', 3\]"):
        from_proto(proto)
    assert from_proto(make_model([RELU], {"x": ("n", 3)}, ["y"]), {"x": (5, 3)}).value("y").fixed == (5, 3)


def test_an_extent_below_zero_is_a_free_one() -> None:
    proto = make_model([RELU], {"x": (-1, 3)}, ["y"])
    with pytest.raises(UsageError, match=r"free dimensions: x \[-1, 3\]"):
        from_proto(proto)
    assert from_proto(proto, {"x": (5, 3)}).value("y").fixed == (5, 3)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1,)}, "no input 'z'"),
        ({"x": (1, 2, 3)}, "has 2 dimensions, the shape given has 3"),
        ({"x": (-1, 3)}, "the extent -1 is below 0"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_proto(make_model([RELU], {"x": ("n", 3)}, ["y"]), shapes)


@pytest.mark.parametrize(
    ("data", "message"),
    [(data, "is not an ONNX model") for data in (b"", b"hello world", b"\x08\x01")],
)
def test_files_that_are_no_models(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path / "m.onnx")


def test_files_that_are_not_there_or_cut(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_model(tmp_path / "absent.onnx")
    whole = (LIGHT / "light_squeezenet.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(ModelError):
        load_model(tmp_path / "cut.onnx")


@pytest.mark.parametrize(
    ("nodes", "opset", "message"),
    [
        ([RELU], 0, "is of opset 0; known are"),
        ([RELU], 99, "is of opset 99; known are"),
        ([helper.make_node("Relu", ["nothing"], ["y"])], 17, "nothing"),
        ([helper.make_node("NoSuchOp", ["x"], ["y"])], 17, "NoSuchOp"),
        ([helper.make_node("Relu", ["x"], ["y"], alpha=1.0)], 17, "alpha"),
        ([helper.make_node("MatMul", ["x", "x"], ["y"])], 17, "(?i)dimension|shape"),
    ],
)
def test_models_that_are_not_valid(nodes: list[onnx.NodeProto], opset: int, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_proto(make_model(nodes, {"x": (2, 3)}, ["y"], opset=opset))


def test_custom_nodes_are_read() -> None:
    node = helper.make_node("TPU_CROP", ["x"], ["y"], domain="tpulayer", before=[1, 2], name="crop")
    model = from_proto(make_model([node], {"x": (4, 4)}, ["y"]))
    assert model.nodes[0].title == "tpulayer.TPU_CROP crop" and model.value("y").fixed is None


def test_constants_fold(tmp_path: Path) -> None:
    """Computed shapes, identities, dropouts and arithmetic on constants go; what remains uses the results."""
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Dropout", ["same"], ["dropped", "mask"]),
        helper.make_node("Shape", ["dropped"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["dropped", "target"], ["r"]),
        helper.make_node("Mul", ["a", "b"], ["ab"]),
        helper.make_node("Add", ["r", "ab"], ["y"]),
    ]
    constants = {
        "zero": np.int64(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
        "a": np.array([2, 3], np.float32),
        "b": np.array([10, 100], np.float32),
    }
    model = fold_constants(from_proto(make_model(nodes, {"x": (3, 2, 1)}, ["y"], constants)))
    assert [(n.op, n.inputs) for n in model.nodes] == [("Reshape", ("x", "target")), ("Add", ("r", "ab"))]
    assert model.constants["target"].tolist() == [3, -1]
    assert model.constants["ab"].tolist() == [20, 300]


@pytest.mark.parametrize(
    ("chosen", "one", "made"),
    [
        (np.ones((2, 3), bool), (2, 3), ["x"]),
        (np.zeros((1, 3), bool), (2, 3), ["z"]),
        (np.array([True, False, True]), (2, 3), ["w"]),
        (np.ones((2, 3), bool), (1, 3), ["w"]),  # it is repeated
    ],
)
def test_choices_that_are_always_the_same_fold(
    chosen: np.ndarray[Any, Any], one: tuple[int, ...], made: list[str]
) -> None:
    nodes = [helper.make_node("Where", ["c", "x", "z"], ["w"]), helper.make_node("Relu", ["w"], ["y"])]
    model = fold_constants(from_proto(make_model(nodes, {"x": one, "z": (2, 3)}, ["y"], {"c": chosen})))
    assert [*model.nodes[-1].inputs] == made


def test_a_constant_that_cannot_be_computed_is_named() -> None:
    node = Node("Reshape", "", "bad", ("a", "s"), ("y",))
    constants = {"a": np.ones(6, np.float32), "s": np.array([4, 4])}
    with pytest.raises(ModelError, match="Reshape bad cannot be computed"):
        run_node(Model("m", 17, (), (), constants, (node,), {}), node)


@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "densenet121"])
def test_the_light_models_load(name: str) -> None:
    model = fold_constants(load_model(LIGHT / f"light_{name}.onnx"))
    ops = {n.op for n in model.nodes}
    assert {"Conv", "Relu"} <= ops and not ops & {"ConstantOfShape", "Shape", "Identity", "Dropout"}
    assert all(model.value(o).fixed for n in model.nodes for o in n.outputs)


def test_the_documentation_lists_the_passes_in_their_order() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text[text.index("An ONNX model becomes a graph") :].split("\n\n")[1]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    call = r"^ +(?:[\w, ]+ = )?(\w+)\((?:model|survey)\b"
    called = re.findall(call, inspect.getsource(build), re.MULTILINE)
    assert listed == ["from_proto", *called]


def test_no_elements_and_yet_too_large() -> None:
    model = from_proto(make_model([RELU], {"x": (0, 1 << 40, 1 << 40)}, ["y"]))
    with pytest.raises(ModelError, match=r"x cannot have the shape \[0, 1099511627776"):
        fold_constants(model)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Value("x", (2,), np.dtype(np.float64)), "float64"),
        (Value("x", None, np.dtype(object)), "text"),
        (Value("x", None, None), "of unknown type"),
        (Value("x", None, None, kind="sequence"), "a sequence"),
        (Value("x", None, None, kind="optional"), "an optional"),
    ],
)
def test_messages_say_what_a_value_is(value: Value, what: str) -> None:
    assert value.what == what


def _reshapes(count: int) -> onnx.ModelProto:
    """Blocks whose shape follows from that of the block before, by what inference does not compute."""
    nodes, last = [], "x"
    for i in range(count):
        nodes += [
            helper.make_node("Shape", [last], [f"shape{i}"]),
            helper.make_node("Div", [f"shape{i}", "one"], [f"same{i}"]),
            helper.make_node("Gather", [f"same{i}", "turned"], [f"other{i}"]),
            helper.make_node("Reshape", [last, f"other{i}"], [f"shaped{i}"]),
            helper.make_node("Relu", [f"shaped{i}"], [last := f"out{i}"]),
        ]
    constants = {"one": np.array(1, np.int64), "turned": np.array([1, 0])}
    return make_model(nodes, {"x": (2, 3)}, [last], constants)


def test_a_chain_of_shapes_folds_to_its_end_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred = []

    def counted(model: Model, nodes: Sequence[Node] | None = None) -> Model:
        inferred.append(len(model.nodes if nodes is None else nodes))
        return infer_values(model, nodes)

    monkeypatch.setattr(fold, "infer_values", counted)
    for count in (4, 40):
        model = from_proto(_reshapes(count))
        inferred.clear()
        folded = fold_constants(model)
        assert [node.op for node in folded.nodes] == ["Reshape", "Relu"] * count
        assert folded.value(f"out{count - 1}").fixed == (2, 3)
        assert len(inferred) <= count + 1 and sum(inferred) <= 2 * len(folded.nodes)


@pytest.mark.parametrize(
    ("target", "gone"),
    [([0, 4, -1], True), ([0, 0, 0], True), ([2, 4, 6], True), ([2, 4, -1], False), ([0, -1, 6], False)],
)
def test_reshapes_that_change_nothing(target: list[int], gone: bool) -> None:
    """With whatever extents come: a batch or a length beside -1 may be another one then."""
    nodes = [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    model = from_proto(make_model(nodes, {"x": (2, 4, 6)}, ["y"], {"to": np.array(target)}))
    assert [node.op for node in fold_constants(model).nodes] == (["Relu"] if gone else ["Reshape", "Relu"])


def test_what_stays_unknown_ends_the_folding() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("Shape", ["where"], ["shape"]),
        helper.make_node("Shape", ["x"], ["known"]),
        helper.make_node("Cast", ["shape"], ["y"], to=1),
        helper.make_node("Cast", ["known"], ["z"], to=1),
    ]
    folded = fold_constants(from_proto(make_model(nodes, {"x": (2, 3)}, ["y", "z"])))
    assert [node.op for node in folded.nodes] == ["NonZero", "Shape", "Cast"]
    assert np.array_equal(folded.constants["z"], [2, 3])


def test_shapes_behind_a_sequence_are_known() -> None:
    """A sequence has no shape that a stretch could be told: then the whole model is inferred."""
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["both"]),
        helper.make_node("SequenceAt", ["both", "zero"], ["first"]),
        helper.make_node("Shape", ["first"], ["shape"]),
        helper.make_node("Div", ["shape", "one"], ["same"]),
        helper.make_node("Reshape", ["first", "same"], ["r"]),
        helper.make_node("Shape", ["r"], ["known"]),
        helper.make_node("Cast", ["known"], ["y"], to=1),
    ]
    constants = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64)}
    folded = fold_constants(from_proto(make_model(nodes, {"x": (2, 3)}, ["y"], constants)))
    assert not folded.nodes and np.array_equal(folded.constants["y"], [2, 3])
