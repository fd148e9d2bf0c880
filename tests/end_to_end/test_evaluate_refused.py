"""`evaluate`, `calibrate`, `--search`: numbers that are none, labels that are no classes, files of others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmware_sim.errors import UsageError
from tests.support.onnx_models import make_model
from tests.support.workspaces import tpulayer
from user_layers.evaluate.command import EvaluateOptions, as_json, lines, run_evaluate
from user_layers.evaluate.score import Score

METRICS = """
def nan(want, got, labels):
    return float("nan")

def leaves(want, got, labels):
    raise SystemExit(3)

def of_labels(want, got, labels):
    return float(labels.sum())
"""


def model(path: Path, *, logarithm: bool = False) -> None:
    """A convolution behind a relu or a logarithm, and the mean of each channel."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Log" if logarithm else "Relu", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["c"], pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    weights = {"w": rng.standard_normal((5, 3, 3, 3)).astype(np.float32)}
    onnx.save(make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], weights), path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nets in 8 bits, `relu` and `log`, their data, and metrics."""
    root = tmp_path_factory.mktemp("refused")
    rng = np.random.default_rng(1)
    np.savez(root / "above.npz", x=rng.uniform(1, 2, (3, 3, 8, 8)).astype(np.float32))
    np.savez(root / "mixed.npz", x=rng.standard_normal((3, 3, 8, 8)).astype(np.float32))
    for name in ("relu", "log"):
        model(root / f"{name}.onnx", logarithm=name == "log")
        tpulayer("calibrate", f"{name}.onnx", "--data", "above.npz", "-o", f"{name}.json", cwd=root)
        tpulayer("compile", f"{name}.onnx", "--int8", f"{name}.json", "-o", name, cwd=root)
    (root / "metrics.py").write_text(METRICS)
    return root


@pytest.fixture(autouse=True)
def _there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace around: built-in layers alone."""
    monkeypatch.chdir(place)


def evaluated(place: Path, net: str, data: str, **more: Any) -> tuple[Score, list[str]]:
    said: list[str] = []
    options = EvaluateOptions(place / net, place / data, **more)
    return run_evaluate(options, said.append), said


def labelled(place: Path, labels: Any) -> str:
    samples = np.random.default_rng(2).standard_normal((3, 3, 8, 8)).astype(np.float32)
    np.savez(place / "labelled.npz", x=samples, labels=labels)
    return "labelled.npz"


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([0, 1, 5], "no classes: 5, and the net's first output has 5 numbers"),
        ([0, 1, -1], "no classes: -1,"),
        ([0, 1, 0.5], "no classes: 0.5,"),
        (["a", "b", "c"], "no classes: <U1"),
        (np.eye(3), r"no classes: float64 \[1, 3\]"),
    ],
)
def test_labels_that_are_no_classes(place: Path, labels: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        evaluated(place, "relu", labelled(place, labels), metric="top1")


def test_progress_says_of_how_many(place: Path) -> None:
    steps: list[str] = []
    run_evaluate(EvaluateOptions(place / "relu", place / labelled(place, [0, 1, 2])), print, steps.append)
    assert steps[0] == "building the nets" and steps[-1].startswith("evaluating, 3 of 3 samples, ")


def test_labels_of_other_kinds_are_for_metrics(place: Path) -> None:
    data = labelled(place, np.eye(3))
    score, _ = evaluated(place, "relu", data, metric=f"{place}/metrics.py:of_labels")
    assert score.own_mean() == 1 and score.labelled == 0
    score, said = evaluated(place, "relu", labelled(place, [0.0, 1.0, 4.0]), metric="top1")
    assert score.labelled == 3 and any("of 3 labels" in line for line in said)
    _, said = evaluated(place, "relu", "mixed.npz", metric="top1")
    assert "how many are right is not known: the samples have no labels" in said


@pytest.mark.parametrize(
    ("function", "told"), [("nan", "the metric gave nan for a batch"), ("leaves", "failed: SystemExit: 3")]
)
def test_metrics_that_give_no_number(place: Path, function: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        evaluated(place, "relu", "mixed.npz", metric=f"{place}/metrics.py:{function}")


def test_nets_that_give_nan(place: Path) -> None:
    score, said = evaluated(place, "log", "mixed.npz", layers=True)
    lost, all_of = score.layers["a"].odd, 3 * 3 * 8 * 8
    assert all_of / 4 < lost < all_of  # a logarithm of what is below 0
    assert any(f"without {lost} numbers that are NaN or infinite in one net" in line for line in said)
    assert score.outputs["y"].odd == 15 and score.worst(1)[0][0] in ("c", "y")
    found = json.loads(json.dumps(as_json(score), allow_nan=False))
    assert found["outputs"]["y"] == {"sqnr": None, "cosine": None, "not_finite": 15}
    plain, said = evaluated(place, "log", "above.npz")
    assert plain.outputs["y"].odd == 0 and not any("NaN" in line for line in said)
    words = ("--int8", "log.json", "--search", "90", "--data", "mixed.npz", "-o", "searched")
    failed = tpulayer("compile", "log.onnx", *words, cwd=place, code=2)
    assert "NaN or infinities come out for these samples" in failed.stderr
    assert not (place / "searched").exists()


def test_calibrating_says_what_counted_for_nothing(place: Path) -> None:
    said = tpulayer("calibrate", "log.onnx", "--data", "mixed.npz", "-o", "odd.json", cwd=place).stdout
    assert "NaN and infinities, which came in a, c, y, count for nothing" in said
    assert json.loads((place / "odd.json").read_text())["about"]["not_finite"] == ["a", "c", "y"]
    np.savez(place / "zeros.npz", x=np.zeros((2, 3, 8, 8), np.float32))
    failed = tpulayer("calibrate", "relu.onnx", "--data", "zeros.npz", "-o", "zeros.json", cwd=place, code=2)
    assert "all tensors held nothing but zeros, NaN or infinities" in failed.stderr
    assert not (place / "zeros.json").exists()


def test_files_of_other_nets(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "relu", tmp_path / "net")
    shutil.copy(place / "relu.onnx", tmp_path / "renamed.onnx")
    moved, _ = evaluated(tmp_path, "net", str(place / "mixed.npz"), model=tmp_path / "renamed.onnx")
    assert moved.outputs == evaluated(place, "relu", "mixed.npz")[0].outputs
    model(tmp_path / "larger.onnx")
    larger = onnx.load(tmp_path / "larger.onnx")
    larger.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 9
    onnx.save(larger, tmp_path / "larger.onnx")
    tpulayer("compile", "larger.onnx", "-o", "larger", cwd=tmp_path)
    shutil.copy(tmp_path / "larger/compilation.bmodel", tmp_path / "net")
    with pytest.raises(UsageError, match=r"compilation.bmodel is not the net that int8.json beside it"):
        evaluated(tmp_path, "net", str(place / "mixed.npz"))


def test_what_is_confused(place: Path) -> None:
    """Classes that come out otherwise in integers, the most frequent first; batches add up."""
    want = {"y": np.eye(4)[[0, 1, 2, 3, 3, 3]]}
    score, other = Score(), Score()
    score.add(want, {"y": np.eye(4)[[0, 1, 3, 3, 1, 1]]}, None)
    other.add(want, {"y": np.eye(4)[[1, 1, 3, 3, 3, 1]]}, np.array([0, 1, 2, 3, 3, 3]))
    score.merge(other)
    assert score.confused == {(2, 3): 2, (3, 1): 3, (0, 1): 1}
    assert as_json(score)["confused"] == [[3, 1, 3], [2, 3, 2], [0, 1, 1]]
    options = EvaluateOptions(place, place, metric="top1")
    assert "confused most, in float as in 8 bits (how often): 3 as 1 (3), 2 as 3 (2), 0 as 1 (1)" in list(
        lines(options, score)
    )


def test_an_empty_score_is_said_in_words() -> None:
    score = Score()
    score.add({"y": np.full((1, 2), np.nan)}, {"y": np.zeros((1, 2))}, None)
    (head, output) = lines(EvaluateOptions(Path("net"), Path("data")), score)
    assert head == "net: 1 sample"
    assert output == "y: nan dB, cosine nan, without 2 numbers that are NaN or infinite in one net"
