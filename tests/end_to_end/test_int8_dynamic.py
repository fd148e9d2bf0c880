"""Dynamic nets in 8-bit integers with smaller inputs than they were compiled for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from user_layers.onnx.build import build
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8, QuantiseOptions
from user_layers.quantize.table import Table
from user_layers.runtime import BModelRuntime
from user_layers.runtime.onnx_session import open_session
from user_layers.toolkit import Toolkit

node = helper.make_node
RNG = np.random.default_rng(0)
KERNELS = {
    name: (RNG.standard_normal(shape) / 8).astype(np.float32)
    for name, shape in (("v", (16, 3, 3, 3)), ("w", (16, 16, 3, 3)))
}
SHAPES = ((4, 3, 16, 16), (1, 3, 16, 16), (3, 3, 9, 12))


def pictures() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "v"], ["a"], pads=[1] * 4, name="first"),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w"], ["y"], pads=[1] * 4, name="second"),
    ]
    return make_model(nodes, {"x": ("n", 3, "h", "w")}, ["y"], KERNELS)


def samples(shape: tuple[int, ...], seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def table(model: onnx.ModelProto, shape: tuple[int, ...], toolkit: Toolkit) -> Table:
    built = build(from_proto(model, {"x": shape}), "net", toolkit=toolkit, integers=False)
    return calibrate(built.graph, [{"x": samples(shape)}])


def quantised_scales(first: float, last: float) -> onnx.ModelProto:
    """The same with scales of its own: large biases, for which means are found with noise."""
    nodes, constants = [], {"xs": np.float32(first), "ys": np.float32(last), "z": np.int8(0)}
    for name, kernel in KERNELS.items():
        step = np.float32(np.abs(kernel).max() / 127)
        constants |= {f"{name}q": np.rint(kernel / step).astype(np.int8), f"{name}s": step}
        constants[f"{name}b"] = (np.float32(last) * 60 * np.linspace(-1, 1, 16)).astype(np.float32)
        nodes.append(node("DequantizeLinear", [f"{name}q", f"{name}s", "z"], [f"{name}f"]))
    for at, (name, step) in enumerate((("v", "xs"), ("w", "ys"))):
        nodes += [
            node("QuantizeLinear", [("x", "c0")[at], step, "z"], [f"q{at}"]),
            node("DequantizeLinear", [f"q{at}", step, "z"], [f"d{at}"]),
            node("Conv", [f"d{at}", f"{name}f", f"{name}b"], [f"c{at}"], pads=[1] * 4, name=f"conv{at}"),
        ]
    nodes += [
        node("QuantizeLinear", ["c1", "ys", "z"], ["q2"]),
        node("DequantizeLinear", ["q2", "ys", "z"], ["y"]),
    ]
    return make_model(nodes, {"x": ("n", 3, "h", "w")}, ["y"], constants)


def compiled(
    model: onnx.ModelProto,
    shape: tuple[int, ...],
    int8: Int8 | None,
    folder: Path,
    toolkit: Toolkit,
    **options: Any,
) -> list[str]:
    path = folder.with_suffix(".onnx")
    onnx.save(model, str(path))
    lines: list[str] = []
    given = ("x=" + "x".join(map(str, shape)),)
    assert run(CompileOptions(path, folder, shapes=given, int8=int8, **options), lines.append, toolkit)
    return lines


def launched(folder: Path, x: Any, toolkit: Toolkit) -> Any:
    with BModelRuntime(toolkit.device) as runtime:
        (net,) = runtime.load(folder / "compilation.bmodel")
        (y,) = runtime.launch(net, [x])
    return y


@pytest.mark.parametrize("kind", ["table", "integers at the edges", "scales of its own"])
def test_smaller_pictures(kind: str, toolkit: Toolkit, tmp_path: Path) -> None:
    """The bits of a net that was compiled for them alone with the same table; with a file's own scales, whose
    means come of noise, numbers near onnxruntime's."""
    edges = QuantiseOptions(quant_input=kind.startswith("integers"), quant_output=kind.startswith("integers"))
    model, int8 = pictures(), None
    if kind.startswith("scales"):
        model = quantised_scales(3.5 / 127, 6 / 127)
    else:
        int8 = Int8(table(model, SHAPES[0], toolkit), edges)
    lines = compiled(model, SHAPES[0], int8, tmp_path / "all", toolkit, dynamic=True)
    assert any("100.0% of the MACs" in line for line in lines), lines
    assert not any("inputs need the compiled" in line for line in lines), lines
    for shape in SHAPES:
        x = samples(shape, 7)
        if edges.quant_input:
            x = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
        got = launched(tmp_path / "all", x, toolkit)
        if int8 is not None:
            name = "_".join(map(str, shape))
            compiled(model, shape, int8, tmp_path / name, toolkit)
            np.testing.assert_array_equal(got, launched(tmp_path / name, x, toolkit))
        else:
            (want,) = open_session(model.SerializeToString()).run(None, {"x": x})
            assert compared(want, got).sqnr > 25


def test_tokens_stay_as_they_are(toolkit: Toolkit, tmp_path: Path) -> None:
    """Fewer of them would be faster in fp32 where more are in 8 bits; but the net is the one that it is."""
    matrix = (np.random.default_rng(2).standard_normal((32, 32)) / 8).astype(np.float32)
    nodes = [node("MatMul", ["x", "w"], ["y"], name="product")]
    model = make_model(nodes, {"x": ("n", 8, 32)}, ["y"], {"w": matrix})
    full, less = (4, 8, 32), (3, 8, 32)
    int8 = Int8(table(model, full, toolkit))
    made = [build(from_proto(model, {"x": s}), "net", toolkit=toolkit, int8=int8) for s in (full, less)]
    assert [len(one.graph.nodes) > 1 for one in made] == [True, False]
    lines = compiled(model, full, int8, tmp_path / "net", toolkit, dynamic=True)
    assert not any("inputs need the compiled first" in line for line in lines), lines
    x = samples(less, 7)
    assert compared(x @ matrix, launched(tmp_path / "net", x, toolkit)).sqnr > 30
