"""`evaluate --layers`: every tensor that both nets have, in whichever order its channels lie."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.support.onnx_models import make_model
from tests.support.workspaces import tpulayer

TOKENS, INNER, OUTER = 24, 64, 128


def model(path: Path) -> None:
    """Tokens through two products, as perceptrons of transformers are, and a sum around them."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["p1"]),
        helper.make_node("Add", ["p1", "b1"], ["h1"]),
        helper.make_node("Relu", ["h1"], ["a1"]),
        helper.make_node("MatMul", ["a1", "w2"], ["h2"]),
        helper.make_node("Mul", ["h2", "f"], ["m"]),
        helper.make_node("Add", ["m", "x"], ["y"]),
    ]
    constants = {
        "w1": rng.standard_normal((INNER, OUTER)).astype(np.float32) / 8,
        "b1": rng.standard_normal(OUTER).astype(np.float32),
        "w2": rng.standard_normal((OUTER, INNER)).astype(np.float32) / 16,
        "f": rng.uniform(0.5, 2, INNER).astype(np.float32),
    }
    onnx.save(make_model(nodes, {"x": (1, TOKENS, INNER)}, ["y"], constants), path)


def test_channels_that_are_second_in_integers(tmp_path: Path) -> None:
    model(tmp_path / "net.onnx")
    samples = np.random.default_rng(1).standard_normal((8, TOKENS, INNER)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=samples)
    data = ("--data", "data.npz")
    tpulayer("calibrate", "net.onnx", *data, "-o", "t.json", cwd=tmp_path)
    tpulayer("compile", "net.onnx", "--int8", "t.json", "-o", "out", cwd=tmp_path)
    said = tpulayer("evaluate", "out", *data, "--layers", cwd=tmp_path).stdout
    found = json.loads(tpulayer("evaluate", "out", *data, "--layers", "--json", cwd=tmp_path).stdout)
    assert {"a1", "y"} <= found["layers"].keys()
    assert found["layers"]["y"].items() >= found["outputs"]["y"].items()
    assert all(one["sqnr"] > 30 and one["cosine"] > 0.999 for one in found["layers"].values())
    assert "h1" in found["not_compared"] and not found["layers"].keys() & {*found["not_compared"]}
    assert f"not compared, inside of 8-bit layers or no floats: {', '.join(found['not_compared'])}" in said


def test_what_the_noise_of_a_layer_is(tmp_path: Path) -> None:
    """Cut off where a range is too small, gone where it is too large: of the layers after that, too."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "x"], ["y"])]
    half = (0.5 * np.eye(8, dtype=np.float32)).reshape(8, 8, 1, 1)
    onnx.save(make_model(nodes, {"x": (1, 8, 8, 8)}, ["y"], {"w": half}), tmp_path / "net.onnx")
    samples = np.random.default_rng(1).standard_normal((4, 8, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=samples)
    data = ("--data", "data.npz")
    tpulayer("calibrate", "net.onnx", *data, "-o", "t.json", cwd=tmp_path)
    table = json.loads((tmp_path / "t.json").read_text())
    found = {}
    for name, wide in (("small", 0.2), ("large", 100.0)):
        changed = json.loads(json.dumps(table))
        changed["tensors"]["y"]["threshold"] *= wide
        (tmp_path / "other.json").write_text(json.dumps(changed))
        tpulayer("compile", "net.onnx", "--int8", "other.json", "-o", name, cwd=tmp_path)
        said = tpulayer("evaluate", name, *data, "--layers", cwd=tmp_path).stdout
        found[name] = json.loads(tpulayer("evaluate", name, *data, "--layers", "--json", cwd=tmp_path).stdout)
        assert {"small": "beyond the range", "large": "became 0"}[name] in said
    assert found["small"]["layers"]["y"]["noise_beyond_range"] > 0.9
    assert found["large"]["layers"]["y"]["noise_became_0"] > 0.5
