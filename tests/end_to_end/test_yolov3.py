"""examples/yolov3: the network, its files, its detector; compiled, run, beside OpenCV and numpy."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError
from tests.paths import ROOT
from tests.support.opencv import opencv_outputs
from tests.support.workspaces import make_workspace
from tpulayer import Graph, Toolkit, Workspace, load_bmodel
from user_layers.bmrt.bmrt_test import BmrtTestOptions
from user_layers.bmrt.bmrt_test import run as bmrt_test
from user_layers.testing.run import open_toolkits
from user_layers.toolchain.targets import build_layers

pytest.importorskip("onnx", reason="Caffe's models are converted by way of ONNX")
pytest.importorskip("google.protobuf", reason="Caffe's files are messages of protobuf")

EXAMPLE = ROOT / "examples" / "yolov3"
FOLDERS = ("device", "host", "include", "caffe", "tests")
HEADS = ["layer82-head", "layer94-head", "layer106-head"]
Array = NDArray[np.float32]


def module(path: Path) -> ModuleType:
    """A file of the example as a module; those that it imports lie beside it."""
    spec = spec_from_file_location(f"yolov3_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    made = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


network = module(EXAMPLE / "network.py")
reference = module(EXAMPLE / "tests" / "test_yolov3_detect_out.py")


def make_model(folder: Path, *words: str) -> str:
    command = [sys.executable, str(EXAMPLE / "make_model.py"), str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with the example's layer."""
    ws = make_workspace(tmp_path_factory.mktemp("yolov3") / "workspace", ())
    for folder in FOLDERS:
        shutil.copytree(EXAMPLE / folder, ws.root / folder, dirs_exist_ok=True)
    build_layers(ws)
    return ws


@pytest.fixture(scope="module")
def toolkits(workspace: Workspace) -> Iterator[dict[str, Toolkit]]:
    with open_toolkits(workspace) as opened:
        yield opened


def picture(size: int, batch: int = 1) -> Array:
    """Coarse spots, and a little noise."""
    rng = np.random.default_rng(3)
    spots = np.kron(rng.uniform(0, 1, (batch, 3, size // 16, size // 16)), np.ones((16, 16)))
    return (spots + rng.uniform(-0.1, 0.1, spots.shape)).astype(np.float32)


def run(graph: Graph, inputs: dict[str, Array]) -> list[Array]:
    return [y.astype(np.float32, copy=False) for y in graph.run(inputs)]


def detections(heads: list[Array], classes: int = 80, **other: object) -> Array:
    """Those of the reference."""
    param: dict[str, Any] = reference.param(classes, **other)
    found: Array = reference.golden(heads, param)[0]
    return found


# ---- the network ----


def test_the_published_network() -> None:
    layers = network.yolov3()
    counts = Counter(layer.type for layer in layers)
    assert counts == {
        "Input": 1,
        "Convolution": 75,
        "BatchNorm": 72,
        "Scale": 72,
        "ReLU": 72,
        "Eltwise": 23,
        "Concat": 4,
        "Deconvolution": 2,
        "TPUYolov3DetectOut": 1,
    }
    assert list(network.heads(layers)) == HEADS
    learned = [
        math.prod(shape)
        for layer in layers
        if layer.type != "Deconvolution"
        for shape in layer.weights
        if shape != (1,)  # the factor of Caffe's batch normalisations
    ]
    assert sum(learned) == 62_001_757  # so many numbers the published file of weights has
    names = [layer.name for layer in layers]
    assert len(set(names)) == len(names)


def test_settings_that_make_no_network() -> None:
    for wrong in (
        {"size": 100},
        {"size": 0},
        {"width": 0},
        {"classes": 0},
        {"batch": 0},
        {"anchors": (1, 2)},
    ):
        with pytest.raises(ValueError, match=r"\d"):
            network.Settings(**wrong)
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "make_model.py"), "unused", "--size", "33"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "size 33 is not a multiple of 32" in done.stderr
    assert not Path("unused").exists()


def test_the_same_files_each_time(tmp_path: Path) -> None:
    made = []
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        make_model(tmp_path / name, "--width", "1/16", "--size", "64", "--seed", seed)
        made.append([(tmp_path / name / f"yolov3.{end}").read_bytes() for end in ("prototxt", "caffemodel")])
    assert made[0] == made[1] and made[0][0] == made[2][0] and made[0][1] != made[2][1]


# ---- compiled and run ----


@pytest.mark.slow
def test_whole_network_on_both_firmwares(toolkits: dict[str, Toolkit], tmp_path: Path) -> None:
    """A static backbone, a dynamic end; detections as the reference finds them in the heads."""
    said = make_model(tmp_path, "--width", "1/8")
    assert "yolov3.caffemodel: " in said
    x, lines = picture(416), list[str]()
    graph = Graph.from_caffe(tmp_path / "yolov3.prototxt", toolkit=toolkits["native"])
    assert graph.outputs == ("detect_out",)
    (end,) = (node for node in graph.nodes if node.op.op == "TPU_YOLOV3_DETECT_OUT")
    for name in end.inputs:  # the heads
        graph.add_output(name)
    net = graph.compile(directory=tmp_path / "net", opt=0, log=lines.append, ref_inputs={"data": x})
    detected, *heads = run(graph, {"data": x})
    (stage,) = net.stages
    assert [subnet.body.kind for subnet in stage.subnets] == ["static", "dynamic"]
    assert [t.varies for t in stage.outputs] == [True, False, False, False]
    (told,) = (line for line in lines if line.startswith("TPU(YOLOV3_DETECT_OUT)"))
    assert "-> [1, 1, 200, 7]; dynamic, subnet 1" in told
    assert not any("on the host" in line for line in lines)
    want = detections(heads)
    assert 3 < detected.shape[2] < 200 and detected.shape == want.shape
    np.testing.assert_allclose(detected, want, rtol=1e-5, atol=1e-6)
    for toolkit in toolkits.values():
        with load_bmodel(tmp_path / "net", device=toolkit.device) as nets:
            assert nets.launch("yolov3", {"data": x})[0].tobytes() == detected.tobytes()
    device = toolkits["arm"].device
    options = BmrtTestOptions(context_dir=tmp_path / "net")
    assert bmrt_test(options, device=lambda *_: nullcontext(device), say=lines.append) == 0
    assert any("cmp success" in line for line in lines)


@pytest.mark.parametrize("upsample", [False, True], ids=["deconvolution", "upsample"])
def test_heads_beside_opencv(toolkits: dict[str, Toolkit], tmp_path: Path, upsample: bool) -> None:
    """OpenCV knows no Upsample: it gets a Deconvolution that does the same."""
    words = ("--width", "1/16", "--size", "96", "--no-detect", "--batch", "2")
    make_model(tmp_path / "opencv", *words)
    make_model(tmp_path / "ours", *words, *(["--upsample"] if upsample else []))
    x = picture(96, 2)
    graph = Graph.from_caffe(tmp_path / "ours" / "yolov3.prototxt", toolkit=toolkits["native"])
    assert graph.outputs == tuple(HEADS)
    graph.compile(opt=1)
    got = run(graph, {"data": x})
    files = [tmp_path / "opencv" / f"yolov3.{end}" for end in ("prototxt", "caffemodel")]
    for one, want in zip(got, opencv_outputs(files[0], files[1], {"data": x}, HEADS, tmp_path), strict=True):
        assert one.shape == want.shape
        assert np.abs(one - want).max() <= 1e-4 * np.abs(want).max()


# ---- the layer ----


def layer_graph(toolkit: Toolkit, shapes: Sequence[tuple[int, ...]], **param: object) -> Graph:
    graph = Graph(name="layer", toolkit=toolkit)
    for i, shape in enumerate(shapes):
        graph.add_input(f"head{i}", shape)
    names = [f"head{i}" for i in range(len(shapes))]
    graph.add_tpu_layer("TPU_YOLOV3_DETECT_OUT", names, reference.param(3, **param), ["y"])
    return graph


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_other_sizes_than_compiled(toolkits: dict[str, Toolkit], dynamic: bool) -> None:
    """Fewer pictures, smaller ones; the same bits on both firmwares."""
    largest = [(3, 24, 7, 9), (3, 24, 14, 18)]
    smaller = [[(1, 24, 4, 3), (1, 24, 8, 6)], [(2, 24, 7, 1), (2, 24, 14, 2)]] if dynamic else []
    for shapes in (largest, *smaller):
        heads = reference.heads(*shapes)
        found = []
        for toolkit in toolkits.values():
            graph = layer_graph(toolkit, largest, confidence_threshold=0.3)
            graph.compile(dynamic=dynamic)
            found += run(graph, {f"head{i}": head for i, head in enumerate(heads)})
        assert found[0].tobytes() == found[1].tobytes()
        want = detections(heads, 3, confidence_threshold=0.3)
        np.testing.assert_allclose(found[0], want, rtol=1e-5, atol=1e-6)
        assert want.shape[2] > 3


def test_equal_scores_keep_their_order(toolkits: dict[str, Toolkit]) -> None:
    """All cells alike; a tie of classes goes to the first. Numbers beyond the exponential's range."""
    head = np.zeros((1, 24, 3, 4), np.float32)
    head[:, 4::8] = 90
    head[:, 5::8] = [[[-0.0]]]
    head[:, 2::8] = head[:, 3::8] = -2
    head[0, 2, 1, 1] = -300
    for toolkit in toolkits.values():
        graph = layer_graph(toolkit, [head.shape], confidence_threshold=0.4)
        graph.compile()
        (y,) = run(graph, {"head0": head})
        np.testing.assert_allclose(y, detections([head], 3, confidence_threshold=0.4), rtol=1e-5, atol=1e-6)
        assert (y[0, 0, :, 1] == 0).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_classes": 4},
        {"keep_top_k": 0},
        {"keep_top_k": -2},
        {"nms_threshold": 1.5},
        {"confidence_threshold": -0.1},
        {"confidence_threshold": 1.0},
        {"anchor_scale": [0]},
        {"mask": [9]},
        {"bias": [0] * 18},
        {"mask_group_size": 2},
        {"mask_group_size": 9, "heads": 2},
        {"num_boxes": 0},
        {"heads": 4},
    ],
    ids=str,
)
def test_parameters_that_mean_nothing(toolkits: dict[str, Toolkit], wrong: dict[str, Any]) -> None:
    param = dict(wrong)
    shapes = [(1, 24, 2, 2)] * param.pop("heads", 1)
    with pytest.raises(TpulayerError) as caught:
        layer_graph(toolkits["native"], shapes, **param).shape("y")
    assert "YOLOV3_DETECT_OUT" in str(caught.value)
