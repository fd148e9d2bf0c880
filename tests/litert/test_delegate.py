"""The compiler plugin and the dispatch library in an unmodified LiteRT, ahead of time and when loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, UsageError
from tests.litert.running import image, run
from tests.support.tflite_models import Net, to_bytes
from tests.support.tflite_nets import NETS
from tests.support.workspaces import environment
from user_layers.delegates import litert_command
from user_layers.delegates.litert import (
    LiteRtModel,
    compile_ahead,
    left_on_cpu,
    litert_libraries,
)
from user_layers.toolkit import Toolkit

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime")


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace: the built-in layers."""
    monkeypatch.chdir(tmp_path)


def _two_parts() -> bytes:
    """An angle, which no layer computes, between two partitions."""
    net = Net()
    x = net.input((1, 8, 9, 3))
    rng = np.random.default_rng(0)
    weights = net.const(rng.standard_normal((4, 3, 3, 3)).astype(np.float32))
    bias = net.const(rng.standard_normal(4).astype(np.float32))
    told: Any = {"stride_h": 2, "stride_w": 2, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": 0}
    y = net.op("CONV_2D", [x, weights, bias], (1, 4, 5, 4), **told, fused_activation_function=3)
    y = net.op("ADD", [y, y], (1, 4, 5, 4), fused_activation_function=0)
    y = net.op("ATAN2", [y, y], (1, 4, 5, 4))
    mean = net.op("MEAN", [y, net.const([1, 2], "int32")], (1, 4), keep_dims=False)
    net.outputs = [mean]
    return to_bytes(net, signature={"image": x, "mean": mean})


@pytest.mark.parametrize("ahead", [False, True])
def test_a_model_is_divided_between_tpu_and_cpu(tmp_path: Path, ahead: bool) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(_two_parts())
    inputs = image((1, 8, 9, 3))
    want, idle = run(path, inputs, tpu=False)
    assert idle.runs == 0
    if ahead:
        made = compile_ahead(path, tmp_path / "compiled.tflite")
        assert (made.selected, made.operations, made.partitions) == (3, 4, 2)
        path = tmp_path / "compiled.tflite"
    got, did = run(path, inputs)
    assert (did.runs, did.failures) == (2, 0)
    assert did.commands > 0 and did.ns > 0
    assert (did.bytes_in, did.bytes_out) == (4 * (8 * 9 * 3 + 80), 4 * (80 + 4))
    np.testing.assert_allclose(got["mean"], want["mean"], rtol=0, atol=1e-4 * np.abs(want["mean"]).max())


@pytest.mark.parametrize(("name", "size", "width"), [("mobilenet_v2", 64, 0.25), ("resnet", 48, 8)])
def test_real_nets_run_whole_on_the_tpu(tmp_path: Path, name: str, size: int, width: Any) -> None:
    data, _ = NETS[name](size, width, 100)
    path, out = tmp_path / "net.tflite", tmp_path / "compiled.tflite"
    path.write_bytes(data)
    made = compile_ahead(path, out)
    assert made.selected == made.operations and made.partitions == 1
    inputs = image((1, size, size, 3))
    want, _ = run(path, inputs, tpu=False)
    got, did = run(out, inputs)
    assert did.runs == 1
    difference = np.abs(got["scores"] - want["scores"]).max()
    assert difference <= 1e-4 * np.abs(want["scores"]).max()


def test_partitions_may_be_kept_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_LITERT_OPERATIONS", "10")
    path = tmp_path / "net.tflite"
    path.write_bytes(NETS["resnet"](48, 8, 100)[0])
    made = compile_ahead(path, tmp_path / "compiled.tflite")
    assert made.partitions >= -(-made.operations // 10)
    inputs = image((1, 48, 48, 3))
    got, did = run(tmp_path / "compiled.tflite", inputs)
    assert did.runs == made.partitions
    want, _ = run(path, inputs, tpu=False)
    np.testing.assert_allclose(got["scores"], want["scores"], rtol=0, atol=1e-4 * want["scores"].max())


def test_the_python_interface_compiles_ahead_for_our_target(tmp_path: Path) -> None:
    from ai_edge_litert.aot import aot_compile

    from user_layers.delegates.litert_aot import litert_target

    path = tmp_path / "model.tflite"
    path.write_bytes(_two_parts())
    result = aot_compile.aot_compile(
        str(path), output_dir=str(tmp_path / "out"), target=litert_target(), keep_going=False
    )
    ((_, model),) = result.models_with_backend
    (stats,) = model.partition_stats.subgraph_stats
    assert (stats.num_ops_offloaded, stats.num_total_ops, stats.num_partitions_offloaded) == (3, 4, 2)
    assert run(Path(model.path), image((1, 8, 9, 3)))[1].runs == 2


def test_the_report_says_why_an_operation_stays(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(_two_parts())
    with Toolkit() as toolkit:
        assert left_on_cpu(path, toolkit) == ["TFLite ATAN2 t5: there is no such operation here"]


def test_commands(tmp_path: Path) -> None:
    path, said = tmp_path / "model.tflite", list[str]()
    path.write_bytes(_two_parts())
    say: Callable[[str], None] = said.append
    assert litert_command.paths(say) == 0
    assert Path(said[0]) == litert_libraries() and all(Path(line).exists() for line in said)
    np.savez(tmp_path / "in.npz", image=image((1, 8, 9, 3))["image"])
    assert litert_command.compile(path, tmp_path / "out.tflite", True, say) == 0
    for model in (path, tmp_path / "out.tflite"):
        assert litert_command.run(model, tmp_path / "in.npz", tmp_path / "out.npz", say) == 0
        with np.load(tmp_path / "out.npz") as made:
            assert made["mean"].shape == (1, 4)
    assert any(line.startswith("TPU: 2 partitions, ") for line in said)


def test_what_is_wrong_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.tflite"
    with pytest.raises(UsageError, match="cannot be read"):
        compile_ahead(path, out)
    path.write_bytes(b"none of it")
    with pytest.raises(CompileError, match="cannot be compiled"):
        compile_ahead(path, out)
    with pytest.raises(CompileError, match="does not load"):
        LiteRtModel(path)
    path.write_bytes(_two_parts())
    with LiteRtModel(path) as model:
        with pytest.raises(UsageError, match=r"the model takes \[1, 8, 9, 3\]"):
            model.run(image((1, 8, 9, 4)))
        with pytest.raises(UsageError, match="the model has image"):
            model.run({})
    assert not out.exists()


def test_a_damaged_partition_is_an_error_of_loading(tmp_path: Path) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.tflite"
    path.write_bytes(_two_parts())
    compile_ahead(path, out)
    data = bytearray(out.read_bytes())
    place = data.index(b"TPLDPRG\0") + 200
    data[place] ^= 0xFF
    out.write_bytes(bytes(data))
    with pytest.raises(CompileError, match=r"tpulayer: LiteRT: partition_\d: "):
        LiteRtModel(out)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_custom_operation_is_the_users_layer(tmp_path: Path, demo_workspace: Path, ahead: bool) -> None:
    """TPU_CROP with its parameters by name, between two of LiteRT's own operations."""
    net = Net()
    x = net.input((2, 5, 6, 3))
    middle = net.op("NEG", [x], (2, 5, 6, 3))
    made = net.op("TPU_CROP", [middle], (2, 3, 5, 3), custom=True, before=[0, 1, 1, 0], after=[0, 1, 0, 0])
    positive = net.op("RELU", [made], (2, 3, 5, 3))
    net.outputs = [net.op("ATAN2", [positive, positive], (2, 3, 5, 3))]
    path = tmp_path / "crop.tflite"
    path.write_bytes(to_bytes(net, signature={"image": x, "cropped": net.outputs[0]}))
    picture = image((2, 5, 6, 3))["image"]
    np.savez(tmp_path / "in.npz", image=picture)
    commands = [["run", str(path), "--input", "in.npz", "--output", "out.npz"]]
    if ahead:
        commands.insert(0, ["compile", str(path), "-o", "compiled.tflite"])
        commands[1][1] = "compiled.tflite"
    for words in commands:
        done = subprocess.run(
            [sys.executable, "-c", "from user_layers.cli.main import main; main()", "litert", *words],
            env=environment(TPULAYER_WORKSPACE=str(demo_workspace)),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    with np.load(tmp_path / "out.npz") as found:
        kept = np.maximum(-picture[:, 1:4, 1:], 0)
        want = np.arctan2(kept, kept)
        np.testing.assert_allclose(found["cropped"], want, rtol=1e-5, atol=1e-6)


def test_two_models_of_several_signatures_run_in_turn(tmp_path: Path) -> None:
    """Each subgraph that a signature names is divided by itself."""
    nets = []
    for kind, extent in (("RELU", 4), ("NEG", 7)):
        net = Net()
        net.outputs = [net.op(kind, [net.input((2, extent))], (2, extent))]
        nets.append(net)
    path = tmp_path / "model.tflite"
    data = to_bytes(*nets, signature={"x": nets[0].inputs[0], "y": nets[0].outputs[0]})
    path.write_bytes(data)
    made = compile_ahead(path, tmp_path / "out.tflite")
    assert (made.selected, made.operations, made.partitions) == (2, 2, 2)
    given = np.array([[-1, 2, -3, 4]] * 2, np.float32)
    with LiteRtModel(path) as loaded, LiteRtModel(tmp_path / "out.tflite") as ahead:
        for model in (loaded, ahead, loaded):
            np.testing.assert_array_equal(model.run({"x": given})["y"], np.maximum(given, 0))


def test_threads_run_models_side_by_side(tmp_path: Path) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.tflite"
    path.write_bytes(_two_parts())
    compile_ahead(path, out)
    want, _ = run(path, image((1, 8, 9, 3)), tpu=False)
    models = [LiteRtModel(out) for _ in range(3)]

    def work(model: LiteRtModel) -> None:
        for _ in range(5):
            got = model.run(image((1, 8, 9, 3)))
            np.testing.assert_allclose(got["mean"], want["mean"], rtol=0, atol=1e-4)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, models))
    for model in models:
        model.close()


def test_weights_in_half_precision_are_the_nets_constants(tmp_path: Path) -> None:
    """As converters store them: float16, and an operation for each that makes float32 of it."""
    net, rng = Net(), np.random.default_rng(0)
    x = net.input((1, 5, 6, 3))
    weights = net.const(rng.standard_normal((4, 3, 3, 3)).astype(np.float16))
    bias = net.const(rng.standard_normal(4).astype(np.float16))
    whole = [net.op("DEQUANTIZE", [half], net.tensors[half].shape) for half in (weights, bias)]
    told: Any = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": 0}
    net.outputs = [net.op("CONV_2D", [x, *whole], (1, 5, 6, 4), **told, fused_activation_function=0)]
    path = tmp_path / "half.tflite"
    path.write_bytes(to_bytes(net, signature={"image": x, "y": net.outputs[0]}))
    made = compile_ahead(path, tmp_path / "out.tflite")
    assert (made.selected, made.operations, made.partitions) == (3, 3, 1)
    want, _ = run(path, image((1, 5, 6, 3)), tpu=False)
    got, did = run(tmp_path / "out.tflite", image((1, 5, 6, 3)))
    assert did.runs == 1
    np.testing.assert_allclose(got["y"], want["y"], rtol=0, atol=1e-4 * np.abs(want["y"]).max())
