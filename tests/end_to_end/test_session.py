"""onnxruntime's session on the TPU: the same program, the same names, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, ModelError, UsageError
from tests.support.toy_framework import random
from user_layers.session import PROVIDER
from user_layers.toolkit import Toolkit

onnx = pytest.importorskip("onnx", reason="needs onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def _model(batch: int | str = "n", last: str = "Relu") -> Any:
    """y = last(x w + b) [batch, 3], and where x is negative."""
    helper = onnx.helper
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node(last, ["a"], ["y"], name="last"),
        helper.make_node("Less", ["x", "zero"], ["negative"]),
    ]
    numbers = {"w": random(4, 3), "b": random(3, seed=1), "zero": np.zeros((), np.float32)}
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", 1, [batch, 4])],
        [
            helper.make_tensor_value_info("y", 1, [batch, 3]),
            helper.make_tensor_value_info("negative", 9, [batch, 4]),
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in numbers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


@pytest.fixture(scope="module")
def ort(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module, outside of any workspace."""
    import tpulayer.onnxruntime

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("nowhere"))
        yield tpulayer.onnxruntime


def _program(module: Any, path: str, providers: list[str]) -> list[Any]:
    """What a program does that is written for onnxruntime."""
    session = module.InferenceSession(path, providers=providers)
    (x,) = session.get_inputs()
    found: list[Any] = [(arg.name, arg.shape, arg.type) for arg in (x, *session.get_outputs())]
    for batch in (2, 5, 2):
        found += session.run(None, {x.name: random(batch, 4, seed=batch)})
    found += session.run(["negative"], {x.name: random(1, 4)})
    return found


def test_a_program_gives_the_same_with_the_other_import(ort: Any, tmp_path: Path) -> None:
    onnx.save(_model(), tmp_path / "dense.onnx")
    path = str(tmp_path / "dense.onnx")
    ours = _program(ort, path, ort.get_available_providers())
    theirs = _program(onnxruntime, path, ["CPUExecutionProvider"])
    assert ours[:3] == theirs[:3]
    assert len(ours) == len(theirs) == 10
    for got, want in zip(ours[3:], theirs[3:], strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_bytes_protos_fixed_and_dynamic_shapes(ort: Any, toolkit: Toolkit) -> None:
    x = random(2, 4)
    want = onnxruntime.InferenceSession(_model().SerializeToString()).run(["y"], {"x": x})[0]
    for model, options in (
        (_model(2), {}),
        (_model().SerializeToString(), {"shapes": {"x": (2, 4)}}),
        (_model(), {"shapes": {"x": (6, 4)}, "dynamic": True}),
        (_model(7), {"shapes": {"x": (2, 4)}}),
    ):
        with ort.InferenceSession(model, toolkit=toolkit, **options) as session:
            assert "1 compiled" in repr(session)
            np.testing.assert_allclose(session.run(["y"], {"x": x})[0], want, atol=1e-5)
            assert "1 compiled" in repr(session)
    assert not toolkit.closed


def test_what_no_layer_does_needs_the_cpu(ort: Any, toolkit: Toolkit) -> None:
    model, x = _model(2, "Sin"), random(2, 4)
    with pytest.raises(CompileError, match="Sin last"):
        ort.InferenceSession(model, providers=[PROVIDER], toolkit=toolkit)
    with ort.InferenceSession(
        model, providers=[(PROVIDER, {}), "CPUExecutionProvider"], toolkit=toolkit
    ) as one:
        want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
        np.testing.assert_allclose(one.run(None, {"x": x})[0], want[0], atol=1e-5)
        assert one.get_providers() == ort.get_available_providers()


def test_only_the_newest_shapes_stay_compiled(
    ort: Any, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("user_layers.session._MOST_NETS", 2)
    with ort.InferenceSession(_model(), toolkit=toolkit) as session:
        for batch in range(1, 5):
            assert session.run(["y"], {"x": random(batch, 4)})[0].shape == (batch, 3)
        assert "; 2 compiled" in repr(session)


def test_mistakes_are_told(ort: Any, toolkit: Toolkit) -> None:
    with ort.InferenceSession(_model(), toolkit=toolkit) as session:
        for names, feed, text in (
            (None, {}, "input 'x' is missing"),
            (None, {"x": random(2, 4).astype(np.float64)}, "input 'x' is float32, given is float64"),
            (None, {"x": random(2, 5)}, r"has the shape \['n', 4\], given is \[2, 5\]"),
            (None, {"x": random(4)}, "has the shape"),
            (None, {"x": random(2, 4), "z": random(1)}, "no input 'z'"),
            (["z"], {"x": random(2, 4)}, "no output 'z'"),
        ):
            with pytest.raises(UsageError, match=text):
                session.run(names, feed)
    with pytest.raises(UsageError, match="no provider 'CUDAExecutionProvider'"):
        ort.InferenceSession(_model(), providers=["CUDAExecutionProvider"], toolkit=toolkit)
    with pytest.raises(ModelError, match="not an ONNX model"):
        ort.InferenceSession(b"what is this", toolkit=toolkit)
    with pytest.raises(UsageError, match="free dimensions"):
        ort.InferenceSession(_model(), dynamic=True, toolkit=toolkit)
