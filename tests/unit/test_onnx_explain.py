"""What of a model runs where, said before it is compiled; the warning where too little runs on the TPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import make_model
from user_layers.cli.main import run as run_command
from user_layers.onnx.build import build
from user_layers.onnx.check import reference
from user_layers.onnx.command import CompileOptions, ExplainOptions, explain_model, run
from user_layers.onnx.explain import Explanation, Gap, explain
from user_layers.onnx.fields import c_fields
from user_layers.onnx.load import from_proto
from user_layers.onnx.work import macs
from user_layers.quantize.rewrite import Int8
from user_layers.quantize.table import Range, Table
from user_layers.scaffold.layers import check_name
from user_layers.toolkit import Toolkit


def _model() -> Any:
    """A convolution and a product on the TPU, two angles on the CPU and what only follows them."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4, name="conv"),
        helper.make_node("Tan", ["a"], ["b"], name="angles"),
        helper.make_node("Tan", ["b"], ["c"], name="angles again"),
        helper.make_node("Cast", ["c"], ["d"], to=11),
        helper.make_node("Sqrt", ["d"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=1),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="dense"),
    ]
    constants = {
        "w": np.ones((4, 3, 3, 3), np.float32),
        "m": np.ones((6, 2), np.float32),
    }
    return make_model(nodes, {"x": (1, 3, 5, 6)}, ["y"], constants)


def _explained(proto: Any, toolkit: Toolkit) -> Explanation:
    return explain(build(from_proto(proto), "net", toolkit=toolkit))


def test_operations_gaps_and_what_follows(toolkit: Toolkit) -> None:
    found = _explained(_model(), toolkit)
    assert [(one.name, one.tpu, one.cpu) for one in found.operations[:3]] == [
        ("Conv", 1, 0),
        ("MatMul", 1, 0),
        ("Tan", 0, 2),
    ]
    assert found.macs == 4 * 5 * 6 * 27 + 4 * 5 * 2 * 6 and found.cpu_macs == 0
    (gap, *others) = found.gaps
    assert gap == Gap("Tan", "there is no layer for this operation", True, ["angles", "angles again"])
    assert all("float64" in other.reason for other in others)
    assert found.cpu == sum(len(gap.nodes) for gap in found.gaps) + found.follows
    assert not found.warning("m.onnx")


def test_what_a_layer_for_a_gap_has_to_take(toolkit: Toolkit, tmp_path: Path) -> None:
    """Attributes as fields of its parameter struct, lists as long as the longest; constants."""
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], group=2, dilations=[2, 1, 1], auto_pad="VALID"),
        helper.make_node("ConvTranspose", ["a", "w"], ["y"], group=2, dilations=[2, 2, 1]),
    ]
    proto = make_model(nodes, {"x": (1, 4, 3, 3, 3)}, ["y"], {"w": np.ones((4, 2, 1, 1, 1), np.float32)})
    found = _explained(proto, toolkit)
    (gap,) = found.gaps
    assert set(gap.fields) == {"int group", "int dilations[3]", "char auto_pad[6]"}
    assert gap.constants == {1: [4, 2, 1, 1, 1]}
    text = found.as_text("m.onnx")
    assert "its parameters, the attributes of the nodes: " in text and "int dilations[3]; " in text
    assert "  of what it reads, constant: input 1 [4, 2, 1, 1, 1]" in text.splitlines()
    assert c_fields([{"a": [1]}, {"a": [1.0, 2, 3]}, {"b": ["no"], "c": np.ones(2)}]) == ["float a[3]"]


def test_text_and_json_say_the_same(toolkit: Toolkit, tmp_path: Path) -> None:
    onnx.save(_model(), str(tmp_path / "m.onnx"))
    said: list[str] = []
    for as_json in (False, True):
        explain_model(
            ExplainOptions(tmp_path / "m.onnx", json=as_json), tmp_path / "m.onnx", None, said.append, toolkit
        )
    assert "2 of 7 nodes on the TPU, 5 on the CPU in 1 part" in said[0]
    assert "  a layer of your own: tpulayer add_layer my_tan" in said[0].splitlines()
    assert "  and then: tpulayer compile --map Tan=TPU_MY_TAN" in said[0].splitlines()
    answer = json.loads(said[1])
    assert answer["nodes"] == {"tpu": 2, "cpu": 5, "cpu_parts": 1}
    assert answer["gaps"][0]["nodes"] == ["angles", "angles again"]
    assert {one["name"] for one in answer["operations"]} == {"Conv", "MatMul", "Tan", "Cast", "Sqrt"}


def test_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    free = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("n", 3)}, ["y"])
    onnx.save(free, str(tmp_path / "m.onnx"))
    assert run_command(["explain", str(tmp_path / "m.onnx")]) == 2
    assert "free dimensions" in capfd.readouterr().err
    assert run_command(["explain", str(tmp_path / "m.onnx"), "--shapes", "x=2x3", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["nodes"]["tpu"] == 1


def test_layers_in_8_bits(toolkit: Toolkit, tmp_path: Path) -> None:
    """Which of a table's net stay in fp32, and why, before anything is compiled."""
    path = tmp_path / "net.onnx"
    onnx.save(_model(), path)
    ranges = {name: Range(-1.0, 1.0, 1.0) for name in ("x", "a")}
    said: list[str] = []
    for as_json in (False, True):
        options = ExplainOptions(path, json=as_json, int8=Int8(Table(ranges)))
        explain_model(options, path, None, said.append, toolkit)
    text, found = said[0], json.loads(said[1])["int8"]
    reasons = {one["layer"]: one["fp32"] for one in found["layers"]}
    assert reasons["conv"] is None and reasons["dense"] is not None and 0 < found["share"] < 1
    assert "fp32: MATMUL: " in text and all(line in text for line in found["notes"])
    explain_model(ExplainOptions(path, json=True), path, None, said.append, toolkit)
    assert json.loads(said[2])["int8"] is None


def test_a_gap_that_not_all_nodes_of_the_operation_have(toolkit: Toolkit) -> None:
    """Then the option names the nodes: the others keep their layers."""
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], name="known"),
        helper.make_node("Relu", ["a"], ["v"]),
        helper.make_node("ConvTranspose", ["a", "v"], ["y"], name="computed"),
    ]
    proto = make_model(nodes, {"x": (3, 3, 4)}, ["y"], {"w": np.ones((3, 3, 1), np.float32)})
    (gap,) = _explained(proto, toolkit).gaps
    assert gap.option == "--map computed=TPU_MY_CONV_TRANSPOSE"


@pytest.mark.parametrize(
    "op", ["CumSum", "LSTM", "com.microsoft.FusedMatMul", "GridSample", "Gather", "STFT"]
)
def test_the_layers_name_is_one_that_add_layer_takes(op: str) -> None:
    check_name(Gap(op, "").layer)


def _warned(nodes: Sequence[Any], constants: dict[str, Any], toolkit: Toolkit, path: Path) -> list[str]:
    onnx.save(make_model(list(nodes), {"x": (2, 4)}, ["y"], constants), str(path / "m.onnx"))
    lines: list[str] = []
    assert run(CompileOptions(path / "m.onnx", path / "net", report=True), lines.append, toolkit)
    found = [line for line in lines if line.startswith("warning: ")]
    report = " ".join((path / "net" / "report.txt").read_text().split())
    assert "onnxruntime took " in report and "is known when" not in report  # the net was run
    assert all(line.partition("; ")[0] in report for line in found)
    return found


def test_a_warning_where_nothing_runs_on_the_tpu(toolkit: Toolkit, tmp_path: Path) -> None:
    nodes = [helper.make_node("Tan", ["x"], ["y"])]
    (line,) = _warned(nodes, {}, toolkit, tmp_path)
    assert line == (
        "warning: nothing of this model runs on the TPU: Tan (1 node): there is no layer for this "
        f"operation; `tpulayer explain {tmp_path / 'm.onnx'}` says what would help"
    )


def test_a_warning_where_most_is_multiplied_on_the_cpu(toolkit: Toolkit, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["d"], to=11),
        helper.make_node("MatMul", ["d", "w"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=1),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    few, many = np.ones((9, 1), np.float32), np.ones((4, 9), np.float64)
    (line,) = _warned(nodes, {"w": many, "m": few}, toolkit, tmp_path)
    assert line.startswith("warning: 80% of the multiply-accumulates run on the CPU: ")
    little = {"w": np.ones((4, 1), np.float64), "m": np.ones((1, 99), np.float32)}
    assert not _warned(nodes, little, toolkit, tmp_path)


@examples(60)
@given(st.data())
def test_multiplications_are_those_that_are_done(data: st.DataObject) -> None:
    """The slow reference: with all factors 1 each result is the number of its products."""
    extent = st.integers(1, 4)
    n, c, k, h = (data.draw(extent) for _ in range(4))
    group, transposed = data.draw(st.sampled_from([1, 2])), data.draw(st.booleans())
    cases: dict[str, tuple[list[int], list[int], dict[str, Any]]] = {
        "Conv": ([n, c * group, h], [k * group, c, min(2, h)], {"group": group}),
        "MatMul": ([n, h, c], [c, k], {}),
        "Gemm": ([c, n] if transposed else [n, c], [c, k], {"transA": int(transposed)}),
        "Einsum": ([n, h, c], [c, k], {"equation": "nhc,ck->nhk"}),
    }
    op = data.draw(st.sampled_from(sorted(cases)))
    x, w, attributes = cases[op]
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    model = from_proto(make_model([node], {"x": x}, ["y"], {"w": np.ones(w, np.float32)}))

    (y,) = reference(model, {"x": np.ones(x, np.float32)})
    assert macs(model, model.nodes[0]) == y.sum()
