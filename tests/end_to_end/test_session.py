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
    model, x = _model(2, "Tan"), random(2, 4)
    with pytest.raises(CompileError, match="Tan last"):
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
        assert session.run(["y"], {"x": [[1, 2, 3, 4]]})[0].shape == (1, 3)
        for wrong, text in (([[1j] * 4], "given is complex"), ([[1.0], [2, 3]], "of different lengths")):
            with pytest.raises(UsageError, match=text):
                session.run(None, {"x": wrong})
    with pytest.raises(UsageError, match="no provider 'CUDAExecutionProvider'"):
        ort.InferenceSession(_model(), providers=["CUDAExecutionProvider"], toolkit=toolkit)
    with pytest.raises(ModelError, match="not an ONNX model"):
        ort.InferenceSession(b"what is this", toolkit=toolkit)
    with pytest.raises(UsageError, match="free dimensions"):
        ort.InferenceSession(_model(), dynamic=True, toolkit=toolkit)


def test_unknown_providers_are_left_out_with_a_warning(ort: Any, toolkit: Toolkit) -> None:
    names: list[Any] = ["CUDAExecutionProvider", ("TensorrtExecutionProvider", {}), "CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="no provider 'CUDAExecutionProvider', 'Tensorrt"):
        session = ort.InferenceSession(_model(2, "Tan"), providers=names, toolkit=toolkit)
    with session, pytest.raises(CompileError, match="Tan last"):
        assert session.get_provider_options() == {name: {} for name in session.get_providers()}
        session.set_providers([PROVIDER])
        session.run(None, {"x": random(2, 4)})


def test_dimensions_without_a_name_are_free(ort: Any, toolkit: Toolkit) -> None:
    model = _model()
    dims = model.graph.input[0].type.tensor_type.shape.dim
    x, want = random(2, 4), None
    for change in (dims[0].Clear, lambda: setattr(dims[0], "dim_value", -1), None):
        if change is None:
            model.graph.input[0].type.tensor_type.ClearField("shape")
        else:
            change()
        with ort.InferenceSession(model, toolkit=toolkit) as session:
            assert session.get_inputs()[0].shape == ([] if change is None else [None, 4])
            got = session.run(["y"], {"x": x})[0]
            want = got if want is None else want
            np.testing.assert_array_equal(got, want)


def test_constants_that_are_inputs_may_be_given(ort: Any, toolkit: Toolkit) -> None:
    model, x = _model(2), random(2, 4)
    model.graph.input.append(onnx.helper.make_tensor_value_info("b", 1, [3]))
    theirs = onnxruntime.InferenceSession(model.SerializeToString())
    with ort.InferenceSession(model, toolkit=toolkit) as session:
        assert [one.name for one in session.get_inputs()] == ["x"]
        (b,) = session.get_overridable_initializers()
        assert (b.name, b.shape) == ("b", [3])
        for feed in ({"x": x}, {"x": x, "b": random(3, seed=9)}, {"x": x, "b": random(3, seed=8)}, {"x": x}):
            got, want = (one.run(["y"], feed)[0] for one in (session, theirs))
            np.testing.assert_allclose(got, want, atol=1e-5)
        with pytest.raises(UsageError, match="'b' has the shape"):
            session.run(None, {"x": x, "b": random(4)})


def test_the_names_around_a_session_are_there(ort: Any, toolkit: Toolkit) -> None:
    """As a program uses them that is written for onnxruntime; what it sees is the same."""

    def program(module: Any, **more: Any) -> list[Any]:
        module.set_default_logger_severity(3)
        options, run_options = module.SessionOptions(), module.RunOptions()
        for name in ("intra_op_num_threads", "inter_op_num_threads", "log_severity_level"):
            setattr(options, name, getattr(options, name) + 3)
        seen = [name for name in vars(ort.SessionOptions()) if name[0] != "_"]
        values = [getattr(options, name) for name in seen]
        found: list[Any] = [v if isinstance(v, (bool, int, str)) else int(v) for v in values]
        options.execution_mode = module.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = module.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        found.append(options.get_session_config_entry("session.set_denormal_as_zero"))
        run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        session = module.InferenceSession(_bytes(), options, providers=["CPUExecutionProvider"], **more)
        found.append(session.get_session_options().intra_op_num_threads)
        told = session.get_modelmeta()
        found += [told.producer_name, told.graph_name, told.version, told.custom_metadata_map]
        x = module.OrtValue.ortvalue_from_numpy(random(2, 4))
        found += [x.shape(), x.data_type(), x.element_type(), x.is_tensor(), x.device_name(), x.has_value()]
        found += [y.shape() for y in session.run_with_ort_values(["y"], {"x": x}, run_options)]
        into = module.OrtValue.ortvalue_from_shape_and_type([2, 4], np.bool_)
        binding = session.io_binding()
        binding.bind_cpu_input("x", random(2, 4))
        binding.bind_ortvalue_output("negative", into)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        found += [y.data_type() for y in binding.get_outputs()]
        made = (into.numpy(), *binding.copy_outputs_to_cpu())
        found += [y.astype(np.float64).round(2).tolist() for y in made]
        return found

    def _bytes() -> bytes:
        model = _model(2)
        model.producer_name, model.model_version = "tests", 7
        onnx.helper.set_model_props(model, {"key": "value"})
        return bytes(model.SerializeToString())

    assert program(ort, toolkit=toolkit) == program(onnxruntime)
    assert set(ort.__all__) <= set(dir(onnxruntime))
    assert ort.get_all_providers() == ort.get_available_providers()
    with pytest.raises(UsageError, match="given is float32"):
        ort.OrtValue.ortvalue_from_numpy(np.zeros(3, np.int64)).update_inplace(random(3))
