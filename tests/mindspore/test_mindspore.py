"""Models through the unmodified MindSpore Lite 2.0.0: its own kernels against the delegate's."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, load, numpy_helper, save, shape_inference

from firmware_sim.errors import MissingError
from tests.paths import ROOT
from tests.support.onnx_random import random_model
from user_layers.mindir import read_model
from user_layers.mindir.ms import read_ms
from user_layers.mindir.write import write_ms
from user_layers.mindspore.command import custom_layers, difference, random_array
from user_layers.mindspore.programs import Programs
from user_layers.mindspore.run import Job, Ran, convert, run_jobs
from user_layers.mindspore.wheel import unpack
from user_layers.quantize.quality import compared
from user_layers.spelling.foreign import Array

MODELS = ROOT / "tests" / "sources" / "mindspore"
QUANTISED = ROOT / "tests" / "sources" / "mindspore_quantised"
FILES = sorted(path.name for path in MODELS.iterdir() if path.suffix in (".ms", ".mindir"))
_AIM = 1e-4


def _inputs(path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, Array]:
    model, rng = read_model(path), np.random.default_rng(0)
    found = {}
    for name in model.inputs:
        dtype = model.tensors[name].dtype
        assert dtype is not None
        found[name] = random_array(rng, (shapes or {}).get(name, model.tensors[name].shape), dtype)
    return found


def _both(programs: Programs, path: Path, **options: object) -> tuple[Ran, Ran]:
    """What the framework's kernels give, and the delegate."""
    job = Job(path, _inputs(path), **{"delegate": "", **options})  # type: ignore[arg-type]
    plain, ours = run_jobs(programs, [replace(job, delegate=None), job])
    assert isinstance(plain, Ran) and isinstance(ours, Ran), (plain, ours)
    return plain, ours


@pytest.mark.parametrize("name", FILES)
def test_a_model_runs_on_the_device_and_gives_what_the_frameworks_kernels_give(
    programs: Programs, name: str
) -> None:
    plain, ours = _both(programs, MODELS / name, repeat=2)
    assert difference(plain.outputs, ours.outputs) < _AIM
    assert len(ours.taken) >= 0.75 * (len(ours.taken) + len(ours.kept)), ours.kept
    assert ours.counters["runs"] == 2 * ours.partitions > 0
    assert ours.counters["commands"] > 0 and ours.counters["ns"] > 0


@pytest.mark.parametrize("name", ["integers.ms", "per_layer.ms"])
def test_a_quantized_model_runs_in_8_bits_on_the_device(programs: Programs, name: str) -> None:
    plain, ours = _both(programs, QUANTISED / name)
    assert not ours.kept and ours.partitions == 1 and ours.counters["runs"] == 1
    proto = load(str(QUANTISED / "cnn.onnx"))
    feeds = {key: one.transpose(0, 3, 1, 2) for key, one in _inputs(QUANTISED / name).items()}
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (numbers,) = session.run(None, feeds)
    own, theirs = (compared(numbers, one.outputs["add14_0"]).sqnr for one in (ours, plain))
    assert own > 30 and own > theirs - 6


def test_what_is_rounded_by_each_run_stays_with_the_framework(programs: Programs) -> None:
    plain, ours = _both(programs, QUANTISED / "by_run.ms")
    assert difference(plain.outputs, ours.outputs) < _AIM
    assert {kind for kind, _, _ in ours.kept} == {"DynamicQuant", "MatMulFusion"}
    assert {why for _, _, why in ours.kept} == {"it is quantized by scales of each run"}
    assert len(ours.taken) == 8


@pytest.mark.parametrize("config", ["", "dynamic=1"])
@pytest.mark.parametrize("shape", [(1, 4, 4, 3), (3, 8, 4, 3), (1, 16, 12, 3)])
def test_new_shapes_are_compiled_anew_or_taken_by_a_dynamic_net(
    programs: Programs, shape: tuple[int, ...], config: str
) -> None:
    """Against onnxruntime: the framework's own kernel of Resize is wrong after new shapes."""
    path = MODELS / "cnn.ms"
    feeds = _inputs(path, {"x": shape})
    (ours,) = run_jobs(programs, [Job(path, feeds, {"x": shape}, config)])
    assert isinstance(ours, Ran) and ours.counters["runs"] >= 1 and not ours.kept
    proto = load(str(path.with_suffix(".onnx")))
    turned = np.ascontiguousarray(feeds["x"].transpose(0, 3, 1, 2))
    for dim, extent in zip(proto.graph.input[0].type.tensor_type.shape.dim, turned.shape, strict=True):
        dim.dim_value = extent
    del proto.graph.value_info[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": turned})
    assert difference({"y": want}, ours.outputs) < _AIM


def test_a_delegate_takes_no_more_than_it_is_told(programs: Programs) -> None:
    path = MODELS / "cnn.ms"
    plain, none = _both(programs, path, delegate="least=99")
    assert not none.taken and {why for _, _, why in none.kept} == {"its run is too short"}
    assert difference(plain.outputs, none.outputs) == 0
    (wrong,) = run_jobs(programs, [Job(path, _inputs(path), delegate="speed=9")])
    assert wrong == "speed=9: known are device, opt (0 to 2), dynamic (0, 1), least, most and workspace"


def test_without_the_device_the_frameworks_kernels_do_everything(programs: Programs) -> None:
    plain, ours = _both(programs, MODELS / "cnn.ms", delegate="device=999")
    assert not ours.taken and not ours.kept
    assert difference(plain.outputs, ours.outputs) == 0


def test_a_custom_primitive_is_refused_with_its_reason_where_no_layer_has_its_name(
    programs: Programs, tmp_path: Path
) -> None:
    model = read_ms((MODELS / "cnn.ms").read_bytes())
    operations = tuple(
        replace(op, kind="Custom", inputs=op.inputs[:1], attributes={"type": "TPU_NOWHERE"})
        if op.kind == "PReLUFusion"
        else op
        for op in model.operations
    )
    path = tmp_path / "custom.ms"
    path.write_bytes(write_ms(replace(model, operations=operations)))
    assert custom_layers(read_model(path)) == ["TPU_NOWHERE"]
    jobs = [Job(path, _inputs(path), delegate="", layers=layers) for layers in ((), ("TPU_NOWHERE",))]
    unknown, refused = run_jobs(programs, jobs)
    assert unknown == "the model cannot be built"
    assert isinstance(refused, str) and "the layer TPU_NOWHERE runs on the TPU alone" in refused
    assert "TPU_NOWHERE" in refused.partition("; ")[2]


def test_what_is_written_here_means_the_same_to_the_runtime(programs: Programs, tmp_path: Path) -> None:
    for stem in ("cnn", "attention"):
        path = tmp_path / f"{stem}.ms"
        path.write_bytes(write_ms(read_ms((MODELS / f"{stem}.ms").read_bytes())))
        feeds = _inputs(path)
        want, got = run_jobs(programs, [Job(MODELS / path.name, feeds), Job(path, feeds)])
        assert isinstance(want, Ran) and isinstance(got, Ran)
        assert difference(want.outputs, got.outputs) == 0


def test_damaged_models_and_wrong_inputs_are_errors_of_their_job_alone(
    programs: Programs, tmp_path: Path
) -> None:
    short = tmp_path / "short.ms"
    short.write_bytes((MODELS / "cnn.ms").read_bytes()[:900])
    feeds = _inputs(MODELS / "cnn.ms")
    small = {name: array[:, :4] for name, array in feeds.items()}
    jobs = [Job(short, feeds, delegate=""), Job(MODELS / "cnn.ms", small, delegate="")]
    jobs += [Job(MODELS / "cnn.ms", feeds, delegate="")]
    cut, wrong, good = run_jobs(programs, jobs)
    assert cut == "the model cannot be built"
    assert wrong == "input x has 768 bytes, 384 are given"
    assert isinstance(good, Ran) and good.counters["runs"] == 1


def test_a_device_that_dies_is_an_error_of_that_call_and_the_next_model_runs(programs: Programs) -> None:
    path = MODELS / "attention.ms"
    feeds = _inputs(path)
    long = Job(path, feeds, delegate="", repeat=1_000_000)
    with ThreadPoolExecutor() as pool:
        both = pool.submit(run_jobs, programs, [long, Job(path, feeds, delegate="")])
        end = time.monotonic() + 120
        while not (servers := _servers(programs)) and not both.done() and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(10)  # the model is being built, or it runs
        for server in servers:
            os.kill(server, signal.SIGKILL)
        died, after = both.result(timeout=300)
    assert isinstance(died, str) and died.startswith("the model cannot be ") and "device 0 is gone" in died
    assert isinstance(after, Ran) and after.counters["runs"] == after.partitions == 1


def _servers(programs: Programs) -> list[int]:
    """The processes that hold the devices of the programs that run."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        found[int(folder.name)] = (words, parent)
    ours = {number for number, (words, _) in found.items() if words.startswith(bytes(programs.run) + b"\0")}
    return [number for number, (words, parent) in found.items() if parent in ours and b"bmrt_server" in words]


def test_models_nobody_chose(programs: Programs, tmp_path: Path) -> None:
    """Random ONNX nets through the converter: with the delegate as on the framework's kernels."""
    sources = {}
    for seed in range(24):
        proto, _ = random_model(seed)
        path = tmp_path / f"{seed}.onnx"
        save(_explicit(proto), str(path))
        sources[path] = path.with_suffix(".ms")
    made = [path for path, good in zip(sources.values(), convert(programs, sources), strict=True) if good]
    assert len(made) >= 8, "the converter takes fewer of them than it did"
    tried = 0
    for path in made:
        job = Job(path, _inputs(path), delegate="")
        plain, ours = run_jobs(programs, [replace(job, delegate=None), job])
        if isinstance(plain, str):  # the framework itself cannot
            continue
        assert isinstance(ours, Ran), f"{path.name}: {ours}"
        assert difference(plain.outputs, ours.outputs) < _AIM, path.name
        tried += 1
    assert tried >= 6


def _explicit(proto: Any) -> Any:
    """The model with the attributes written out that the converter does not supply."""
    proto = shape_inference.infer_shapes(proto)
    for node in proto.graph.node:
        if node.op_type in ("Conv", "ConvTranspose"):
            have = {item.name: item for item in node.attribute}
            weights = next((t for t in proto.graph.initializer if t.name == node.input[1]), None)
            if weights is None:
                continue
            rank = len(numpy_helper.to_array(weights).shape) - 2
            for name, value in (("strides", [1] * rank), ("dilations", [1] * rank), ("pads", [0] * 2 * rank)):
                if name not in have and not (name == "pads" and "auto_pad" in have):
                    node.attribute.append(helper.make_attribute(name, value))
            if "group" not in have:
                node.attribute.append(helper.make_attribute("group", 1))
    return proto


def test_a_file_that_is_not_the_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "some.whl"
    wheel.write_bytes(b"PK")
    with pytest.raises(MissingError, match="has the SHA-256"):
        unpack(wheel, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
