"""Layers of Caffe as nets have them: compiled, run on the emulated chip, compared with numpy and OpenCV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import CompileError
from tests.support.caffe_nets import bottoms, write_case, write_cases
from tests.support.caffe_reference import REFERENCE
from tests.support.caffe_typical import NOT_OPENCV, ON_HOST, TYPICAL
from tests.support.opencv import opencv_outputs
from tpulayer import Graph
from user_layers.toolkit import Toolkit

pytest.importorskip("onnxruntime", reason="needs onnxruntime")


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """Without a workspace: the built-in layers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("nowhere"))
        with Toolkit() as opened:
            yield opened


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
    # A constant that is an output is copied to one.
    got = dict(zip((name.removesuffix(":copy") for name in graph.outputs), made, strict=True))
    want = REFERENCE[case.kind](case.told, case.bottoms, case.blobs, case.tops)
    for i, theirs in enumerate(want):
        most = float(np.abs(theirs).max())
        np.testing.assert_allclose(
            np.asarray(got[f"top{i}"], np.float64), theirs, rtol=1e-4, atol=1e-4 * most
        )


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
