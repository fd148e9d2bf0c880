"""Fourier transforms as products, windows added up as a transposed convolution, beside numpy in double
precision: onnxruntime's transforms of 400 numbers are off by 4e-5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tpulayer import Graph
from user_layers.onnx.command import CompileOptions, run
from user_layers.toolkit import Toolkit


def check(
    toolkit: Toolkit,
    node: onnx.NodeProto,
    shape: Sequence[int],
    constants: Mapping[str, Any],
    opset: int,
    near: float = 2e-6,
) -> list[str]:
    """One node from x to y, beside the reference of the package onnx in double precision, if it has one, and
    roughly beside onnxruntime; near: in parts of the largest value. Returns the layers."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    x = helper.make_tensor_value_info("x", 1, shape)
    y = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph([node], "net", [x], [y], tensors)
    proto = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])
    given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": given})
    made = Graph.from_onnx(proto, toolkit=toolkit)
    made.compile()
    (got,) = made.run({"x": given})
    assert got.shape == want.shape
    largest = float(np.abs(want).max())
    assert float(np.abs(got - want).max()) < 1e-4 * largest
    exact = in_double(node, given, constants)
    assert float(np.abs(got - (want if exact is None else exact)).max()) < near * largest
    return [one.op.op for one in made.nodes]


def in_double(node: onnx.NodeProto, x: Any, constants: Mapping[str, Any]) -> Any:
    """By numpy's transforms."""
    told = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    half = told.get("onesided", int(node.op_type == "STFT"))
    if node.op_type == "DFT":
        axis = int(constants["a"] if "a" in constants else told.get("axis", 1)) % x.ndim
        numbers = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
        how = np.fft.ifft if told.get("inverse") else np.fft.fft
        made = how(numbers.astype(complex), constants.get("n"), axis)
        if half:
            made = np.take(made, range(made.shape[axis] // 2 + 1), axis)
    elif node.op_type == "STFT":
        signal = x.reshape(x.shape[:2]).astype(float)
        step = int(constants["s"])
        window = constants.get("w", np.ones(int(constants.get("l", 0))))
        starts = range(0, signal.shape[1] - len(window) + 1, step)
        pieces = np.stack([signal[:, at : at + len(window)] * window for at in starts], 1)
        made = np.fft.rfft(pieces) if half else np.fft.fft(pieces)
    else:
        return None
    return np.stack([made.real, made.imag], -1)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize(
    ("shape", "axis", "length", "attributes"),
    [
        ((2, 24, 1), 1, None, {}),
        ((2, 24, 1), 1, None, {"onesided": 1}),
        ((2, 25, 1), 1, None, {"onesided": 1}),
        ((2, 24, 2), 1, None, {}),
        ((2, 24, 2), 1, None, {"inverse": 1}),
        ((2, 3, 20, 1), 1, None, {}),
        ((2, 3, 20, 2), 2, 32, {}),
        ((2, 3, 20, 1), 2, 13, {"onesided": 1}),
        ((2, 3, 20, 2), -2, 13, {"inverse": 1}),
    ],
)
def test_transforms(
    toolkit: Toolkit,
    opset: int,
    shape: tuple[int, ...],
    axis: int,
    length: int | None,
    attributes: dict[str, int],
) -> None:
    """Real and complex numbers, along any dimension, cut or with zeros behind."""
    constants: dict[str, Any] = {} if length is None else {"n": np.int64(length)}
    inputs = ["x", "n" if length is not None else ""]
    if opset >= 20:
        constants["a"] = np.int64(axis)
        inputs.append("a")
    else:
        attributes = {**attributes, "axis": axis % len(shape)}
    layers = check(toolkit, helper.make_node("DFT", inputs, ["y"], **attributes), shape, constants, opset)
    assert "TPU_MATMUL" in layers and "CPU" not in layers


@pytest.mark.parametrize(
    ("shape", "step", "length", "window", "onesided"),
    [
        ((1, 200), 16, 64, True, 1),
        ((2, 200, 1), 16, 64, True, 1),
        ((2, 203), 10, 25, True, 1),
        ((1, 100), 7, 16, False, 1),
        ((1, 100), 20, 8, True, 1),
        ((1, 90), 5, 12, True, 0),
        ((1, 64), 64, 64, False, 1),
        ((1, 65), 3, 32, True, 1),
        ((1, 1600), 160, 400, True, 1),
    ],
)
def test_spectra_of_windows(
    toolkit: Toolkit, shape: tuple[int, ...], step: int, length: int, window: bool, onesided: int
) -> None:
    """Steps that divide the window or not, or are longer; signals with a rest, or that lack some."""
    constants: dict[str, Any] = {"s": np.int64(step)}
    if window:
        constants["w"] = np.hanning(length).astype(np.float32)
    else:
        constants["l"] = np.int64(length)
    inputs = ["x", "s", "w"] if window else ["x", "s", "", "l"]
    node = helper.make_node("STFT", inputs, ["y"], onesided=onesided)
    layers = check(toolkit, node, shape, constants, 17)
    assert "TPU_CONV" in layers and "CPU" not in layers


@pytest.mark.parametrize(
    ("channels", "size", "block", "attributes"),
    [
        (3, (10, 12), (2, 2), {"strides": [2, 2]}),
        (3, (10, 12), (3, 3), {"pads": [1, 1, 1, 1]}),
        (2, (11, 9), (3, 2), {"strides": [2, 3], "pads": [1, 0, 1, 1]}),
        (1, (9, 9), (3, 3), {"dilations": [2, 2]}),
        (4, (10, 11), (4, 4), {"strides": [3, 4]}),
    ],
)
def test_windows_that_are_added_up(
    toolkit: Toolkit,
    channels: int,
    size: tuple[int, int],
    block: tuple[int, int],
    attributes: dict[str, list[int]],
) -> None:
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0] * 4)
    places = [
        (size[i] + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(2)
    ]
    shape = (2, channels * block[0] * block[1], places[0] * places[1])
    node = helper.make_node("Col2Im", ["x", "i", "b"], ["y"], **attributes)
    layers = check(toolkit, node, shape, {"i": np.array(size), "b": np.array(block)}, 18)
    assert "TPU_DECONV" in layers or "TPU_DEPTH_TO_SPACE" in layers or "TPU_CONV" in layers
    assert "CPU" not in layers


def test_what_stays(toolkit: Toolkit) -> None:
    """A length that would make too large a matrix."""
    node = helper.make_node("DFT", ["x"], ["y"], axis=1)
    assert check(toolkit, node, (1, 4096, 1), {}, 17) == ["CPU"]


@pytest.mark.parametrize("name", ["", "spectra"])
def test_what_is_said(toolkit: Toolkit, tmp_path: Path, name: str) -> None:
    """A net is compared with the products, and so is onnxruntime's own transform; with names or none."""
    window = numpy_helper.from_array(np.hanning(400).astype(np.float32), "w")
    step = numpy_helper.from_array(np.int64(160), "s")
    x = helper.make_tensor_value_info("x", 1, [1, 1600])
    y = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(
        [helper.make_node("STFT", ["x", "s", "w"], ["y"], name)], "net", [x], [y], [window, step]
    )
    proto = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(proto, tmp_path / "net.onnx")
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "net.onnx", tmp_path / "out"), lines.append, toolkit)
    assert any(line.startswith("y equals onnxruntime's within ") for line in lines)
    assert any(line.startswith("onnxruntime with its own transforms is ") for line in lines)
