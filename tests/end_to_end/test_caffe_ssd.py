"""SSD nets of Caffe's, whole: compiled from their files, run by bmrt_test, beside numpy and OpenCV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.caffe_ssd import small_ssd
from tests.support.detection_reference import CENTER_SIZE, Array, detections, param
from tests.support.opencv import opencv_outputs
from tpulayer import Graph
from user_layers.cli.main import run as main
from user_layers.toolkit import Toolkit

CLASSES = 4
HEADS = ("mbox_loc", "conf_flat", "mbox_priorbox")
WANTED = param(
    CLASSES,
    code_type=CENTER_SIZE,
    nms_threshold=0.45,
    top_k=100,
    keep_top_k=50,
    confidence_threshold=0.2,
)


def image(batch: int = 1, size: int = 64, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((batch, 3, size, size)).astype(np.float32)


def run(toolkit: Toolkit, folder: Path, x: Array, **net: Any) -> dict[str, Array]:
    """The outputs of a small SSD, by name."""
    prototxt, weights = small_ssd(folder, batch=len(x), size=x.shape[2], **net)
    graph = Graph.from_caffe(prototxt, weights, toolkit=toolkit)
    graph.compile(opt=1)
    return dict(zip(graph.outputs, graph.run({"data": x}), strict=True))


def nearly(got: Array, want: Array) -> None:
    """The same detections in the same order."""
    assert got.shape == want.shape
    np.testing.assert_array_equal(got[..., :2], want[..., :2])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_everything_runs_on_the_tpu_and_only_the_tail_is_dynamic(toolkit: Toolkit, tmp_path: Path) -> None:
    prototxt, weights = small_ssd(tmp_path)
    graph = Graph.from_caffe(prototxt, weights, toolkit=toolkit)
    net = graph.compile()
    (stage,) = net.stages
    assert [type(subnet.body).__name__ for subnet in stage.subnets] == ["StaticBody", "DynamicBody"]
    ops = [node.op.op for node in graph.nodes]
    assert ops.count("TPU_DETECTION_OUTPUT") == 1
    assert ops.count("TPU_CONV") == 12  # one is the sum of channels by which the first map is normalized
    assert ops.count("TPU_CONCAT") == 2  # priors are one constant


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_detections_are_those_of_the_nets_own_heads(toolkit: Toolkit, tmp_path: Path, batch: int) -> None:
    x = image(batch)
    heads = run(toolkit, tmp_path / "heads", x, last=False)
    (got,) = run(toolkit, tmp_path / "whole", x).values()
    want = detections(heads["mbox_loc"], heads["conf_flat"], heads["mbox_priorbox"], WANTED, margin=1e-5)
    nearly(got, want)
    assert sorted(set(got[0, 0, :, 0])) == list(range(batch))
    assert set(got[0, 0, :, 1]) == {1, 2, 3}
    assert 10 < got.shape[2] <= 50 * batch


def test_bmnetu_and_bmrt_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_ssd(tmp_path)
    words = [
        "--model",
        "ssd.prototxt",
        "--weight",
        "ssd.caffemodel",
        "--target=BM1684",
        "--opt",
        "1",
        "--v=4",
    ]
    assert main(["bmnetu", *words, "--outdir", "net"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"layer_id \d+ .*DETECTION_OUTPUT.*; dynamic, subnet 1", said)
    assert main(["bmrt_test", "--context_dir", "net"]) == 0
    rows = np.fromfile("net/output_ref_data.dat", np.float32).reshape(-1, 7)
    assert f"output data #0 shape: [1 1 {len(rows)} 7 ]" in capsys.readouterr().out
    assert 1 < len(rows) <= 50
    assert main(["bmrt_test", "--bmodel", "net/compilation.bmodel"]) == 0


def test_a_dynamic_net_takes_fewer_images(toolkit: Toolkit, tmp_path: Path) -> None:
    x = image(2)
    prototxt, weights = small_ssd(tmp_path, batch=2)
    graph = Graph.from_caffe(prototxt, weights, toolkit=toolkit)
    graph.compile(dynamic=True, opt=1)
    (both,) = graph.run({"data": x})
    (second,) = graph.run({"data": x[1:]})
    found = both[:, :, both[0, 0, :, 0] == 1]
    found[..., 0] = 0
    nearly(second, found)


def test_an_image_without_detections(toolkit: Toolkit, tmp_path: Path) -> None:
    none = "keep_top_k: 50 confidence_threshold: 1 nms_param { nms_threshold: 0.45 }"
    (rows,) = run(toolkit, tmp_path, image(2), detection=none).values()
    assert rows[0, 0].tolist() == [[0, *[-1] * 6], [1, *[-1] * 6]]


@pytest.mark.parametrize("seed", [0, 7])
def test_opencv_finds_the_same(toolkit: Toolkit, tmp_path: Path, seed: int) -> None:
    x = image(seed=seed + 1)
    prototxt, weights = small_ssd(tmp_path / "opencv", seed=seed)
    *theirs, rows = opencv_outputs(prototxt, weights, {"data": x}, [*HEADS, "detection_out"], tmp_path)
    heads = run(toolkit, tmp_path / "heads", x, last=False, seed=seed)
    (whole,) = run(toolkit, tmp_path / "whole", x, seed=seed).values()
    for name, want in zip(HEADS, theirs, strict=True):
        np.testing.assert_allclose(heads[name].reshape(want.shape), want, rtol=1e-4, atol=1e-4)
    found = rows[:, :, rows[0, 0, :, 2] > 0]  # OpenCV gives as many rows as there may be, by falling score
    nearly(whole[:, :, np.argsort(-whole[0, 0, :, 2], kind="stable")], found)
