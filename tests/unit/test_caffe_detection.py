"""PriorBox beside Caffe's definition; what DetectionOutput's fields become; what both refuse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import CompileError
from tests.support.detection_reference import ALL, Array
from tests.support.examples import examples
from user_layers.caffe.spellings import CAFFE
from user_layers.onnx.model import CUSTOM_DOMAIN
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor
from user_layers.spelling.spell import spell

FLOAT = np.dtype(np.float32)
Shapes = Sequence[tuple[int, ...]]


def spelled(kind: str, attributes: dict[str, Any], shapes: Shapes, *, light: bool) -> onnx.ModelProto:
    names = tuple(f"x{i}" for i in range(len(shapes)))
    tensors = {name: Tensor(shape, FLOAT) for name, shape in zip(names, shapes, strict=True)}
    operation = Operation(kind, "one", names, ("y",), {**attributes, "blobs": 0})
    model = ForeignModel("Caffe", "net", {**tensors, "y": Tensor((), FLOAT)}, names, ("y",), (operation,))
    proto = spell(model, CAFFE, light=light).proto
    assert isinstance(proto, onnx.ModelProto)
    return proto


def priors(attributes: dict[str, Any], shapes: Shapes) -> Array:
    """The constant that a PriorBox becomes."""
    proto = spelled("PriorBox", attributes, shapes, light=False)
    (node,) = proto.graph.node
    (constant,) = proto.graph.initializer
    assert (node.op_type, list(node.input)) == ("Identity", [constant.name])
    found: Array = onnx.numpy_helper.to_array(constant)
    return found


def one_after_the_other(attributes: dict[str, Any], shapes: Shapes) -> Array:
    """Box after box, as Caffe counts them, in double precision."""
    a = {"max_size": (), "aspect_ratio": (), "variance": (), "flip": True, "clip": False, **attributes}
    height, width = shapes[0][2:]
    image_h = a.get("img_size") or a.get("img_h") or shapes[1][2]
    image_w = a.get("img_size") or a.get("img_w") or shapes[1][3]
    step_h = a.get("step") or a.get("step_h") or image_h / height
    step_w = a.get("step") or a.get("step_w") or image_w / width
    ratios = [1.0]
    for ratio in a["aspect_ratio"]:
        if all(abs(ratio - other) >= 1e-6 for other in ratios):
            ratios += [ratio, 1 / ratio] if a["flip"] else [ratio]
    boxes: list[float] = []
    for row in range(height):
        for column in range(width):
            x, y = (column + a["offset"]) * step_w, (row + a["offset"]) * step_h
            for i, size in enumerate(a["min_size"]):
                least = float(int(size))
                sides = [(least, least)]
                if a["max_size"]:
                    middle = math.sqrt(least * int(a["max_size"][i]))
                    sides.append((middle, middle))
                sides += [(least * r**0.5, least / r**0.5) for r in ratios if abs(r - 1) >= 1e-6]
                for w, h in sides:
                    boxes += [(x - w / 2) / image_w, (y - h / 2) / image_h]
                    boxes += [(x + w / 2) / image_w, (y + h / 2) / image_h]
    if a["clip"]:
        boxes = [min(max(number, 0), 1) for number in boxes]
    variance = {0: [0.1] * 4, 1: list(a["variance"]) * 4, 4: list(a["variance"])}[len(a["variance"])]
    return np.asarray([[boxes, variance * (len(boxes) // 4)]])


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    smallest = draw(st.lists(st.sampled_from([4.0, 10.0, 35.84, 21.5]), min_size=1, max_size=3))
    made: dict[str, Any] = {
        "min_size": tuple(smallest),
        "aspect_ratio": tuple(
            draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, 0.5, 1.5, 2.0000001]), max_size=4))
        ),
        "variance": draw(st.sampled_from([(), (0.1,), (0.1, 0.1, 0.2, 0.2), (0.5, 0.25, 1.0, 2.0)])),
        "offset": draw(st.sampled_from([0.5, 0.0, 0.25])),
        "clip": draw(st.booleans()),
        "flip": draw(st.booleans()),
    }
    if draw(st.booleans()):
        made["max_size"] = tuple(size + draw(st.sampled_from([1.0, 30.5])) for size in smallest)
    made |= draw(st.sampled_from([{}, {"img_size": 300}, {"img_h": 200, "img_w": 100}]))
    made |= draw(st.sampled_from([{}, {"step": 8.0}, {"step_h": 4.0, "step_w": 16.0}]))
    return made


@examples(60)
@given(
    attributes=fields(),
    plane=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    image=st.tuples(st.integers(1, 90), st.integers(1, 90)),
)
def test_prior_boxes(attributes: dict[str, Any], plane: tuple[int, int], image: tuple[int, int]) -> None:
    shapes = [(2, 7, *plane), (2, 3, *image)]
    got, want = priors(attributes, shapes), one_after_the_other(attributes, shapes)
    assert got.dtype == np.float32
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max()))


def test_the_usual_first_map_of_ssd300() -> None:
    usual = {
        "min_size": (30.0,),
        "max_size": (60.0,),
        "aspect_ratio": (2.0,),
        "flip": True,
        "clip": False,
        "variance": (0.1, 0.1, 0.2, 0.2),
        "step": 8.0,
        "offset": 0.5,
    }
    got = priors(usual, [(1, 512, 38, 38), (1, 3, 300, 300)])
    assert got.shape == (1, 2, 38 * 38 * 4 * 4)
    np.testing.assert_allclose(got[0, 0, :4] * 300, [-11, -11, 19, 19], rtol=1e-5)
    np.testing.assert_allclose((got[0, 0, 6] - got[0, 0, 4]) * 300, math.sqrt(30 * 60), rtol=1e-5)
    np.testing.assert_allclose((got[0, 0, 10] - got[0, 0, 8]) * 300, 30 * math.sqrt(2), rtol=1e-5)
    assert got[0, 1, :4].tolist() == np.asarray([0.1, 0.1, 0.2, 0.2], np.float32).tolist()


MAP, IMAGE = (1, 8, 4, 4), (1, 3, 32, 32)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"min_size": ()}, "has no min_size"),
        ({"min_size": (0.0,)}, "min_size must be above 0"),
        ({"max_size": (9.0, 10.0)}, "1 min_size and 2 max_size"),
        ({"max_size": (8.0,)}, "max_size 8 is not above min_size 8"),
        ({"aspect_ratio": (-2.0,)}, "aspect_ratio must be above 0"),
        ({"variance": (0.1, 0.2)}, "2 numbers of variance"),
        ({"variance": (0.0,)}, "variance must be above 0"),
        ({"img_size": 0}, "img_size must be above 0"),
        ({"img_size": 3, "img_w": 4}, "img_size and also img_w"),
        ({"img_h": 3}, "img_h and img_w belong together; it has only img_h"),
        ({"step_w": 4.0}, "step_h and step_w belong together"),
        ({"step": 4.0, "step_h": 4.0}, "step and also step_h"),
    ],
    ids=str,
)
def test_priors_that_cannot_be(change: dict[str, Any], said: str) -> None:
    with pytest.raises(CompileError, match="Caffe PriorBox one") as caught:
        priors({"min_size": (8.0,), "offset": 0.5, **change}, [MAP, IMAGE])
    assert said in caught.value.message


def test_priors_of_what_has_no_plane() -> None:
    with pytest.raises(CompileError, match=r"'x0' has the shape \[1, 8\]"):
        priors({"min_size": (8.0,)}, [(1, 8), IMAGE])
    with pytest.raises(CompileError, match="bottoms; number 1 is missing"):
        priors({"min_size": (8.0,)}, [MAP])


# ---- DetectionOutput ----


def detection(attributes: dict[str, Any], shapes: Shapes) -> tuple[dict[str, Any], list[int]]:
    """The layer's parameters and the shape that is declared."""
    proto = spelled("DetectionOutput", attributes, shapes, light=True)
    (node,) = proto.graph.node
    assert (node.domain, node.op_type, list(node.input)) == (
        CUSTOM_DOMAIN,
        "TPU_DETECTION_OUTPUT",
        ["x0", "x1", "x2"],
    )
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return found, [dim.dim_value for dim in proto.graph.output[0].type.tensor_type.shape.dim]


SHAPES: Shapes = [(2, 80), (2, 60), (1, 2, 80)]  # 20 priors, 3 classes


def test_what_the_fields_become() -> None:
    found, shape = detection({"num_classes": 3}, SHAPES)
    assert found == {
        "num_classes": 3,
        "share_location": 1,
        "background_label_id": 0,
        "code_type": 1,
        "variance_encoded_in_target": 0,
        "top_k": 0,
        "keep_top_k": 0,
        "nms_threshold": np.float32(0.3),
        "eta": 1.0,
        "confidence_threshold": ALL,
    }
    assert shape == [1, 1, 2 * 2 * 20, 7]
    found, shape = detection(
        {
            "num_classes": 3,
            "share_location": False,
            "background_label_id": 2,
            "nms_param": {"nms_threshold": 0.5, "top_k": 4, "eta": 0.75},
            "code_type": "CORNER_SIZE",
            "variance_encoded_in_target": True,
            "keep_top_k": 6,
            "confidence_threshold": 0.25,
            "save_output_param": {"output_directory": "somewhere"},
        },
        [(2, 240), (2, 60, 1, 1), (1, 2, 80)],
    )
    assert found == {
        "num_classes": 3,
        "share_location": 0,
        "background_label_id": 2,
        "code_type": 3,
        "variance_encoded_in_target": 1,
        "top_k": 4,
        "keep_top_k": 6,
        "nms_threshold": 0.5,
        "eta": 0.75,
        "confidence_threshold": 0.25,
    }
    assert shape == [1, 1, 12, 7]


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({"keep_top_k": -1, "nms_param": {"top_k": -1}}, 80),
        ({"keep_top_k": 1000, "nms_param": {"top_k": 3}}, 12),
        ({"keep_top_k": 5}, 10),
        ({"background_label_id": -1}, 120),
        ({"background_label_id": 7}, 120),  # no class is it
    ],
    ids=str,
)
def test_the_most_rows(given: dict[str, Any], rows: int) -> None:
    assert detection({"num_classes": 3, **given}, SHAPES)[1] == [1, 1, rows, 7]


def test_one_row_for_each_image_at_least() -> None:
    assert detection({"num_classes": 1}, [(2, 80), (2, 20), (1, 2, 80)])[1] == [1, 1, 2, 7]


@pytest.mark.parametrize(
    ("change", "shapes", "said"),
    [
        ({"num_classes": None}, SHAPES, "has no num_classes"),
        ({"code_type": "ROUND"}, SHAPES, "code_type ROUND is none of CORNER, CENTER_SIZE, CORNER_SIZE"),
        ({"nms_param": {"nms_threshold": -1.0}}, SHAPES, "nms_threshold -1 is below 0"),
        ({"nms_param": {"eta": 0.0}}, SHAPES, "eta 0 is not above 0"),
        ({"nms_param": {"top_k": 0}}, SHAPES, "top_k 0 leaves no detections; -1 means all"),
        ({"keep_top_k": 0}, SHAPES, "keep_top_k 0 leaves no detections"),
        (
            {"share_location": False},
            SHAPES,
            "locations have the shape [2, 80]; 20 priors and 3 classes need [2, 240]",
        ),
        ({}, [(2, 80), (2, 61), (1, 2, 80)], "confidences have the shape [2, 61]"),
        ({}, [(2, 80), (1, 60), (1, 2, 80)], "need [2, 60]"),
        ({}, [(2, 80), (2, 60), (1, 2, 79)], "priors have the shape [1, 2, 79]"),
        ({}, [(2, 80), (2, 60), (2, 80)], "priors have the shape [2, 80]"),
    ],
    ids=str,
)
def test_detections_that_cannot_be(change: dict[str, Any], shapes: Shapes, said: str) -> None:
    with pytest.raises(CompileError, match="Caffe DetectionOutput one") as caught:
        detection({"num_classes": 3, **change}, shapes)
    assert said in caught.value.message
