"""Caffe's layers in ONNX's words: each type, random fields and shapes, against their definition in numpy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given

from tests.support.caffe_cases import CASES, Case, cases
from tests.support.caffe_reference import REFERENCE
from tests.support.examples import examples
from user_layers.caffe.spellings import CAFFE, REFUSED, known_types
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.infer import with_shapes
from user_layers.spelling.spell import spell

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
F32 = np.dtype(np.float32)
_OF_SSD = {"DetectionOutput", "PriorBox"}  # tests/unit/test_caffe_detection.py


def model_of(case: Case) -> ForeignModel:
    """A net of one layer."""
    bottoms = [f"bottom{i}" for i in range(len(case.bottoms))]
    blobs = [f"layer/blob{i}" for i in range(len(case.blobs))]
    tops = tuple(f"top{i}" for i in range(case.tops))
    tensors = {name: Tensor(a.shape, F32) for name, a in zip(bottoms, case.bottoms, strict=True)}
    tensors |= {name: Tensor(a.shape, F32, a) for name, a in zip(blobs, case.blobs, strict=True)}
    tensors |= {name: Tensor((-1,), F32) for name in tops}
    told = {**case.told, "blobs": len(blobs)}
    layer = Operation(case.kind, "layer", (*bottoms, *blobs), tops, told)
    return with_shapes(ForeignModel("Caffe", "net", tensors, tuple(bottoms), tops, (layer,)), CAFFE)


def run(model: ForeignModel, bottoms: Mapping[str, Array]) -> list[Array]:
    """The tops, by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(spell(model, CAFFE).proto.SerializeToString(), options)
    named = {value.name for value in session.get_inputs()}
    found: list[Array] = session.run(None, {name: a for name, a in bottoms.items() if name in named})
    return found


@pytest.mark.parametrize("kind", sorted(CASES))
def test_a_layer_is_what_caffe_defines(kind: str) -> None:
    @examples(25)
    @given(cases(kind))
    def holds(case: Case) -> None:
        model = model_of(case)
        got = run(model, dict(zip(model.inputs, case.bottoms, strict=True)))
        want = REFERENCE[kind](case.told, case.bottoms, case.blobs, case.tops)
        assert len(got) == len(want) == case.tops
        for name, ours, theirs in zip(model.outputs, got, want, strict=True):
            assert ours.dtype == np.float32 and ours.shape == theirs.shape == model.tensors[name].shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    holds()


def test_every_type_has_cases_and_a_definition() -> None:
    assert set(known_types()) - _OF_SSD == set(CASES) == set(REFERENCE)
    assert not set(REFUSED) & set(CASES)
