"""Caffe's layers in ONNX's words: each type, random fields and shapes, against their definition in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from tests.support.caffe_cases import CASES, Case, cases
from tests.support.caffe_nets import write_case
from tests.support.caffe_reference import REFERENCE
from tests.support.examples import examples
from user_layers.caffe.read import read_caffe
from user_layers.caffe.spellings import CAFFE, REFUSED, known_types
from user_layers.spelling.foreign import Array, ForeignModel
from user_layers.spelling.spell import spell

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
_OF_SSD = {"DetectionOutput", "PriorBox"}  # tests/unit/test_caffe_detection.py


def run(model: ForeignModel, bottoms: Mapping[str, Array]) -> list[Array]:
    """The tops, by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(spell(model, CAFFE).proto.SerializeToString(), options)
    named = {value.name for value in session.get_inputs()}
    found: list[Array] = session.run(None, {name: a for name, a in bottoms.items() if name in named})
    return found


def bottoms_of(case: Case) -> dict[str, Array]:
    return {f"bottom{i}": array for i, array in enumerate(case.bottoms)} or {"other": np.ones(1, np.float32)}


@pytest.mark.parametrize("kind", sorted(CASES))
def test_a_layer_is_what_caffe_defines(kind: str, tmp_path: Path) -> None:
    @examples(25)
    @given(cases(kind))
    def holds(case: Case) -> None:
        model = read_caffe(write_case(case, tmp_path), own={})
        got = dict(zip(model.outputs, run(model, bottoms_of(case)), strict=True))
        want = REFERENCE[kind](case.told, case.bottoms, case.blobs, case.tops)
        assert sorted(got) == [f"top{i}" for i in range(case.tops)] and len(want) == case.tops
        for i, theirs in enumerate(want):
            ours = got[f"top{i}"]
            assert ours.dtype == np.float32 and ours.shape == theirs.shape == model.tensors[f"top{i}"].shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    holds()


def test_every_type_has_cases_and_a_definition() -> None:
    assert set(known_types()) - _OF_SSD == set(CASES) == set(REFERENCE)
    assert not set(REFUSED) & set(CASES)
