"""Nets of Caffe's with layers of one's own, in the middle and at the end: in Python and in C++, static and
dynamic; and a workspace from its first command on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, TpulayerError, UsageError
from tests.support.layer_sources import compile_text
from tests.support.workspaces import LIMIT, built_workspace, environment, tpulayer
from tpulayer.caffe import CaffeLayer, caffe_layer
from user_layers.api import Graph
from user_layers.caffe import own
from user_layers.caffe.schema import message
from user_layers.formats import compile_file
from user_layers.graph import BINARY_MUL
from user_layers.plugin import PLUGIN_PATH_VARIABLE
from user_layers.scaffold import add_layer, init
from user_layers.toolkit import Toolkit
from user_layers.workspace import IMP_LIBRARY, Workspace, sdk_dir

SHAPE = (2, 3, 9, 7)
SCALE, SHIFT = np.array([1, -2, 0.5], np.float32), np.array([0, 1, 2], np.float32)
NET = """
name: "own"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 7 } } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "data" }
layer { name: "affine" type: "OwnAffine" bottom: "data" top: "affine" affine_param { clip: true } }
layer { name: "cut" type: "OwnCrop" bottom: "affine" top: "cut"
  crop_spec { edge { axis: 2 before: 1 } edge { axis: 3 before: 2 after: 1 } } }
layer { name: "add" type: "Power" bottom: "cut" top: "add" power_param { shift: 0.25 } }
layer { name: "last" type: "OwnDouble" bottom: "add" top: "last" twice: 2 }
"""
DOUBLE = """
#include <cstdio>
#include "bmtpu.h"
#include "imp_bmnetu.h"
class OwnDoubleLayer : public imp_bmnetu::Layer {
    void add() override {
        const int times = get_int("twice", 1);
        if (times < 1) error("twice is below 1");
        printf("%d times\\n", times);
        if (has("nothing")) return (void)get_int("nothing");
        std::string from = bottom(0);
        tpu_double_param_t param = {};
        for (int i = 1; i <= times; i++) {
            std::string to = i < times ? name() + "/" + std::to_string(i) : top(0);
            add_tpu_layer({from}, {to}, TPU_DOUBLE, &param, sizeof param);
            from = to;
        }
        std::string wrong = get_string("wrong", "");
        if (wrong == "number") add_tpu_layer({bottom(0)}, {"other"}, 12345, &param, sizeof param);
    }
};
IMP_BMNETU_LAYER("OwnDouble", OwnDoubleLayer)
"""
REGISTERED = f"double.cpp:{DOUBLE[: DOUBLE.index('IMP_BMNETU_LAYER')].count(chr(10)) + 1}"


def reference(x: Any) -> Any:
    x = np.maximum(np.maximum(x, 0) * SCALE[:, None, None] + SHIFT[:, None, None], 0)
    return (x[:, :, 1:, 2:-1] + np.float32(0.25)) * 4


def affine(graph: Any, layer: CaffeLayer) -> None:
    layer.expect(bottoms=1, tops=1, weights=2)
    relu = layer.message("affine_param").flag("clip", False)
    names = [graph.add_const(f"{layer.name}/{i}", array) for i, array in enumerate(layer.weights)]
    if layer.weights[0].shape != layer.shapes[0][1:2]:
        raise layer.error(f"{layer.weights[0].size} scales for {layer.shapes[0][1]} channels")
    param = {"axis": 1, "relu": int(relu)}
    graph.add_tpu_layer("TPU_SCALE_SHIFT", [*layer.bottoms, *names], param, layer.tops)


def crop(graph: Any, layer: CaffeLayer) -> None:
    before, after = [0] * 4, [0] * 4
    for edge in layer.message("crop_spec").messages("edge"):
        axis = edge.integer("axis", least=0, most=3)
        before[axis], after[axis] = edge.integer("before", 0), edge.integer("after", 0)
    graph.add_tpu_layer("TPU_CROP", layer.bottoms, {"before": before, "after": after}, layer.tops)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_workspace(tmp_path_factory)


@pytest.fixture(scope="module", autouse=True)
def layers(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two types in Python, one in C++, whose library lies in a folder of the plugin path."""
    folder = tmp_path_factory.mktemp("imp")
    (folder / "double.cpp").write_text(DOUBLE)
    include = [f"-I{workspace.install_dir / 'include'}", f"-I{sdk_dir() / 'include'}"]
    words = ["-std=c++17", "-shared", "-fPIC", *include, str(folder / "double.cpp")]
    compile_text("c++", [*words, "-o", str(folder / IMP_LIBRARY)])
    before = dict(own._registered)
    caffe_layer("OwnAffine")(affine)
    caffe_layer("OwnCrop")(crop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLUGIN_PATH_VARIABLE, f"{workspace.local_plugin}:{folder}")
        yield
    own._registered.clear()
    own._registered.update(before)


@pytest.fixture(scope="module")
def toolkit(workspace: Workspace, layers: None) -> Iterator[Toolkit]:
    with Toolkit(workspace) as opened:
        yield opened


def files(folder: Path, text: str = NET, scale: Any = SCALE) -> Path:
    """The prototxt, with its caffemodel beside it."""
    weights = message("NetParameter")()
    layer = weights.layer.add(name="affine", type="OwnAffine")
    for array in (scale, SHIFT):
        blob = layer.blobs.add(data=array.tolist())
        blob.shape.dim.extend(array.shape)
    path = folder / "own.prototxt"
    path.write_text(text)
    path.with_suffix(".caffemodel").write_bytes(weights.SerializeToString())
    return path


def numbers(shape: tuple[int, ...] = SHAPE) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opt", [0, 2])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_net_with_own_layers(tmp_path: Path, toolkit: Toolkit, dynamic: bool, opt: int) -> None:
    graph = Graph.from_caffe(files(tmp_path), toolkit=toolkit)
    graph.compile(dynamic, opt=opt)
    for shape in (SHAPE, (1, 3, 6, 5)) if dynamic else (SHAPE,):
        x = numbers(shape)
        (got,) = graph.run({"data": x})
        np.testing.assert_allclose(np.float32(got), reference(x), rtol=1e-6)


def test_as_a_graph_in_another_shape(
    tmp_path: Path, toolkit: Toolkit, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = Graph.from_caffe(files(tmp_path), shapes={"data": (1, 3, 5, 6)}, toolkit=toolkit)
    assert capsys.readouterr() == ("", "2 times\n")  # the library is asked twice
    assert graph.shape("last") == (1, 3, 4, 3)
    assert [node.op.op for node in graph.nodes][-2:] == ["TPU_DOUBLE", "TPU_DOUBLE"]
    assert Path(graph.nodes[-1].where).name == REGISTERED  # for messages
    graph.compile()
    x = numbers((1, 3, 5, 6))
    np.testing.assert_allclose(np.float32(graph.run({"data": x})[0]), reference(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "old", "new", "text"),
    [
        ("affine", "clip: true", "clipp: true", "affine_param.clipp: end_to_end/test_caffe_own.py:"),
        ("affine", "clip: true", "clip: 5", "affine_param.clip is 5; expected true or false"),
        ("cut", "axis: 3", "axis: 4", "crop_spec.edge[1].axis is 4; expected from 0 to 3"),
        ("cut", "axis: 3", "", "crop_spec.edge[1].axis is missing"),
        ("cut", "before: 2", "before: 70", "layer 'cut' (OwnCrop)"),
        ("last", "twice: 2", "twice: 0", "layer 'last' (OwnDouble): twice is below 1"),
        ("last", "twice: 2", "twice: 2 thrice: 1", "thrice: "),
        ("last", "twice: 2", "wrong: 'number'", f"{REGISTERED}: unknown layer 12345"),
        (
            "last",
            "twice: 2",
            "nothing: 1",
            "(libimpbmnetu.so) did not make 'last' (top 0)\n  hint: give top",
        ),
        ("last", '"OwnDouble"', '"OwnDuoble"', "OwnDouble"),
    ],
)
def test_what_does_not_fit(
    tmp_path: Path, toolkit: Toolkit, layer: str, old: str, new: str, text: str
) -> None:
    assert NET.count(old) == 1
    path = files(tmp_path, NET.replace(old, new))
    with pytest.raises(TpulayerError) as error:
        compile_file(path, tmp_path / "net", toolkit=toolkit)
    line = NET[: NET.index(f'layer {{ name: "{layer}"')].count("\n") + 1
    assert text in str(error.value) and f"own.prototxt:{line}" in str(error.value)
    assert not (tmp_path / "net").exists()


def test_weights_that_do_not_fit(tmp_path: Path, toolkit: Toolkit) -> None:
    with pytest.raises(CompileError, match=r"layer 'affine' \(OwnAffine\): 4 scales for 3 channels"):
        compile_file(files(tmp_path, scale=np.ones(4)), tmp_path / "net", toolkit=toolkit)
    path = files(tmp_path)
    path.with_suffix(".caffemodel").unlink()
    with pytest.raises(CompileError, match="it has 0 blobs of weights; expected 2"):
        compile_file(path, tmp_path / "net", toolkit=toolkit)


def test_one_type_in_both_languages(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(own._registered, "OwnDouble", own.OwnLayer("OwnDouble", "here.py:1", crop))
    with pytest.raises(UsageError) as error:
        compile_file(files(tmp_path), tmp_path / "net", toolkit=toolkit)
    assert f"{REGISTERED} (libimpbmnetu.so) and here.py:1" in str(error.value)


def test_from_the_first_command_on(tmp_path: Path) -> None:
    """make in imp_bmnetu/ forwards to build_layers, which builds what is in there with the layers."""
    root = tmp_path / "ws"
    init(root)
    add_layer(root, "mine", caffe="TPUMine")
    add_layer(root, "yours", caffe="TPUYours", cpp=True)
    script = tmp_path / "bin" / "tpulayer"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m user_layers.cli.main "$@"\n')
    script.chmod(0o755)
    run = ["make", "-s", "install"] if shutil.which("make") else [str(script), "build_layers"]
    env = environment(PATH=f"{script.parent}:{environment()['PATH']}")
    subprocess.run(run, cwd=root / "imp_bmnetu", env=env, check=True, timeout=LIMIT, capture_output=True)
    (root / "net.prototxt").write_text(
        'input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n'
        'layer { name: "a" type: "TPUMine" bottom: "data" top: "a" }\n'
        'layer { name: "b" type: "ReLU" bottom: "a" top: "b" }\n'
        'layer { name: "c" type: "TPUYours" bottom: "b" top: "c" }\n'
    )
    tpulayer("compile", "net.prototxt", "-o", "net", "--dynamic", cwd=root)
    assert "cmp success" in tpulayer("bmrt_test", "--context_dir", "net", cwd=root).stdout
    assert "tests/test_mine.py, caffe/mine.py" in tpulayer("list_layers", cwd=root).stdout

    (root / "imp_bmnetu" / "yours_layer.cpp").unlink()
    tpulayer("build_layers", cwd=root)
    assert not (root / "install" / "plugin" / IMP_LIBRARY).exists()
    told = tpulayer("compile", "net.prototxt", "-o", "other", cwd=root, code=None).stderr
    assert "net.prototxt:4" in told and "TPUYours" in told


def doubled(graph: Any, layer: CaffeLayer) -> None:
    for number, top in enumerate(layer.tops, 2):
        if layer.bottoms:
            (source,) = set(layer.bottoms)
        else:
            source = graph.add_const(f"{layer.name}/const", np.ones((1, 3, 2, 2), np.float32))
        graph.add_const_binary_layer(source, float(number), top, BINARY_MUL)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('layer { name: "l" type: "N" bottom: "x" top: "a" top: "b" }', {"a": 2, "b": 3}),
        ('layer { name: "l" type: "N" bottom: "x" bottom: "x" top: "a" }', {"a": 2}),
        ('layer { name: "l" type: "N" bottom: "x" top: "x" }', {"x@l": 2}),
        (
            'layer { name: "r" type: "ReLU" bottom: "x" top: "a" }'
            'layer { name: "l" type: "N" bottom: "a" top: "a" }'
            'layer { name: "m" type: "N" bottom: "a" top: "a" }',
            {"a": 4},
        ),
        (
            'layer { name: "l" type: "N" top: "one" }'
            'layer { name: "s" type: "Eltwise" bottom: "x" bottom: "one" top: "a" }',
            {"a": 3},
        ),
    ],
)
def test_other_numbers_of_tensors(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch, text: str, expected: dict[str, float]
) -> None:
    monkeypatch.setitem(own._registered, "N", own.OwnLayer("N", "here.py:1", doubled))
    path = tmp_path / "n.prototxt"
    path.write_text(f'input: "x" input_shape {{ dim: 1 dim: 3 dim: 2 dim: 2 }}\n{text}\n')
    graph = Graph.from_caffe(path, toolkit=toolkit)
    graph.compile()
    got = graph.run({"x": np.ones((1, 3, 2, 2), np.float32)})
    assert graph.outputs == tuple(expected)
    for array, value in zip(got, expected.values(), strict=True):
        assert np.unique(array).tolist() == [value]
