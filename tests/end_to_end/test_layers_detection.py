"""TPU_DETECTION_OUTPUT by itself, on both firmwares, against Caffe's definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError
from tests.support.detection_reference import ALL, CENTER_SIZE, CORNER, CORNER_SIZE, Nearly, detections, param
from tests.support.examples import examples
from tests.support.layer_checks import refused, run, same
from tpulayer import Graph
from user_layers.toolkit import Toolkit

Array = NDArray[Any]
OP = "TPU_DETECTION_OUTPUT"


def inputs(
    images: int,
    priors: int,
    classes: int,
    sets: int = 1,
    *,
    seed: int = 0,
    steps: int = 0,
    scale: int = 1,
) -> tuple[Array, Array, Array]:
    """loc, conf, prior; steps: numbers are whole parts of 1 / steps, so that many are equal; scale: of the
    priors, 300 as if they were pixels."""
    draw = np.random.default_rng(seed)

    def numbers(low: float, high: float, *shape: int) -> Array:
        if steps:
            return (draw.integers(round(low * steps), round(high * steps) + 1, shape) / steps).astype(
                np.float32
            )
        return draw.uniform(low, high, shape).astype(np.float32)

    low = numbers(0, 1, priors, 2)
    corners = np.concatenate([low, low + numbers(0.125, 0.5, priors, 2)], 1)
    corners *= scale
    variances = numbers(0.125, 0.5, priors, 4)
    prior = np.stack([corners.reshape(-1), variances.reshape(-1)])[None]
    return numbers(-1, 1, images, priors * sets * 4), numbers(0, 1, images, priors * classes), prior


def check(toolkit: Toolkit, data: tuple[Array, Array, Array], p: dict[str, Any]) -> Array:
    """Bit for bit; but for the exponential, which the engines have in their own way."""
    try:
        want = detections(*data, p, margin=1e-4 if p["code_type"] == CENTER_SIZE else 0)
    except Nearly:
        assume(False)
    (got,) = run(toolkit, OP, p, data)
    if p["code_type"] == CENTER_SIZE:
        assert got.shape == want.shape
        same(got[..., :3], want[..., :3])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * max(1, np.abs(want).max()))
    else:
        same(got, want)
    return got


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
    classes = draw(st.integers(1, 5))
    priors = draw(st.one_of(st.integers(1, 12), st.integers(60, 140)))
    p = param(
        classes,
        share_location=draw(st.integers(0, 1)),
        background_label_id=draw(st.integers(-1, classes - 1)),
        code_type=draw(st.sampled_from([CORNER, CENTER_SIZE, CORNER_SIZE])),
        variance_encoded_in_target=draw(st.integers(0, 1)),
        top_k=draw(st.sampled_from([0, 1, 5, 200])),
        keep_top_k=draw(st.sampled_from([0, 1, 7, 500])),
        nms_threshold=draw(st.sampled_from([0.0, 0.25, 0.45, 0.8, 1.0])),
        eta=draw(st.sampled_from([1.0, 0.9, 0.5])),
        confidence_threshold=draw(st.sampled_from([ALL, -1.0, 0.0, 0.25, 0.5, 0.9, 1.0])),
    )
    sets = 1 if p["share_location"] else classes
    steps, scale = draw(st.sampled_from([0, 4, 8])), draw(st.sampled_from([1, 1, 300]))
    return inputs(
        draw(st.integers(1, 3)),
        priors,
        classes,
        sets,
        seed=draw(st.integers(0, 99)),
        steps=steps,
        scale=scale,
    ), p


@examples(40)
@given(case=cases())
def test_any_parameters(toolkit: Toolkit, case: tuple[tuple[Array, Array, Array], dict[str, Any]]) -> None:
    check(toolkit, *case)


@examples(12)
@given(case=cases())
def test_the_controller_finds_the_same(
    toolkit: Toolkit, controller: Toolkit, case: tuple[tuple[Array, Array, Array], dict[str, Any]]
) -> None:
    data, p = case
    same(run(controller, OP, p, data)[0], run(toolkit, OP, p, data)[0])


# ---- edges ----


def test_no_detections_are_a_row_for_each_image(toolkit: Toolkit) -> None:
    loc, conf, prior = inputs(3, 20, 4)
    p = param(4, confidence_threshold=1.0)
    got = check(toolkit, (loc, conf, prior), p)
    assert got[0, 0].tolist() == [[float(image), -1, -1, -1, -1, -1, -1] for image in range(3)]
    conf[1, 3] = 1.5  # image 1, prior 0, class 3: the other images have no row then
    got = check(toolkit, (loc, conf, prior), p)
    assert got[0, 0, :, :3].tolist() == [[1, 3, 1.5]]


@pytest.mark.parametrize("classes", [1, 2])
def test_nothing_but_background(toolkit: Toolkit, classes: int) -> None:
    data = inputs(1, 9, classes)
    got = check(toolkit, data, param(classes, confidence_threshold=0.0 if classes == 1 else 2.0))
    assert got.shape == (1, 1, 1, 7)


def test_scores_of_any_kind(toolkit: Toolkit) -> None:
    loc, conf, prior = inputs(1, 80, 3)
    odd = np.asarray([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, -2.0, 3.0e38], np.float32)
    conf[0] = odd[np.random.default_rng(2).integers(0, len(odd), conf.size)]
    seen = np.where(np.abs(conf) < np.finfo(np.float32).tiny, np.float32(0), conf)  # denormals count as 0
    for threshold in (ALL, -1.0, 0.0, 2.0):
        p = param(3, confidence_threshold=threshold, nms_threshold=1.0, background_label_id=-1)
        want = detections(loc, seen, prior, p)
        (got,) = run(toolkit, OP, p, (loc, conf, prior))
        np.testing.assert_array_equal(got[..., [0, 1, 3, 4, 5, 6]], want[..., [0, 1, 3, 4, 5, 6]])
        np.testing.assert_allclose(got[..., 2], want[..., 2], atol=1e-39)


def test_boxes_that_are_no_numbers(toolkit: Toolkit, controller: Toolkit) -> None:
    """They stay, or not, on both firmwares alike; the others are not lost."""
    loc, conf, prior = inputs(1, 70, 3)
    loc[0, ::37] = np.nan
    loc[0, 5::41] = np.inf
    p = param(3, code_type=CENTER_SIZE, nms_threshold=0.45)
    (got,) = run(toolkit, OP, p, (loc, conf, prior))
    same(run(controller, OP, p, (loc, conf, prior))[0], got)
    whole = np.isfinite(loc.reshape(-1, 4)).all(1)
    best = np.argmax(np.where(whole, conf.reshape(-1, 3)[:, 1], 0))
    assert (got[0, 0, :, 2] == conf.reshape(-1, 3)[best, 1]).any()


def test_overlap_as_large_as_the_threshold_stays(toolkit: Toolkit) -> None:
    prior = np.zeros((1, 2, 8), np.float32)
    prior[0, 0] = [0, 0, 1, 1, 0, 0, 1, 0.5]  # one covers half of the other
    data = np.zeros((1, 8), np.float32), np.asarray([[0.5, 0.25]], np.float32), prior
    for threshold, left in ((0.5, 2), (np.nextafter(np.float32(0.5), np.float32(0)), 1)):
        p = param(1, background_label_id=-1, nms_threshold=float(threshold))
        assert check(toolkit, data, p).shape[2] == left


def test_many_that_overlap(toolkit: Toolkit) -> None:
    """Ten thousands of pairs, near the threshold and far from it."""
    for threshold in (0.01, 0.3, 0.7):
        p = param(2, nms_threshold=threshold, top_k=300)
        check(toolkit, inputs(1, 300, 2, seed=round(100 * threshold)), p)


@pytest.mark.parametrize(
    ("priors", "classes", "sets"), [(270_000, 2, 1), (700, 81, 1), (3, 1000, 1), (600, 30, 30)]
)
def test_large(toolkit: Toolkit, priors: int, classes: int, sets: int) -> None:
    """More than a lane's rows of boxes, of scores; many classes."""
    p = param(
        classes, share_location=int(sets == 1), confidence_threshold=0.999, code_type=CENTER_SIZE, top_k=100
    )
    check(toolkit, inputs(2, priors, classes, sets), p)


def test_priors_may_be_constants_and_extents_smaller(toolkit: Toolkit) -> None:
    loc, conf, prior = inputs(2, 30, 3)
    p = param(3, nms_threshold=0.45, keep_top_k=20)
    want = detections(loc, conf, prior, p)
    same(run(toolkit, OP, p, (loc, conf), consts=[prior])[0], want)
    compiled = [(4, 4 * 50), (4, 3 * 50), (1, 2, 4 * 50)]
    same(run(toolkit, OP, p, (loc, conf, prior), compiled=compiled, dynamic=True)[0], want)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_classes": 0},
        {"num_classes": 4},
        {"background_label_id": 3},
        {"background_label_id": -2},
        {"code_type": 0},
        {"code_type": 4},
        {"share_location": 0},
        {"share_location": 2},
        {"top_k": -1},
        {"keep_top_k": -1},
        {"nms_threshold": -0.1},
        {"nms_threshold": float("nan")},
        {"eta": 0.0},
        {"eta": 1.1},
        {"confidence_threshold": float("nan")},
    ],
    ids=str,
)
def test_what_is_impossible(toolkit: Toolkit, wrong: dict[str, Any]) -> None:
    refused(toolkit, OP, {**param(3), **wrong}, *inputs(1, 5, 3))


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 20), (1, 15), (1, 20)),
        ((1, 20), (1, 15), (1, 1, 20)),
        ((1, 20), (2, 15), (1, 2, 20)),
        ((1, 20), (1, 15), (2, 2, 20)),
        ((1, 21), (1, 15), (1, 2, 21)),
        ((1, 24), (1, 15), (1, 2, 20)),
    ],
    ids=str,
)
def test_shapes_that_do_not_belong_together(toolkit: Toolkit, shapes: tuple[tuple[int, ...], ...]) -> None:
    refused(toolkit, OP, param(3), *(np.zeros(shape, np.float32) for shape in shapes))


def test_one_row_of_priors_where_their_variances_are_not_needed(toolkit: Toolkit) -> None:
    loc, conf, prior = inputs(1, 40, 3)
    check(toolkit, (loc, conf, prior[:, :1].copy()), param(3, variance_encoded_in_target=1))


def test_more_rows_than_can_be_counted_are_refused(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    shapes = ((1, 4 * 100_000), (1, 4000 * 100_000), (1, 2, 4 * 100_000))
    names = [graph.add_input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    graph.add_tpu_layer(OP, names, param(4000), ["y"])
    with pytest.raises(TpulayerError, match=f"{OP}.*BM_LAYER_NOT_SUPPORTED"):
        graph.compile()
