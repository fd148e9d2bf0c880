"""Layers of the user's: from an ONNX model through the wheel's converter onto the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, load, numpy_helper, save

from tests.support.workspaces import built_workspace
from user_layers.mindir import read_model
from user_layers.mindspore.command import custom_layers, difference
from user_layers.mindspore.programs import Programs
from user_layers.mindspore.run import Job, Ran, convert, run_jobs


def _write(path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "w")
    sizes = {"kernel_shape": [3, 3], "strides": [1, 1], "dilations": [1, 1], "pads": [1] * 4, "group": 1}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", **sizes),
        helper.make_node("TPU_BOMB", ["a"], ["b"], name="twice", domain="tpulayer", at=99),
        helper.make_node("Relu", ["b"], ["y"], name="relu"),
    ]
    values = {"x": [2, 3, 5, 6], "b": [2, 4, 5, 6], "y": [2, 4, 5, 6]}
    x, b, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()
    )
    graph = helper.make_graph(nodes, "mine", [x], [y], [weights], value_info=[b])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("tpulayer", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=7), str(path))


def test_an_operation_of_the_users_in_an_onnx_model_runs_on_the_device(
    programs: Programs,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TPU_BOMB doubles; its parameter comes through the converter as well, or it would not be built."""
    ws = built_workspace(tmp_path_factory, ("double",), "delegate_layers")
    source, model = tmp_path / "mine.onnx", tmp_path / "mine.ms"
    _write(source)
    assert convert(programs, {source: model}) == [True]
    assert custom_layers(read_model(model)) == ["TPU_BOMB"]
    monkeypatch.setenv("TPULAYER_WORKSPACE", str(ws.root))
    x = np.random.default_rng(1).uniform(-1, 1, (2, 5, 6, 3)).astype(np.float32)
    config = f"dynamic=1,workspace={ws.root}"
    (ran,) = run_jobs(programs, [Job(model, {"x": x}, delegate=config, layers=["TPU_BOMB"])])
    assert isinstance(ran, Ran), ran
    assert not ran.kept and ran.partitions == 1
    proto = load(str(source))
    proto.graph.node[1].CopyFrom(helper.make_node("Add", ["a", "a"], ["b"]))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (want,) = session.run(None, {"x": np.ascontiguousarray(x.transpose(0, 3, 1, 2))})
    assert difference({"y": want}, ran.outputs) < 1e-4
