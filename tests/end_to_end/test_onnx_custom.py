"""Models with layers of the user in the middle: nodes in the domain tpulayer, --map, functions; stages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmware_sim.errors import CompileError, UsageError
from tests.paths import ROOT
from tests.support.onnx_models import make_model
from tests.support.workspaces import layers_toolkit
from tpulayer import Graph
from user_layers.bmodel import read
from user_layers.onnx.check import TOLERANCE, compare, random_inputs, reference
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.custom import MapFunction, MappedNode
from user_layers.onnx.load import from_proto
from user_layers.onnx.lower import CONVERTERS, Lowering
from user_layers.onnx.model import Node
from user_layers.testing.golden import WorkspaceGoldens
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(3)
WEIGHTS = {
    "v": RNG.standard_normal((8, 3, 3, 3)).astype(np.float32),
    "w": RNG.standard_normal((4, 8, 3, 3)).astype(np.float32),
}
ENDS = {
    "begin": np.array([1, 2]),
    "end": np.array([15, 17]),
    "axes": np.array([2, 3]),
    "two": np.float32(2),
}


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """A built workspace with the layers crop, double and rows."""
    with layers_toolkit(tmp_path_factory, "compiler_layers") as opened:
        yield opened


def net(*middle: Any, size: int = 18) -> Any:
    """A convolution, the nodes from a to d, a convolution, and a Relu."""
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4, name="first"),
        *middle,
        helper.make_node("Conv", ["d", "w"], ["e"], pads=[1] * 4, name="last"),
        helper.make_node("Relu", ["e"], ["y"]),
    ]
    used = {name for node in nodes for name in node.input}
    constants = {k: v for k, v in {**WEIGHTS, **ENDS}.items() if k in used}
    return make_model(nodes, {"x": (2, 3, size, size)}, ["y"], constants)


def own(op: str, source: str, target: str, **attributes: Any) -> Any:
    return helper.make_node(op, [source], [target], domain="tpulayer", name=op.lower(), **attributes)


OWN = (own("TPU_DOUBLE", "a", "b"), own("TPU_CROP", "b", "d", before=[0, 0, 1, 2], after=[0, 0, 3, 1]))
STANDARD = (
    helper.make_node("Mul", ["a", "two"], ["b"], name="twice"),
    helper.make_node("Slice", ["b", "begin", "end", "axes"], ["d"], name="part"),
)


def check(graph: Graph, tmp_path: Path, **options: Any) -> list[str]:
    """Compile and compare with onnxruntime on the same net of ONNX's own operations; the log."""
    onnx.save(net(*STANDARD), str(tmp_path / "standard.onnx"))
    inputs = random_inputs(from_proto(net(*STANDARD)))
    lines: list[str] = []
    graph.compile(**options, log=lines.append)
    for found in compare(["y"], graph.run(inputs), reference(tmp_path / "standard.onnx", inputs)):
        assert found.relative <= TOLERANCE, found
    return lines


@pytest.mark.parametrize("options", [{"opt": 0}, {"opt": 2}, {"dynamic": True}])
def test_layers_in_the_middle(options: dict[str, Any], toolkit: Toolkit, tmp_path: Path) -> None:
    """The shape behind the own layer comes from its own shape function: the convolution after it needs it."""
    onnx.save(net(*OWN), str(tmp_path / "own.onnx"))
    graph = Graph.from_onnx(tmp_path / "own.onnx", toolkit=toolkit)
    assert [layer.op.op for layer in graph.nodes] == [
        *("TPU_CONV", "TPU_DOUBLE", "TPU_CROP", "TPU_CONV", "TPU_UNARY")
    ]
    lines = check(graph, tmp_path, **options)
    if options == {"opt": 2}:
        assert any("group" in line and "tpu_double" in line for line in lines), lines


def test_nodes_become_layers_by_name(toolkit: Toolkit, tmp_path: Path) -> None:
    """Mul has a second operand and Slice other attributes than the layers: functions say how."""

    def crop(graph: Graph, node: MappedNode) -> None:
        assert (node.op, node.name, node.shapes[0]) == ("Slice", "part", (2, 8, 18, 18))
        begin, end, axes = node.constants[1:]
        assert begin is not None and end is not None and axes is not None and node.shapes[0] is not None
        before, after = [0] * 4, [0] * 4
        for i, axis in enumerate(axes):
            before[axis], after[axis] = int(begin[i]), node.shapes[0][axis] - int(end[i])
        assert node.inputs[0] is not None
        graph.add_tpu_layer("TPU_CROP", [node.inputs[0]], {"before": before, "after": after}, node.outputs)

    (tmp_path / "maps.py").write_text(
        "def double(graph, node):\n"
        "    graph.add_tpu_layer('TPU_DOUBLE', node.inputs[:1], None, node.outputs)\n"
    )
    onnx.save(net(*STANDARD), str(tmp_path / "model.onnx"))
    custom: dict[str, str | MapFunction] = {"Mul": f"{tmp_path}/maps.py:double", "part": crop}
    graph = Graph.from_onnx(tmp_path / "model.onnx", toolkit=toolkit, custom=custom)
    assert {"TPU_DOUBLE", "TPU_CROP"} < {layer.op.op for layer in graph.nodes}
    check(graph, tmp_path)


def test_an_own_layer_and_a_part_on_the_cpu(toolkit: Toolkit, tmp_path: Path) -> None:
    nodes = [
        own("TPU_DOUBLE", "x", "a"),
        helper.make_node("Tan", ["a"], ["b"]),
        own("TPU_DOUBLE", "b", "y"),
    ]
    onnx.save(make_model(nodes, {"x": (2, 3)}, ["y"], {"k": np.int64(1)}), str(tmp_path / "m.onnx"))
    graph = Graph.from_onnx(tmp_path / "m.onnx", toolkit=toolkit)
    graph.compile()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = graph.run({"x": x})
    assert np.allclose(y, np.tan(2 * x) * 2)


def test_a_mistake_in_an_own_layer_is_no_reason_for_the_cpu(toolkit: Toolkit, tmp_path: Path) -> None:
    wrong = (own("TPU_CROP", "a", "d", before=[0, 0, 99]),)
    onnx.save(net(*wrong), str(tmp_path / "m.onnx"))
    with pytest.raises(CompileError, match="tpu_crop"):
        Graph.from_onnx(tmp_path / "m.onnx", toolkit=toolkit)


def test_the_name_of_the_net(toolkit: Toolkit, tmp_path: Path) -> None:
    """The file's, so that nets of two models go into one bmodel; or what --name says."""
    onnx.save(net(*STANDARD), str(tmp_path / "m.onnx"))
    for name, expected in (("", "m"), ("other", "other")):
        assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net", name=name), print, toolkit)
        assert [found.name for found in read(tmp_path / "net" / "compilation.bmodel").nets] == [expected]


@pytest.mark.parametrize("dynamic", [False, True])
def test_stages(dynamic: bool, toolkit: Toolkit, tmp_path: Path) -> None:
    """Further shapes of the inputs in the same bmodel, each compared."""
    onnx.save(net(*STANDARD), str(tmp_path / "m.onnx"))
    lines: list[str] = []
    options = CompileOptions(
        tmp_path / "m.onnx", tmp_path / "net", dynamic, stages=["x=1x3x20x18", "x=4x3x18x18"]
    )
    assert run(options, lines.append, toolkit)
    assert [line.split(" within")[0] for line in lines if " within" in line] == [
        f"stage {i}: y equals onnxruntime's" for i in range(3)
    ]
    for shape in ("[1, 3, 20, 18]", "[4, 3, 18, 18]"):
        assert any(f"input x is compiled for {shape}, though the model says" in line for line in lines), lines
    (found,) = read(tmp_path / "net" / "compilation.bmodel").nets
    assert [stage.inputs[0].shape for stage in found.stages] == [
        (2, 3, 18, 18),
        (1, 3, 20, 18),
        (4, 3, 18, 18),
    ]


@pytest.fixture
def tested(toolkit: Toolkit) -> Iterator[Path]:
    """The tests of the layers crop and double in the workspace; that of double."""
    assert toolkit.workspace is not None
    folder = toolkit.workspace.tests_dir
    made = [folder / f"test_{name}.py" for name in ("crop", "double")]
    folder.mkdir(exist_ok=True)
    for path in made:
        path.write_text((ROOT / "tests" / path.name).read_text())
    yield made[1]
    for path in made:
        path.unlink(missing_ok=True)


def _compiled(proto: Any, folder: Path, toolkit: Toolkit, *custom: str) -> tuple[bool, list[str]]:
    onnx.save(proto, str(folder / "m.onnx"))
    lines: list[str] = []
    options = CompileOptions(folder / "m.onnx", folder / "net", custom=custom)
    return run(options, lines.append, toolkit, goldens=WorkspaceGoldens), lines


def test_a_mapped_layer_is_compared_with_its_golden_function(
    toolkit: Toolkit, tmp_path: Path, tested: Path
) -> None:
    """And the rest of the model with onnxruntime, fed with golden's result."""
    chain = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Relu", ["b"], ["d"], name="again"),
        helper.make_node("Conv", ["d", "w"], ["e"], pads=[1] * 4),
        helper.make_node("Sigmoid", ["e"], ["y"]),
    ]
    proto = make_model(chain, {"x": (2, 3, 9, 9)}, ["y"], WEIGHTS)
    ok, lines = _compiled(proto, tmp_path, toolkit, "Relu=TPU_DOUBLE")
    assert ok and any(line.startswith("y equals onnxruntime's within") for line in lines)
    assert "TPU_DOUBLE equals golden of its test, 2 layers" in lines
    assert any(line.startswith("Relu mapped, 2 nodes: at most") for line in lines)

    tested.write_text(tested.read_text().replace("np.float32(2)]", "np.float32(3)]"))
    ok, lines = _compiled(proto, tmp_path, toolkit, "act=TPU_DOUBLE")
    assert not ok and any(line.startswith("TPU_DOUBLE (act): DIFFERS in 1296 of 1296") for line in lines)
    assert any(line.startswith("y DIFFERS from onnxruntime's") for line in lines)

    tested.unlink()
    ok, lines = _compiled(proto, tmp_path, toolkit, "act=TPU_DOUBLE")
    assert ok and "TPU_DOUBLE has no golden function: 1 layer taken as computed" in lines


@pytest.mark.usefixtures("tested")
def test_a_mistake_beside_an_own_layer_is_found(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of the user's do not turn the comparison off."""
    original = CONVERTERS["Relu"]
    monkeypatch.setitem(CONVERTERS, "Relu", lambda to, node: to.simple("TPU_COPY", node, *_copied(to, node)))
    ok, lines = _compiled(net(*OWN), tmp_path, toolkit)
    assert not ok and any(line.startswith("y DIFFERS from onnxruntime's") for line in lines)
    monkeypatch.setitem(CONVERTERS, "Relu", original)
    ok, lines = _compiled(net(*OWN), tmp_path, toolkit)
    assert ok and "TPU_DOUBLE equals golden of its test, 1 layer" in lines
    assert "TPU_CROP equals golden of its test, 1 layer" in lines


def _copied(to: Lowering, node: Node) -> tuple[list[str], dict[str, int]]:
    return [to.tensor(node.inputs[0])], {"reserved": 0}


def test_own_layers_in_float16_models(toolkit: Toolkit, tmp_path: Path) -> None:
    """The rest is float32; a float16 that such a layer gets is compared with golden's float16."""
    half = TensorProto.FLOAT16
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    edges = [helper.make_tensor_value_info(name, half, [2, 5]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", edges[:1], edges[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "maps.py").write_text(
        "def same(graph, node):\n"
        "    graph.add_tpu_layer('TPU_COPY', node.inputs[:1], {'reserved': 0}, node.outputs)\n"
    )
    ok, lines = _compiled(proto, tmp_path, toolkit, f"act={tmp_path}/maps.py:same")
    assert ok and any(line.startswith("Relu mapped, 1 node: at most 0.0e+00") for line in lines), lines


def test_what_a_layer_gets_that_refuses_it(toolkit: Toolkit, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"Mul twice: TPU_DOUBLE gets 2 inputs, \[2, 8") as caught:
        _compiled(net(*STANDARD), tmp_path, toolkit, "twice=TPU_DOUBLE")
    assert "--map NODE=FILE.py:FUNCTION" in caught.value.hint


def test_a_mapped_layer_of_another_shape_is_told_when_building(toolkit: Toolkit, tmp_path: Path) -> None:
    """What is behind it, on the host too, was built for the shape that the model has."""
    nodes = [
        helper.make_node("Det", ["x"], ["d"], name="det"),
        helper.make_node("Tan", ["d"], ["y"]),
    ]
    onnx.save(make_model(nodes, {"x": (1, 4, 3, 3)}, ["y"]), str(tmp_path / "m.onnx"))
    with pytest.raises(CompileError) as caught:
        Graph.from_onnx(tmp_path / "m.onnx", toolkit=toolkit, custom={"Det": "TPU_DOUBLE"})
    for word in ("Det det", "shape function of TPU_DOUBLE", "[1, 4, 3, 3]", "it is [1, 4]"):
        assert word in caught.value.message
    assert "__BM_SHAPE__(TPU_DOUBLE)" in caught.value.hint


def test_attributes_that_the_struct_does_not_have(toolkit: Toolkit, tmp_path: Path) -> None:
    node = helper.make_node("LRN", ["x"], ["y"], name="lrn", size=5, alpha=0.5)
    onnx.save(make_model([node], {"x": (1, 4, 3, 3)}, ["y"]), str(tmp_path / "m.onnx"))
    with pytest.raises(UsageError, match=r"TPU_DOUBLE\.alpha: unknown field") as caught:
        Graph.from_onnx(tmp_path / "m.onnx", toolkit=toolkit, custom={"LRN": "TPU_DOUBLE"})
    assert "LRN lrn brings alpha, size" in caught.value.hint
    assert "__BM_PARAM__(TPU_DOUBLE) takes them as `float alpha; int size;`" in caught.value.hint
