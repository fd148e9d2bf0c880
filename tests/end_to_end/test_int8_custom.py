"""Nets in 8-bit integers with layers of the user's: compared behind what these compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tests.support.workspaces import layers_toolkit
from user_layers.evaluate.job import Job
from user_layers.evaluate.work import Worker
from user_layers.onnx.build import build
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.data import Batch
from user_layers.quantize.rewrite import Int8
from user_layers.runtime import BModelRuntime
from user_layers.testing.golden import WorkspaceGoldens
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(0)
SHAPE = (2, 3, 12, 12)
KERNELS = {
    name: (RNG.standard_normal(shape) / 8).astype(np.float32)
    for name, shape in (("v", (16, 3, 3, 3)), ("w", (16, 16, 3, 3)))
}
GOLDEN = """
import numpy as np
from tpulayer.testing import Array, Case, Param, check_layer

def golden(inputs: list[Array], param: Param) -> list[Array]:
    ends = np.iinfo(inputs[0].dtype)
    return [np.clip(FACTOR * inputs[0].astype(np.int32), ends.min, ends.max).astype(inputs[0].dtype)]

CASES = [Case((1, 3, 17, 23), param={"rescale": 0}, dtype="int8", scale=0.05, out_scale=0.05)]

def test_double8() -> None:
    check_layer("double8", golden, CASES)
"""
MAP = "Relu=TPU_DOUBLE8"


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """A built workspace with a layer that doubles integers."""
    with layers_toolkit(tmp_path_factory, "data_type_layers") as opened:
        yield opened


@pytest.fixture
def golden(toolkit: Toolkit) -> Iterator[Path]:
    """The test of that layer, whose golden function doubles too."""
    assert toolkit.workspace is not None
    toolkit.workspace.tests_dir.mkdir(exist_ok=True)
    path = toolkit.workspace.tests_dir / "test_double8.py"
    path.write_text(GOLDEN.replace("FACTOR", "2"))
    yield path
    path.unlink(missing_ok=True)


def model(batch: Any = SHAPE[0]) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4, name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="middle"),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=[1] * 4, name="second"),
    ]
    return make_model(nodes, {"x": (batch, *SHAPE[1:])}, ["y"], KERNELS)


def quantised_model() -> onnx.ModelProto:
    """The same with scales of its own."""
    scales = {"x": 3.5 / 127, "a": 3.5 / 127, "b": 3.5 / 127, "y": 9 / 127}
    constants: dict[str, Any] = {f"{name}s": np.float32(scale) for name, scale in scales.items()}
    constants["z"] = np.int8(0)

    def grid(name: str) -> list[Any]:
        source = name if name == "x" else f"{name}0"
        return [
            helper.make_node("QuantizeLinear", [source, f"{name}s", "z"], [f"{name}q"]),
            helper.make_node(
                "DequantizeLinear", [f"{name}q", f"{name}s", "z"], [name if name == "y" else f"{name}d"]
            ),
        ]

    weights = []
    for name, kernel in KERNELS.items():
        step = np.float32(np.abs(kernel).max() / 127)
        constants |= {f"{name}q": np.rint(kernel / step).astype(np.int8), f"{name}s": step}
        weights.append(helper.make_node("DequantizeLinear", [f"{name}q", f"{name}s", "z"], [f"{name}d"]))
    nodes = [
        *weights,
        *grid("x"),
        helper.make_node("Conv", ["xd", "vd"], ["a0"], pads=[1] * 4, name="first"),
        *grid("a"),
        helper.make_node("Relu", ["ad"], ["b0"], name="middle"),
        *grid("b"),
        helper.make_node("Conv", ["bd", "wd"], ["y0"], pads=[1] * 4, name="second"),
        *grid("y"),
    ]
    return make_model(nodes, {"x": SHAPE}, ["y"], constants)


def samples(seed: int = 1, batch: int = SHAPE[0]) -> Any:
    return np.random.default_rng(seed).standard_normal((batch, *SHAPE[1:])).astype(np.float32)


def with_table(toolkit: Toolkit) -> Int8:
    custom = {"Relu": "TPU_DOUBLE8"}
    built = build(from_proto(model()), "net", custom=custom, toolkit=toolkit, integers=False)
    return Int8(calibrate(built.graph, [{"x": samples()}]))


def made(
    proto: onnx.ModelProto, int8: Int8 | None, folder: Path, toolkit: Toolkit, **options: Any
) -> tuple[bool, list[str]]:
    onnx.save(proto, str(folder / "m.onnx"))
    lines: list[str] = []
    given = CompileOptions(folder / "m.onnx", folder / "net", custom=(MAP,), int8=int8, **options)
    return run(given, lines.append, toolkit, goldens=WorkspaceGoldens), lines


def decibels(lines: list[str]) -> float:
    (line,) = (line for line in lines if line.startswith("y: "))
    return float(line.split()[1])


@pytest.mark.parametrize("own_scales", [False, True])
def test_a_mapped_layer_is_compared_with_its_golden_function(
    own_scales: bool, toolkit: Toolkit, tmp_path: Path, golden: Path
) -> None:
    """Of the integers that it gets in the net; what is behind it is compared behind golden's result."""
    proto, int8 = (quantised_model(), None) if own_scales else (model(), with_table(toolkit))
    ok, lines = made(proto, int8, tmp_path, toolkit)
    assert ok and decibels(lines) > 25, lines
    assert "TPU_DOUBLE8 equals golden of its test, 1 layer" in lines
    assert any(line.startswith("Relu mapped, 1 node: at most") for line in lines)

    golden.write_text(GOLDEN.replace("FACTOR", "3"))
    ok, lines = made(proto, int8, tmp_path, toolkit)
    assert not ok and any(line.startswith("TPU_DOUBLE8 (middle): DIFFERS in") for line in lines)

    golden.unlink()
    ok, lines = made(proto, int8, tmp_path, toolkit)
    assert ok and decibels(lines) > 25
    assert "TPU_DOUBLE8 has no golden function: 1 layer taken as computed" in lines


def test_evaluate_has_the_layer_in_both_nets(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With integers that end where those of the other net do, which the layer's results are cut at."""
    made(model(), with_table(toolkit), tmp_path, toolkit)
    assert toolkit.workspace is not None
    monkeypatch.chdir(toolkit.workspace.root)
    x = samples(7)
    with Worker(Job.of(tmp_path / "net"), layers=False) as worker:
        score = worker.score(Batch({"x": x}, None, len(x)))
    assert score.outputs["y"].sqnr > 28


def test_smaller_batches(toolkit: Toolkit, tmp_path: Path) -> None:
    """A dynamic net with such a layer."""
    int8 = with_table(toolkit)
    _, lines = made(model("n"), int8, tmp_path, toolkit, shapes=("x=4x3x12x12",), dynamic=True)
    assert not any("inputs need the compiled" in line for line in lines), lines
    x = samples(5, 3)
    with BModelRuntime(toolkit.device) as runtime:
        (net,) = runtime.load(tmp_path / "net" / "compilation.bmodel")
        got = runtime.launch(net, [x])[0]
        whole = runtime.launch(net, [np.concatenate([x, x[:1]])])[0]
    np.testing.assert_array_equal(got, whole[:3])
