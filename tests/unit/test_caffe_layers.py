"""Caffe's layers in ONNX's words: each type, random fields and shapes, against their definition in numpy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from firmware_sim.errors import CompileError, ModelError
from tests.support.caffe_cases import CASES, Case, cases
from tests.support.caffe_nets import bottoms, write_case
from tests.support.caffe_reference import REFERENCE
from tests.support.examples import examples
from user_layers.caffe.page import PAGE, with_types
from user_layers.caffe.read import read_caffe
from user_layers.caffe.spellings import CAFFE, REFUSED, known_types
from user_layers.spelling.foreign import Array, ForeignModel
from user_layers.spelling.page import page_path
from user_layers.spelling.spell import spell

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
_OF_SSD = {"DetectionOutput", "PriorBox"}  # tests/unit/test_caffe_detection.py


def run(model: ForeignModel, given: Mapping[str, Array]) -> list[Array]:
    """The tops, by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(spell(model, CAFFE).proto.SerializeToString(), options)
    named = {value.name for value in session.get_inputs()}
    found: list[Array] = session.run(None, {name: a for name, a in given.items() if name in named})
    return found


@pytest.mark.parametrize("kind", sorted(CASES))
def test_a_layer_is_what_caffe_defines(kind: str, tmp_path: Path) -> None:
    @examples(20)
    @hypothesis.given(cases(kind))
    def holds(case: Case) -> None:
        model = read_caffe(write_case(case, tmp_path), own={})
        got = dict(zip(model.outputs, run(model, bottoms({"": case})), strict=True))
        want = REFERENCE[kind](case.told, case.bottoms, case.blobs, case.tops)
        assert sorted(got) == [f"top{i}" for i in range(case.tops)] and len(want) == case.tops
        for i, theirs in enumerate(want):
            ours = got[f"top{i}"]
            assert ours.dtype == np.float32 and ours.shape == theirs.shape == model.tensors[f"top{i}"].shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    holds()


_X = np.ones((1, 4, 6, 6), np.float32)
_ROW = np.ones(4, np.float32)
_CONV: dict[str, Any] = {"num_output": 4, "kernel_size": (3,)}
_WEIGHTS = [np.ones((4, 4, 3, 3), np.float32), _ROW]
WRONG: dict[str, tuple[Case, str]] = {
    "two kernels": (
        Case("Convolution", {**_CONV, "pad": (1,), "pad_h": 1, "pad_w": 1}, [_X], _WEIGHTS),
        "both pad and",
    ),
    "three strides": (
        Case("Convolution", {**_CONV, "stride": (1, 1, 1)}, [_X], _WEIGHTS),
        "3 numbers for stride",
    ),
    "a window that does not fit": (
        Case("Convolution", {**_CONV, "dilation": (4,)}, [_X], _WEIGHTS),
        "windows of 9 do not fit 6 with pad 0",
    ),
    "tops without bottoms": (Case("Convolution", _CONV, [_X], _WEIGHTS, 2), "1 bottom and 2 tops"),
    "random pools": (
        Case("Pooling", {"pool": "STOCHASTIC", "kernel_size": 2}, [_X]),
        "STOCHASTIC, which draws",
    ),
    "a pad as large as the kernel": (
        Case("Pooling", {"kernel_size": 2, "pad": 2}, [_X]),
        "kernel of 2 .* pad 2",
    ),
    "a pool without a kernel": (Case("Pooling", {"kernel_h": 2}, [_X]), "no kernel_size"),
    "a window behind the elements": (
        Case("Pooling", {"kernel_size": 1, "stride": 4}, [_X]),
        "last window of 1 begins behind the 6 elements",
    ),
    "indices of averages": (
        Case("Pooling", {"pool": "AVE", "kernel_size": 2}, [_X], tops=2),
        "2 tops, and its method is AVE",
    ),
    "a pool of rows": (Case("Pooling", {"kernel_size": 2}, [_X[0]]), "3 dimensions, not 4"),
    "an even region": (Case("LRN", {"local_size": 4}, [_X]), "local_size of 4"),
    "an unknown axis": (Case("Softmax", {"axis": 4}, [_X]), "no axis 4 among 4"),
    "one bottom": (Case("Eltwise", {}, [_X]), "1 bottom; Eltwise has 2 or more"),
    "different bottoms": (Case("Eltwise", {}, [_X, _X[:, :1]]), "different shapes"),
    "coefficients of products": (
        Case("Eltwise", {"operation": "PROD", "coeff": (1.0, 2.0)}, [_X, _X]),
        "2 coefficients for 2 bottoms and PROD",
    ),
    "a second bottom that does not fit": (Case("Scale", {}, [_X, _ROW[:3]]), r"\(3,\) of its second bottom"),
    "axes beyond the last": (Case("Bias", {"num_axes": 4}, [_X], [_X]), "no 4 axes from axis 1"),
    "equal parts that are not": (Case("Slice", {}, [_X], tops=3), "4 elements cannot be cut into 3"),
    "points that go back": (Case("Slice", {"slice_point": (3, 2)}, [_X], tops=3), "do not grow"),
    "two names of an axis": (Case("Concat", {"axis": 2, "concat_dim": 3}, [_X]), "both axis and concat_dim"),
    "rows that differ": (Case("Concat", {}, [_X, _X[:, :, :3]]), "differ not only along axis 1"),
    "too many elements": (
        Case("Reshape", {"shape": {"dim": (0, 7)}}, [_X]),
        "144 elements, which do not make",
    ),
    "two free extents": (Case("Reshape", {"shape": {"dim": (-1, -1)}}, [_X]), "does not say how"),
    "an axis twice": (Case("Permute", {"order": (1, 1)}, [_X]), "is not one of 4 axes"),
    "a crop that is larger": (Case("Crop", {"offset": (4,)}, [_X, _X[:, :, :3, :3]]), "is smaller than"),
    "no tiles": (Case("Tile", {}, [_X]), "tiles are 0"),
    "channels that do not divide": (Case("Reorg", {"stride": 3}, [_X]), "stride of 3 for"),
    "groups that do not divide": (Case("ShuffleChannel", {"group": 3}, [_X]), "3 groups do not divide"),
    "more than there are": (Case("ArgMax", {"axis": 1, "top_k": 5}, [_X]), "top_k is 5, of 4"),
    "no number": (Case("Power", {"power": -1.0, "scale": 0.0}, [_X]), "0 to the power of -1"),
    "a base below 0": (Case("Exp", {"base": -2.0}, [_X]), "base -2"),
    "a base of 1": (Case("Log", {"base": 1.0}, [_X]), "base is 1"),
    "a leaky ReLU6": (Case("ReLU6", {"negative_slope": 0.5}, [_X]), "negative_slope is 0.5"),
    "statistics of a row": (Case("BatchNorm", {}, [_ROW], [_ROW[:1], _ROW[:1], _ROW[:1]]), "has no channels"),
    "a size that is not told": (Case("Interp", {}, [_X]), "no height and width"),
    "pads above 0": (
        Case("Interp", {"pad_beg": 1, "height": 3, "width": 3}, [_X]),
        "pads 1 and 0 are above 0",
    ),
    "nothing to upsample": (Case("Upsample", {}, [_X]), "its scale is 1"),
    "another mask": (Case("Upsample", {"scale": 2}, [_X, _X[:, :1]]), "its mask"),
    "random numbers": (
        Case("DummyData", {"shape": ({"dim": (2,)},), "data_filler": ({"type": "gaussian"},)}, []),
        "'gaussian' draws random numbers",
    ),
    **{kind: (Case(kind, {}, [_X]), re.escape(why)) for kind, why in REFUSED.items()},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_told_with_the_layer_and_its_line(name: str, tmp_path: Path) -> None:
    case, why = WRONG[name]
    with pytest.raises((CompileError, ModelError)) as raised:
        read_caffe(write_case(case, tmp_path), own={})
    assert re.search(why, raised.value.message), raised.value.message
    assert re.search(rf"net.prototxt:\d+:\d+: layer 'top0' \({case.kind}\)", raised.value.message)


def test_the_page_names_every_type() -> None:
    text = page_path(PAGE).read_text()
    assert with_types(text) == text


def test_every_type_has_cases_and_a_definition() -> None:
    assert set(known_types()) - _OF_SSD == set(CASES) == set(REFERENCE)
    assert not set(REFUSED) & set(CASES)
