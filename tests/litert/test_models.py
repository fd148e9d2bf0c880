"""Models of many kinds through an unmodified LiteRT, against its own CPU kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from firmware_sim.errors import UsageError
from tests.litert.running import assert_close, image, random_inputs, run, since
from tests.support.tflite_zoo import ZOO, Layers
from tests.support.workspaces import environment
from user_layers.delegates import litert_command
from user_layers.delegates.litert import LiteRtModel, compile_ahead, counters, left_on_cpu, litert_libraries
from user_layers.toolkit import Toolkit

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install 'ai-edge-litert==2.3.*'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime")
PARTLY = {"detector"}  # whose one operation without a layer is LiteRT's choice of boxes
ALIKE = {"autoencoder", "convnext", "efficientnet", "shuffle"}  # others have most of what these have


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace: the built-in layers."""
    monkeypatch.chdir(tmp_path)


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in ALIKE else kind for kind in ZOO]
)
def test_a_model_of_some_kind_runs_on_the_tpu(kind: str, tmp_path: Path, toolkit: Toolkit) -> None:
    path = _file(tmp_path, ZOO[kind]())
    with LiteRtModel(path, tpu=False) as model:
        inputs = random_inputs(model)
        want = model.run(inputs)
    before = counters()
    with LiteRtModel(path) as model:
        assert_close(model.run(inputs), want)
    assert since(before).runs == 1  # in one partition
    assert len(left_on_cpu(path, toolkit)) == (kind in PARTLY)


def test_many_inputs_and_outputs_are_several_partitions(tmp_path: Path) -> None:
    """A net has 16 at most; what does not fit into one is cut."""
    b = Layers()
    given = [b.given(f"x{i}", 2, 6) for i in range(20)]
    made = [b.each("RELU", b.both("ADD", x, given[i - 1])) for i, x in enumerate(given)]
    path = _file(
        tmp_path, b.file(**{f"y{i}": y for i, y in enumerate(made)}, sum=b.net.op("ADD_N", made, (2, 6)))
    )
    made_ahead = compile_ahead(path, tmp_path / "out.tflite")
    assert made_ahead.operations == 41 and made_ahead.selected == 40 and made_ahead.partitions > 1
    with LiteRtModel(path, tpu=False) as model:
        inputs = random_inputs(model)
    want, _ = run(path, inputs, tpu=False)
    got, did = run(tmp_path / "out.tflite", inputs)
    assert_close(got, want)
    assert did.runs == made_ahead.partitions


def _weighted(*, ones: bool) -> Layers:
    """Weights stored as whole numbers with scales, and a DEQUANTIZE for each. ones: or no DEQUANTIZE."""
    b = Layers()

    def weights(shape: tuple[int, ...], dtype: str, scales: int, zero: int) -> int:
        low = -100 if dtype == "int8" else 0
        stored = b.net.const(b.rng.integers(low, 100, shape).astype(dtype))
        tensor = b.net.tensors[stored]
        tensor.scales = tuple(b.rng.uniform(0.001, 0.01, scales).tolist())
        tensor.zeros = (zero,) * scales
        return stored if ones else b.net.op("DEQUANTIZE", [stored], shape)

    told: Any = {"stride_h": 2, "stride_w": 2, "padding": 0, "fused_activation_function": 1}
    told |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    values = [b.given("image", 1, 9, 8, 3), weights((8, 3, 3, 3), "int8", 8, 0), b.bias(8)]
    x = b.net.op("CONV_2D", values, (1, 5, 4, 8), **told)
    values = [
        b.mean(x, 1, 2, keep=False),
        weights((5, 8), "int8" if ones else "uint8", 1, 0 if ones else 30),
        b.bias(5),
    ]
    b.net.outputs = [b.net.op("FULLY_CONNECTED", values, (1, 5), fused_activation_function=0)]
    return b


@pytest.mark.parametrize("most", [0, 2])
def test_weights_in_whole_numbers_are_the_nets_constants(tmp_path: Path, most: int) -> None:
    """With a scale for each filter, or one and a zero point; also where partitions are kept small."""
    b = _weighted(ones=False)
    path = _file(tmp_path, b.file(y=b.net.outputs[0]))
    made = compile_ahead(path, tmp_path / "out.tflite", operations=most)
    assert made.selected == made.operations == 5
    assert made.partitions == (3 if most else 1)
    want, _ = run(path, image((1, 9, 8, 3)), tpu=False)
    got, did = run(tmp_path / "out.tflite", image((1, 9, 8, 3)))
    assert_close(got, want)
    assert did.runs == made.partitions


def test_weights_that_operations_read_in_whole_numbers(tmp_path: Path, toolkit: Toolkit) -> None:
    """LiteRT quantizes what such operations read while it runs; here they compute in float."""
    b = _weighted(ones=True)
    path = _file(tmp_path, b.file(y=b.net.outputs[0]))
    assert not left_on_cpu(path, toolkit)
    (want, _), (got, did) = run(path, image((1, 9, 8, 3)), tpu=False), run(path, image((1, 9, 8, 3)))
    assert did.runs == 1
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, atol=0.02 * np.abs(array).max())


def _composite(kind: str) -> bytes:
    """A norm in a subgraph of its own, between two dense layers."""
    inner = Layers(seed=3)
    i = inner.given("i", 2, 8, 16)
    spread = inner.both("ADD", inner.mean(inner.each("SQUARE", i), 2), inner.number(1e-6))
    scaled = inner.both("MUL", i, inner.each("RSQRT", spread))
    inner.net.outputs = [inner.both("MUL", scaled, inner.value(16))]
    b = Layers()
    told: Any = {"name": kind, "decomposition_subgraph_index": 1}
    told["composite_attributes"] = bytes(flexbuffers.Dumps({}))
    x = b.net.op("STABLEHLO_COMPOSITE", [b.dense(b.given("image", 2, 8, 16), 16)], (2, 8, 16), **told)
    return b.file(inner.net, y=b.dense(x, 4))


@pytest.mark.parametrize(
    ("kind", "selected", "partitions", "runs"),
    [("odml.rms_norm", 8, 1, 1), ("odml.npu_call", 0, 0, 1), ("odml.cpu_call", 2, 2, 2)],
)
def test_composites(tmp_path: Path, kind: str, selected: int, partitions: int, runs: int) -> None:
    """One is written out by LiteRT; a call for the TPU is compiled as it is and nothing beside it; a call for
    the CPU is left there."""
    path, out = _file(tmp_path, _composite(kind)), tmp_path / "out.tflite"
    made = compile_ahead(path, out)
    assert (made.selected, made.partitions) == (selected, partitions)
    plain = tmp_path / "plain.tflite"  # LiteRT's CPU has no kernels for calls
    plain.write_bytes(_composite("odml.rms_norm"))
    want, _ = run(plain, image((2, 8, 16)), tpu=False)
    for model in (path, out):
        got, did = run(model, image((2, 8, 16)))
        assert did.runs == runs
        assert_close(got, want)


def test_a_free_batch_is_one_and_other_shapes_are_told_ahead(tmp_path: Path) -> None:
    b = Layers()
    x = b.each("RELU", b.conv(b.given("image", 1, 16, 16, 3), 8, 3, 2))
    scores = b.dense(b.mean(x, 1, 2, keep=False), 5)
    for tensor in b.net.tensors:
        tensor.free = (0,) if tensor.data is None else ()
    path, out = _file(tmp_path, b.file(scores=scores)), tmp_path / "out.tflite"
    want, _ = run(path, image((1, 16, 16, 3)), tpu=False)
    got, did = run(path, image((1, 16, 16, 3)))
    assert did.runs == 1
    assert_close(got, want)
    said: list[str] = []
    assert litert_command.compile(path, out, False, said.append, shapes=["image=4x20x12x3"]) == 0
    got, did = run(out, image((4, 20, 12, 3)))
    assert did.runs == 1 and got["scores"].shape == (4, 5)
    with LiteRtModel(path, tpu=False) as model:
        model._model.resize_input_tensor(0, [4, 20, 12, 3], strict=False)
        buffers = model._model.create_input_buffers(0), model._model.create_output_buffers(0)
        buffers[0][0].write(image((4, 20, 12, 3))["image"])
        model._model.run_by_index(0, *buffers)
        plain = buffers[1][0].read(20, np.float32).reshape(4, 5)
        for buffer in (*buffers[0], *buffers[1]):
            buffer.destroy()
    assert_close(got, {"scores": plain})
    for wrong, told in (
        ("picture=1x2", "has no input 'picture', but 'image'"),
        ("image=4x5", r"cannot have the shape \[4, 5\]; it has \[1, 16, 16, 3\]"),
        ("image=1x16x16x4", "does not work with these shapes"),
    ):
        with pytest.raises(UsageError, match=told):
            litert_command.compile(path, tmp_path / "no.tflite", False, said.append, shapes=[wrong])
    assert not (tmp_path / "no.tflite").exists()


def test_inputs_that_are_resized_later_are_refused(tmp_path: Path) -> None:
    """LiteRT tells a device of no other shapes: a run with them fails, and those of before still work."""
    b = Layers()
    path = _file(tmp_path, b.file(y=b.each("RELU", b.given("image", 2, 6))))
    with LiteRtModel(path) as model:
        want = model.run(image((2, 6)))
        for rows in (1, 3):
            with pytest.raises(RuntimeError):
                model._model.resize_input_tensor(0, [rows, 6], strict=False)
                given, made = model._model.create_input_buffers(0), model._model.create_output_buffers(0)
                given[0].write(np.ones((rows, 6), np.float32))
                model._model.run_by_index(0, given, made)
        model._model.resize_input_tensor(0, [2, 6], strict=False)
        assert_close(model.run(image((2, 6))), want)


def test_litert_s_own_benchmark_runs_with_the_tpu(tmp_path: Path) -> None:
    path, out = _file(tmp_path, ZOO["upscaler"]()), tmp_path / "result.json"
    pytest.importorskip("ml_dtypes", reason="LiteRT's benchmark needs ml_dtypes")
    folder = str(litert_libraries())
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ai_edge_litert.tools.benchmark_litert_model"),
            *(f"--model={path}", "--use_npu", "--require_full_delegation", "--num_runs=3", "--warmup_runs=1"),
            *(
                f"--dispatch_library_path={folder}",
                f"--compiler_plugin_path={folder}",
                f"--result_json={out}",
            ),
        ],
        env=environment(TPULAYER_PYTHON=sys.executable),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert out.is_file() and "Fully accelerated: True" in done.stdout + done.stderr
