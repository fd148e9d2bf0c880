"""Models whose comparison says nothing, or little: those that draw, and those whose results are all alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from user_layers.onnx.command import CompileOptions, run
from user_layers.toolkit import Toolkit


@pytest.mark.parametrize(
    ("training", "ratio", "compared"), [(True, 0.5, False), (False, 0.5, True), (True, 0.0, True)]
)
def test_what_is_exported_for_training_is_not_compared(
    training: bool, ratio: float, compared: bool, toolkit: Toolkit, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Dropout", ["r", "ratio", "training"], ["d"], name="drop"),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    constants = {"ratio": np.float32(ratio), "training": np.bool_(training)}
    onnx.save(make_model(nodes, {"x": (2, 64)}, ["y"], constants), tmp_path / "m.onnx")
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), lines.append, toolkit)
    told = "not compared: Dropout drop makes random numbers (exported for training?)"
    assert (told in lines) == (not compared)
    assert any(line.startswith("y equals onnxruntime's") for line in lines) == compared


def test_results_that_are_all_denormals_say_little(toolkit: Toolkit, tmp_path: Path) -> None:
    """On the host, which has them; the chip has 0 in their place."""
    nodes = [helper.make_node("Mul", ["x", "least"], ["a"]), helper.make_node("Det", ["a"], ["y"])]
    constants = {"least": np.float32(1e-20)}
    onnx.save(make_model(nodes, {"x": (5, 2, 2)}, ["y"], constants), tmp_path / "m.onnx")
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), lines.append, toolkit)
    (line,) = (line for line in lines if line.startswith("y equals onnxruntime's"))
    assert line.endswith("this says little: each of its values is 0 for these random inputs")


@pytest.mark.parametrize(("op", "value"), [("Log", "nan"), ("Relu", "0"), ("Neg", "")])
def test_results_that_are_all_alike(op: str, value: str, toolkit: Toolkit, tmp_path: Path) -> None:
    """Of numbers below 0."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Sub", ["least", "a"], ["n"]),
        helper.make_node(op, ["n"], ["y"]),
    ]
    onnx.save(make_model(nodes, {"x": (2, 64)}, ["y"], {"least": np.float32(-1)}), tmp_path / "m.onnx")
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net"), lines.append, toolkit)
    (line,) = (line for line in lines if line.startswith("y equals onnxruntime's"))
    told = f"; this says little: each of its values is {value} for these random inputs"
    assert line.endswith(told) == bool(value)
