"""Layers of Caffe as nets have them: compiled, run on the emulated chip, compared with numpy and OpenCV."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import CompileError
from tests.support.caffe_cases import Array
from tests.support.caffe_nets import bottoms, input_text, layer_text, write_case, write_cases
from tests.support.caffe_reference import REFERENCE
from tests.support.caffe_typical import NOT_OPENCV, ON_HOST, TYPICAL
from tests.support.opencv import opencv_outputs
from tpulayer import Graph
from user_layers.caffe.weights import write_caffemodel
from user_layers.toolkit import Toolkit

pytest.importorskip("onnxruntime", reason="needs onnxruntime")


@pytest.mark.parametrize("name", TYPICAL)
def test_a_layer_is_computed(name: str, toolkit: Toolkit, tmp_path: Path) -> None:
    case = TYPICAL[name]
    path = write_case(case, tmp_path)
    if name in ON_HOST:
        with pytest.raises(CompileError, match="no layer does this"):
            Graph.from_caffe(path, toolkit=toolkit, cpu=False)
    graph = Graph.from_caffe(path, toolkit=toolkit, cpu=name in ON_HOST)
    graph.compile(opt=0)
    given = bottoms({"": case})
    made = graph.run({input_: given[input_] for input_ in graph.inputs})
    got = dict(zip(graph.outputs, made, strict=True))
    want = REFERENCE[case.kind](case.told, case.bottoms, case.blobs, case.tops)
    for i, theirs in enumerate(want):
        most = float(np.abs(theirs).max())
        np.testing.assert_allclose(
            np.asarray(got[f"top{i}"], np.float64), theirs, rtol=1e-4, atol=1e-4 * most
        )


def test_what_follows_a_convolution_becomes_part_of_it(toolkit: Toolkit, tmp_path: Path) -> None:
    """BatchNorm, Scale and Bias in place, as in published nets: one layer, and the activation."""
    chain = ["Convolution, groups", "BatchNorm", "Scale", "Bias", "ReLU, leaky"]
    text, weights = input_text("x", (1, 8, 9, 11)), []
    x: Array = np.random.default_rng(0).standard_normal((1, 8, 9, 11)).astype(np.float32)
    want = x
    for i, name in enumerate(chain):
        case = TYPICAL[name]
        blobs = [blob[:6] if i else blob for blob in case.blobs]
        text += layer_text(case.kind, name, ["y" if i else "x"], ["y"], case.told)
        weights.append((name, case.kind, blobs))
        (want,) = REFERENCE[case.kind](case.told, [want], blobs, 1)
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    write_caffemodel(path.with_suffix(".caffemodel"), "net", weights)
    graph = Graph.from_caffe(path, toolkit=toolkit, cpu=False)
    assert [node.op.op for node in graph.nodes] == ["TPU_CONV", "TPU_UNARY"]
    graph.compile()
    got: Array = graph.run({"x": x})[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_indices_of_maxima_go_through_a_net(toolkit: Toolkit, tmp_path: Path) -> None:
    """An encoder and a decoder: where a maximum was, it comes back, and 0 elsewhere."""
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 8)).astype(np.float32)
    text = input_text("x", x.shape)
    text += layer_text("Pooling", "pool", ["x"], ["small", "mask"], {"kernel_size": 2, "stride": 2})
    text += layer_text("Upsample", "back", ["small", "mask"], ["y"], {"scale": 2})
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    graph = Graph.from_caffe(path, toolkit=toolkit)
    graph.compile()
    largest = np.where(np.isin(x, x.reshape(2, 3, 3, 2, 4, 2).max((3, 5))), x, 0)
    np.testing.assert_array_equal(graph.run({"x": x})[0], largest)


def test_layers_are_what_opencv_computes(toolkit: Toolkit, tmp_path: Path) -> None:
    """All in one net: the definitions in numpy are ours, these numbers are not."""
    cases = {
        f"layer{i}_": case
        for i, (name, case) in enumerate(TYPICAL.items())
        if not {name, case.kind} & NOT_OPENCV
    }
    assert len(cases) > 50
    path = write_cases(cases, tmp_path)
    names = [f"{name}top0" for name in cases]
    theirs = opencv_outputs(path, path.with_suffix(".caffemodel"), bottoms(cases), names, tmp_path)
    for (name, case), found in zip(cases.items(), theirs, strict=True):
        (want,) = REFERENCE[case.kind](case.told, case.bottoms, case.blobs, 1)
        assert found.shape == want.shape, (name, case.kind, case.told)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4, err_msg=f"{case.kind} {case.told}")
