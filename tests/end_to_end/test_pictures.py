"""Pictures: what the host makes of them, and nets that do the same themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmware_sim.errors import UsageError
from tests.support.onnx_models import make_model
from tests.support.workspaces import tpulayer
from tpulayer import Graph
from user_layers.compiler.pipeline import compile_graph
from user_layers.onnx.build import build
from user_layers.onnx.compile import compile_model
from user_layers.onnx.load import Source
from user_layers.onnx.preprocess import with_pictures
from user_layers.quantize.pictures import Array, Preprocess, Words, fused
from user_layers.quantize.quality import compared
from user_layers.runtime import BModelRuntime
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

IMAGENET = Words("123.675,116.28,103.53", "0.0171,0.0175,0.0174", "rgb")


def net(batch: int = 1, channels: int = 3, size: int = 20, layout: str = "nchw") -> onnx.ModelProto:
    """A convolution with relu."""
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((8, channels, 3, 3)) / 5).astype(np.float32)
    first = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])] if layout == "nhwc" else []
    nodes = [
        *first,
        helper.make_node("Conv", ["t" if first else "x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    shape = [batch, channels, size, size] if layout == "nchw" else [batch, size, size, channels]
    return make_model(nodes, {"x": shape}, ["y"], {"w": w})


def pixels(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def inner_input(
    model: onnx.ModelProto, how: Preprocess, raw: Array, toolkit: Toolkit, dynamic: bool
) -> Array:
    """What a net that was fused feeds to the model."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.output.append(helper.make_tensor_value_info("x", 1, None))
    proto, source = with_pictures(whole, Source.of(whole), how)
    loaded = source.load(proto)
    graph = build(loaded, "net", toolkit=toolkit).graph
    with load_net(compile_graph(graph, dynamic=dynamic), toolkit) as runtime:
        found: Array = runtime.launch("net", {"x_raw": raw})[1]
    return found


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("changes", "customization", "channels", "layout"),
    [
        ({}, None, 3, "nchw"),
        ({}, "BGR_PACKED", 3, "nchw"),
        ({"pixel_format": "bgr"}, "RGB_PLANAR", 3, "nchw"),
        ({"resize_dims": "24,27"}, "RGB_PLANAR", 3, "nchw"),
        ({"resize_dims": "24,27"}, "BGR_PACKED", 3, "nchw"),
        ({"mean": "7", "scale": "0.5", "pixel_format": "gray"}, None, 1, "nchw"),
        ({}, "RGB_PLANAR", 3, "nhwc"),
        ({}, "BGR_PACKED", 3, "nhwc"),
        ({"mean": None, "scale": None}, None, 3, "nchw"),
    ],
)
def test_the_net_does_what_the_host_does(
    changes: dict[str, Any], customization: str | None, channels: int, layout: str, dynamic: bool,
    toolkit: Toolkit,
) -> None:  # fmt: skip
    """Bit for bit, of pictures of other sizes too."""
    known = Words(**{**vars(IMAGENET), **changes}).told()
    assert known is not None
    how = fused(known, customization)
    model = net(2, channels, layout=layout)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    pictures = list(pixels(2, 31, 18, channels))
    raw = how.input_of(pictures, how.fused_shape(shape))
    assert raw.dtype == np.uint8 and raw.shape == how.fused_shape(shape)
    want = known.input_of(pictures, shape)
    got = inner_input(model, how, raw, toolkit, dynamic)
    assert want.dtype == np.float32
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_one_layer_takes_pictures(toolkit: Toolkit) -> None:
    """However they come: no transposes, no passes over memory of their own."""
    for words, customization in ((IMAGENET, None), (IMAGENET, "BGR_PLANAR")):
        known = words.told()
        proto, source = with_pictures(net(), Source.of(net()), fused(known, customization))
        graph = build(source.load(proto), "net", toolkit=toolkit).graph
        assert [node.op.short for node in graph.nodes][:2] == ["PIXELS", "CONV"]


def test_shapes_in_the_models_words_and_in_the_nets(toolkit: Toolkit) -> None:
    model = net()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    proto, source = with_pictures(model, Source.of(model), fused(IMAGENET.told(), None))
    for given in ({"x": (2, 3, 16, 18)}, {"x_raw": (2, 16, 18, 3)}):
        loaded = source.load(proto, given)
        assert loaded.inputs[0].fixed == (2, 16, 18, 3) and loaded.values["x"].fixed == (2, 3, 16, 18)
    with pytest.raises(UsageError, match="has no input 'z'"):
        source.load(proto, {"z": (1, 3, 20, 20)})
    with pytest.raises(UsageError, match="free dimensions"):
        source.load(proto)


def test_a_dynamic_net_takes_smaller_batches_and_planar_ones_smaller_pictures(toolkit: Toolkit) -> None:
    known = IMAGENET.told()
    assert known is not None
    for customization, fits in (("RGB_PACKED", False), ("RGB_PLANAR", True)):
        how = fused(known, customization)
        proto, source = with_pictures(net(2), Source.of(net(2)), how)
        made = compile_model(
            proto, dynamic=True, shapes=None, stages=(), opt=2, custom=None, cpu=True, check=True,
            report=False, name="net", layers=False, int8=None, toolkit=toolkit, source=source,
        )  # fmt: skip
        assert not made.different
        pictures = list(pixels(1, 20, 20, 3))
        with load_net(made.net, toolkit) as runtime:
            runtime.launch("net", {"x_raw": how.input_of(pictures, how.fused_shape((1, 3, 20, 20)))})
            small = how.input_of(pictures, how.fused_shape((1, 3, 12, 14)))
            if fits:
                assert runtime.launch("net", {"x_raw": small})[0].shape == (1, 8, 12, 14)
            else:
                with pytest.raises(UsageError, match="compiled height and width"):
                    runtime.launch("net", {"x_raw": small})


# ---- on the host ----


def test_bars_and_crops_as_the_vendors_tools() -> None:
    picture = np.full((10, 20, 3), 200, np.uint8)
    how = Preprocess((0.0,) * 3, (1.0,) * 3, "rgb", keep_aspect_ratio=True, pad_value=9)
    bars = how.resized(picture, (20, 20))
    assert (bars[5:15] == 200).all() and (bars[:5] == 9).all() and (bars[15:] == 9).all()
    behind = Preprocess((0.0,) * 3, (1.0,) * 3, "rgb", None, True, 9, "normal").resized(picture, (20, 20))
    assert (behind[:10] == 200).all() and (behind[10:] == 9).all()
    rows = np.repeat(np.arange(21, dtype=np.uint8), 9 * 3).reshape(21, 9, 3)
    cut = Preprocess((0.0,) * 3, (1.0,) * 3, "rgb", (21, 9)).input_of([rows], (1, 3, 8, 9))
    assert cut[0, 0, :, 0].tolist() == list(range(6, 14))  # from 21 // 2 - 8 // 2


def test_resizing_is_between_the_nearest_pixels() -> None:
    x = pixels(17, 23, 3)
    how = Preprocess.plain(3)
    for size in ((34, 46), (9, 11), (17, 23), (1, 1)):
        at = [
            np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1) for n, m in zip(x.shape, size, strict=False)
        ]
        low = [np.floor(a).astype(int) for a in at]
        high = [np.minimum(b + 1, n - 1) for b, n in zip(low, x.shape, strict=False)]
        part = [a - b for a, b in zip(at, low, strict=True)]
        wide = x.astype(float)
        lines = wide[low[0]] * (1 - part[0])[:, None, None] + wide[high[0]] * part[0][:, None, None]
        want = lines[:, low[1]] * (1 - part[1])[:, None] + lines[:, high[1]] * part[1][:, None]
        assert np.abs(how.resized(x, size) - want).max() <= 1.01


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (Words(mean="1,2,3"), "--mean without --pixel-format"),
        (Words(mean="1,2", pixel_format="rgb"), "--mean 1,2 has 2 values, --pixel-format rgb has 3 channels"),
        (Words(scale="1,2,3", pixel_format="gray"), "has 3 values, --pixel-format gray has 1 channels"),
        (Words(scale="0,1,1", pixel_format="rgb"), "0 leaves nothing"),
        (Words(mean="nan,1,1", pixel_format="rgb"), "not a finite number"),
        (Words(mean="a,1,1", pixel_format="rgb"), "--mean a,1,1: expected numbers"),
        (Words(pixel_format="rbg"), "--pixel-format rbg"),
        (Words(resize_dims="3", pixel_format="rgb"), "--resize-dims 3: expected H,W"),
        (Words(resize_dims="0,3", pixel_format="rgb"), "--resize-dims 0,3: expected H,W"),
        (Words(pad_value=300, pixel_format="rgb"), "--pad-value 300"),
        (Words(pad_type="left", pixel_format="rgb"), "--pad-type left"),
    ],
)
def test_words_that_do_not_fit(words: Words, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        words.told()


def test_words_that_contradict() -> None:
    known = IMAGENET.told()
    assert Words().told(known, "t") == Words(pixel_format="rgb").told(known, "t") == known
    with pytest.raises(UsageError, match="--mean 1,2,3 contradicts the table t, which was made with 123"):
        Words(mean="1,2,3").told(known, "the table t")
    with pytest.raises(UsageError, match="GRAYSCALE is not for --pixel-format rgb"):
        fused(known, "grayscale")
    with pytest.raises(UsageError, match="without what is to be fused"):
        fused(None, None)


def several() -> onnx.ModelProto:
    add = helper.make_node("Add", ["x", "z"], ["y"])
    return make_model([add], {"x": [1, 3, 4, 4], "z": [1, 3, 4, 4]}, ["y"])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (several(), "has 2 inputs: x, z"),
        (net(channels=4), r"is \[1, 4, 20, 20\], no picture with 3 channels"),
        (make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 3]}, ["y"]), "no picture"),
        (
            make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 3, 4, 4]}, ["y"], opset=9),
            "opset 9",
        ),
    ],
)
def test_models_that_take_no_pictures(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        with_pictures(model, Source.of(model), fused(IMAGENET.told(), None))


# ---- the commands ----


def test_the_commands(tmp_path: Path, toolkit: Toolkit) -> None:
    """calibrate, compile and evaluate with pictures, by the host and by the net: the same integers."""
    from PIL import Image

    onnx.save(net(), str(tmp_path / "net.onnx"))
    (tmp_path / "pictures").mkdir()
    for i in range(3):
        Image.fromarray(pixels(30, 26, 3, seed=i)).save(
            tmp_path / "pictures" / f"{i}.{['png', 'ppm', 'bmp'][i]}"
        )
    words = ("--mean", "123.675,116.28,103.53", "--scale", "0.0171,0.0175,0.0174", "--pixel_format", "rgb")
    said = tpulayer(
        "calibrate", "net.onnx", "--data", "pictures", *words, "-o", "t.json", cwd=tmp_path
    ).stdout
    assert "pictures: rgb, (x - 123.675,116.28,103.53) * 0.0171,0.0175,0.0174" in said
    assert json.loads((tmp_path / "t.json").read_text())["pictures"]["pixel_format"] == "rgb"
    tpulayer("compile", "net.onnx", "--int8", "t.json", "-o", "host", cwd=tmp_path)
    said = tpulayer(
        "compile", "net.onnx", "--int8", "t.json", "--fuse_preprocess", "-o", "fused", cwd=tmp_path
    ).stdout
    assert "the net takes them as uint8 RGB_PACKED" in said and "100.0% of the MACs" in said
    scores = []
    for folder in ("host", "fused"):
        text = tpulayer("evaluate", folder, "--data", "pictures", "--json", cwd=tmp_path).stdout
        scores.append(json.loads(text)["outputs"]["y"]["sqnr"])
    assert scores[0] == scores[1] > 30
    np.save(tmp_path / "bytes.npy", pixels(2, 20, 20, 3))
    np.save(tmp_path / "floats.npy", np.zeros((2, 3, 20, 20), np.float32))
    for folder in ("host", "fused"):
        tpulayer("evaluate", folder, "--data", "bytes.npy", cwd=tmp_path)
    tpulayer("evaluate", "host", "--data", "floats.npy", cwd=tmp_path)
    failed = tpulayer("evaluate", "fused", "--data", "floats.npy", cwd=tmp_path, code=2)
    assert "the net takes pictures in bytes" in failed.stderr
    failed = tpulayer("evaluate", "fused", "--data", "bytes.npy", "--mean", "1,2,3", cwd=tmp_path, code=2)
    assert "--mean 1,2,3 contradicts fused" in failed.stderr
    # A float net by the same options: bits as on the host.
    tpulayer("compile", "net.onnx", *words, "--fuse-preprocess", "-o", "float", cwd=tmp_path)
    raw = pixels(1, 20, 20, 3)
    known = IMAGENET.told()
    assert known is not None
    plain = compile_model(
        net(), dynamic=False, shapes=None, stages=(), opt=2, custom=None, cpu=True, check=False,
        report=False, name="net", layers=False, int8=None, toolkit=toolkit,
    )  # fmt: skip
    with load_net(plain.net, toolkit) as runtime:
        (want,) = runtime.launch("net", {"x": known.input_of(list(raw), (1, 3, 20, 20))})
    with BModelRuntime(toolkit.device) as runtime:
        runtime.load(tmp_path / "float" / "compilation.bmodel")
        (got,) = runtime.launch("net", {"x_raw": raw})
    assert compared(want, got).sqnr > 120


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compile", "net.onnx", "-o", "o", "--fuse-preprocess"), "without what is to be fused"),
        (
            ("compile", "net.onnx", "-o", "o", "--pixel-format", "rgb"),
            "nothing takes what is said of pictures",
        ),
        (
            ("compile", "net.onnx", "-o", "o", "--customization-format", "RGB_PLANAR"),
            "without --fuse-preproc",
        ),
        (
            ("calibrate", "net.onnx", "-o", "t", "--data", "bytes.npy", "--pixel-format", "gray"),
            "no pictures of 1 channels",
        ),
    ],
)
def test_what_does_not_fit(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    onnx.save(net(), str(tmp_path / "net.onnx"))
    np.save(tmp_path / "bytes.npy", pixels(2, 20, 20, 3))
    failed = tpulayer(*words, cwd=tmp_path, code=None)
    assert failed.returncode in (1, 2) and message in failed.stderr
    assert not (tmp_path / "o").exists() and not (tmp_path / "t").exists()


def test_constants_of_other_kinds_stay_nodes(toolkit: Toolkit) -> None:
    """What is no number for each channel is computed behind the layer."""
    make = helper.make_node
    nodes = [
        make("Cast", ["x"], ["f"], to=1),
        make("Sub", ["f", "plane"], ["s"]),
        make("Mul", ["s", "two"], ["y"]),
    ]
    constants = {"plane": np.ones((1, 1, 4, 4), np.float32), "two": np.float32(2)}
    model = make_model(nodes, {"x": [1, 3, 4, 4]}, ["y"], constants)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    graph = Graph.from_onnx(model, toolkit=toolkit)
    assert graph.nodes[0].op.short == "PIXELS" and len(graph.nodes) > 1
    graph.compile()
    x = pixels(1, 3, 4, 4)
    assert np.array_equal(graph.run({"x": x})[0], (x.astype(np.float32) - 1) * 2)
