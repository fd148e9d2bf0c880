"""This compiler as a backend of the onnx package, and a sample of that package's tests.

`python -m tests.onnx_backend` runs all of them and prints the counts.
"""

from __future__ import annotations

import unittest
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.backend.test.runner import Runner

from firmware_sim.errors import UsageError
from tests.onnx_backend import FAMILIES, attempt, cases, known_failures, onnxruntime_fails
from tests.support.onnx_models import make_model
from user_layers.net.compiled import CompiledNet
from user_layers.onnx import backend
from user_layers.runtime import BModelRuntime
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

PINNED = "1.31.1"  # of onnxruntime: what tests/onnx_backend_onnxruntime.txt was made with
EVERY = {"node": 8, "simple": 2, "pytorch-converted": 3, "pytorch-operator": 2}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_of_the_tests_of_the_onnx_package(family: str, toolkit: Toolkit) -> None:
    """Every so many-th: none fails but those that onnxruntime fails too, which are listed for one version."""
    excused = known_failures() if onnxruntime.__version__ == PINNED else None
    kinds: dict[str, list[str]] = {}
    for case in list(cases(family))[:: EVERY[family]]:
        outcome = attempt(case, toolkit)
        if outcome.kind == "failed":
            assert onnxruntime_fails(case), (case.name, outcome.why)
            assert excused is None or f"{family}/{case.name}" in excused
        kinds.setdefault(outcome.kind, []).append(case.name)
    assert kinds["TPU"]
    if family == "node":
        assert kinds["TPU and CPU"] and kinds["CPU"] and kinds["refused"] and len(kinds["TPU"]) > 40


def test_a_list_a_mapping_and_one_array_are_inputs(toolkit: Toolkit) -> None:
    proto = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["y"])
    x = np.array([[-1, 2, 0], [3, -4, 5]], np.float32)
    prepared = backend.prepare(proto, "CPU", toolkit=toolkit)
    for given in ([x], {"x": x}, x):
        (y,) = prepared.run(given)
        assert np.array_equal(y, np.maximum(x, 0))
    for wrong, message in (
        ([x, x], "2 inputs are given; the model has 1"),
        ({"z": x}, r"given are \['z'\]"),
        ([x.astype(np.float64)], "input 'x' is float64; the model has float32"),
        ([x[:1]], r"input 'x' is \[1, 3\]; the model has \[2, 3\]"),
    ):
        with pytest.raises(UsageError, match=message):
            prepared.run(wrong)


def test_a_net_is_loaded_once_and_goes_with_its_model(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(net: CompiledNet, toolkit: Toolkit) -> BModelRuntime:
        loaded.append(load_net(net, toolkit))
        return loaded[-1]

    monkeypatch.setattr(backend, "load_net", load)
    proto = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("n", 3)}, ["y"])
    prepared = backend.prepare(proto, toolkit=toolkit)
    for n in (2, 2, 5, 5):
        prepared.run([np.ones((n, 3), np.float32)])
    assert [len(runtime.networks) for runtime in loaded] == [0, 1]
    prepared.close()
    prepared.run([np.ones((5, 3), np.float32)])
    assert [len(runtime.networks) for runtime in loaded] == [0, 0, 1]
    del prepared
    backend.run_model(proto, [np.ones((1, 3), np.float32)], toolkit=toolkit)
    assert [len(runtime.networks) for runtime in loaded] == [0, 0, 0, 0]


def test_free_dimensions_are_those_of_the_inputs(toolkit: Toolkit) -> None:
    proto = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("n", 3)}, ["y"])
    prepared = backend.prepare(proto, toolkit=toolkit)
    for n in (2, 5, 0):
        (y,) = prepared.run([np.full((n, 3), -1, np.float32)])
        assert y.shape == (n, 3) and not y.any()


def test_types_are_those_of_the_model(toolkit: Toolkit) -> None:
    nodes = [helper.make_node("Greater", ["x", "x"], ["y"]), helper.make_node("ArgMax", ["x"], ["i"])]
    proto = make_model(nodes, {"x": (2, 3)}, ["y", "i"])
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    proto.graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    y, i = backend.run_model(proto, [np.ones((2, 3), np.float32)], toolkit=toolkit)
    assert y.dtype == np.bool_ and i.dtype == np.int64


def test_a_node_alone(toolkit: Toolkit) -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    (y,) = backend.run_node(helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0), [x], toolkit=toolkit)
    assert y.shape == () and y == 10


def test_devices_and_types(toolkit: Toolkit) -> None:
    assert backend.supports_device("CPU") and backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")
    proto = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["y"])
    assert backend.is_compatible(proto)
    with pytest.raises(UsageError, match="there is no device 'CUDA'"):
        backend.prepare(proto, "CUDA", toolkit=toolkit)
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    assert not backend.is_compatible(proto)


def test_the_runner_of_the_onnx_package_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolkit: Toolkit
) -> None:
    class WithToolkit(backend.TpulayerBackend):
        @classmethod
        def prepare(cls, model: object, device: str = "CPU", **options: object) -> backend.PreparedModel:
            return super().prepare(model, device, toolkit=toolkit, **options)

    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the tests divides by zero
        suite = (
            Runner(WithToolkit, "none").include("test_(relu|softmax_axis_1|transpose_default)_c").test_suite
        )
    result = unittest.TestResult()
    suite.run(result)
    assert not result.errors and not result.failures
    assert result.testsRun - len(result.skipped) == 3
