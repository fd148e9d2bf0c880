"""examples/yolov3: scenes, who answers for their objects, how detections are judged and drawn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from tests.paths import ROOT

MODULES = ("network", "scenes", "targets", "precision", "draw")


@pytest.fixture(scope="module")
def yolo() -> Iterator[SimpleNamespace]:
    """The modules of the example, which import each other as programs beside each other do."""
    sys.path.insert(0, str(ROOT / "examples" / "yolov3"))
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
    finally:
        sys.path.remove(str(ROOT / "examples" / "yolov3"))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("size", [64, 224])
def test_scenes(yolo: SimpleNamespace, size: int) -> None:
    first, again, other = (yolo.scenes.scene(number, size) for number in (3, 3, 4))
    assert np.array_equal(first.image, again.image) and np.array_equal(first.boxes, again.boxes)
    assert not np.array_equal(first.image, other.image)
    kinds = set()
    for number in range(12):
        scene = yolo.scenes.scene(number, size)
        assert scene.image.shape == (3, size, size) and scene.image.dtype == np.float32
        assert scene.image.min() >= 0 and scene.image.max() <= 1
        assert 1 <= len(scene.boxes) == len(scene.classes) <= 9
        assert scene.boxes.min() >= 0 and scene.boxes.max() <= size
        assert ((scene.boxes[:, 2:] - scene.boxes[:, :2]) > 0.05 * size).all()
        overlaps = yolo.precision.iou(scene.boxes, scene.boxes) - np.eye(len(scene.boxes))
        assert overlaps.max() <= yolo.scenes.OVERLAP
        kinds.update(scene.classes.tolist())
    assert kinds == set(range(len(yolo.scenes.CLASSES)))


def test_boxes_fit_what_is_painted(yolo: SimpleNamespace) -> None:
    """Each shape's coverage touches all four edges of its box, to the part of a pixel."""
    random = np.random.default_rng(0)
    for kind in yolo.scenes.CLASSES:
        coverage, left, top = yolo.scenes._drawn(random, kind, 224)
        box = yolo.scenes._box(coverage, left, top)
        height, width = coverage.shape
        assert (coverage.max(axis=0) > 0).all() and (coverage.max(axis=1) > 0).all(), kind
        assert (np.abs(box - (left, top, left + width, top + height)) < 1).all(), kind
        assert 0 <= left <= 224 - width and 0 <= top <= 224 - height, kind


def test_a_disk_is_as_wide_as_it_is_made(yolo: SimpleNamespace) -> None:
    at = np.arange(-20, 21, dtype=np.float32)
    distance = yolo.scenes._disk(at[None, :], at[:, None], 15.0, 10.0)
    inside = np.argwhere(distance < 0)
    assert np.abs(at[inside[:, 1]]).max() == 14 and np.abs(at[inside[:, 0]]).max() == 9
    assert distance[20, 20] < -1 and distance[0, 0] > 5


def test_answers(yolo: SimpleNamespace) -> None:
    """A box of exactly one anchor's shape: that anchor of that head, in the cell of its middle."""
    anchors = tuple(float(v) for side in (8, 12, 18, 27, 40, 61, 91, 137, 205) for v in (side, side))
    middle = np.array([70.0, 101.0])
    box = np.concatenate([middle - 20, middle + 20]).astype(np.float32)
    scene = yolo.scenes.Scene(np.zeros((3, 224, 224), np.float32), box[None], np.array([2]))
    coarse, fourth, fine = yolo.targets.targets([scene, scene], anchors, 224)
    assert len(coarse.where) == len(fine.where) == 0
    assert coarse.boxes.shape == (0, 4)
    assert fourth.where.tolist() == [[0, 1, 101 // 16, 70 // 16], [1, 1, 101 // 16, 70 // 16]]
    assert np.array_equal(fourth.boxes, [box, box]) and fourth.classes.tolist() == [2, 2]


def test_answers_at_the_edge_and_in_one_cell(yolo: SimpleNamespace) -> None:
    """Two objects in one cell: the first is answered for. A middle on the last edge is in the last cell."""
    anchors = tuple(float(v) for side in (8, 12, 18, 27, 40, 61, 91, 137, 205) for v in (side, side))
    boxes = np.array([[0, 0, 60, 60], [1, 1, 61, 61], [195, 220, 253, 228]], np.float32)
    scene = yolo.scenes.Scene(np.zeros((3, 224, 224), np.float32), boxes, np.array([0, 1, 4]))
    heads = yolo.targets.targets([scene], anchors, 224)
    assert heads[1].where.tolist() == [[0, 2, 1, 1]] and heads[1].classes.tolist() == [0]
    assert sum(4 in head.classes for head in heads) >= 1
    assert all(
        (head.where[:, 2:] < 224 // stride).all() for head, stride in zip(heads, (32, 16, 8), strict=True)
    )


def test_every_object_has_an_answer(yolo: SimpleNamespace) -> None:
    """However unlike the anchors it is."""
    anchors = tuple(float(v) for side in (8, 12, 18, 27, 40, 61, 91, 137, 205) for v in (side, side))
    box = np.array([[10, 10, 12, 180]], np.float32)
    scene = yolo.scenes.Scene(np.zeros((3, 224, 224), np.float32), box, np.array([1]))
    assert sum(len(head.where) for head in yolo.targets.targets([scene], anchors, 224)) == 1


def test_average_precision(yolo: SimpleNamespace) -> None:
    p = yolo.precision
    truth = p.Truth(
        np.array([[0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]], np.float32), np.zeros(3, int)
    )
    perfect = p.Detections(truth.boxes, truth.classes, np.array([0.9, 0.8, 0.7], np.float32))
    assert p.average_precisions([perfect], [truth], 1) == [1.0]
    # hits at ranks 1 and 4 of three objects: precisions 1 and 1/2; a second box of one object is wrong
    boxes = np.array([[0, 0, 10, 10], [0, 1, 10, 10], [80, 80, 90, 90], [21, 20, 31, 30]], np.float32)
    found = p.Detections(boxes, np.zeros(4, int), np.array([0.9, 0.8, 0.7, 0.6], np.float32))
    assert p.average_precisions([found], [truth], 1) == pytest.approx([(1 + 1 / 2) / 3])
    # sorted over all pictures, not picture by picture
    empty = p.Truth(np.zeros((0, 4), np.float32), np.zeros(0, int))
    wrong = p.Detections(boxes[:1], np.zeros(1, int), np.array([0.85], np.float32))
    assert p.average_precisions([wrong, perfect], [empty, truth], 1) == pytest.approx(
        [(1 + 3 / 4 + 3 / 4) / 3]
    )
    # another class, nothing found, a class that nothing has
    nothing = p.Detections(empty.boxes, empty.classes, np.zeros(0, np.float32))
    result = p.average_precisions([nothing], [truth], 2)
    assert result[0] == 0 and np.isnan(result[1])
    shifted = perfect._replace(boxes=truth.boxes + np.float32(4))
    assert p.average_precisions([shifted], [truth], 1) == [0.0]
    assert p.average_precisions([shifted], [truth], 1, overlap=0.2) == [1.0]


def test_rows_of_the_layer(yolo: SimpleNamespace) -> None:
    rows = np.array([[[[0, 3, 0.5, 0.5, 0.25, 0.5, 0.25], [2, 1, 0.75, 0, 0, 0.5, 0.5]]]], np.float32)
    first, none, last = yolo.precision.detections_of(rows, 3, 64)
    assert first.boxes.tolist() == [[16, 8, 48, 24]] and first.classes.tolist() == [3]
    assert len(none.boxes) == 0 and none.boxes.shape == (0, 4)
    assert last.boxes.tolist() == [[-16, -16, 16, 16]] and last.scores.tolist() == [0.75]
    assert (
        len(last.surer(0.75).boxes) == 1 and len(last.surer(0.8).boxes) == len(last.surer(0.8).classes) == 0
    )
    nothing = np.array([[0, *6 * [-1]], [1, *6 * [-1]]], np.float32)
    assert [len(each.boxes) for each in yolo.precision.detections_of(nothing, 2, 64)] == [0, 0]


def test_drawing(yolo: SimpleNamespace) -> None:
    """Edges where the boxes are, in the colours of their classes; labels stay in the picture."""
    picture = np.zeros((3, 100, 100), np.float32)
    boxes = np.array([[20, 40, 60, 80], [70, 1, 99, 30]], np.float32)
    found = yolo.precision.Detections(boxes, np.array([1, 4]), np.array([0.9, 0.6], np.float32))
    drawn = np.asarray(yolo.draw.draw(picture, found, zoom=2))
    assert drawn.shape == (200, 200, 3)
    assert tuple(drawn[120, 40]) == tuple(drawn[160, 80]) == yolo.draw.COLOURS[1]
    assert tuple(drawn[58, 190]) == yolo.draw.COLOURS[4]
    assert not drawn[120, 80].any() and not drawn[190, 10].any()
    assert (drawn == 255).all(axis=2).sum() > 50  # words
    sheet = yolo.draw.tiled([yolo.draw.draw(picture, found, zoom=1)] * 4, 3)
    assert sheet.size == (3 * 100 + 2 * yolo.draw.GAP, 2 * 100 + yolo.draw.GAP)


@pytest.mark.parametrize("shape", [(300, 150), (1, 50), (40, 40)])
def test_pictures_are_fitted(yolo: SimpleNamespace, shape: tuple[int, int]) -> None:
    """In the middle, grey around."""
    from PIL import Image

    fitted = yolo.draw.fitted(Image.new("RGB", shape, (255, 0, 0)), 64)
    assert fitted.shape == (3, 64, 64) and fitted.dtype == np.float32
    red = (fitted[0] == 1) & (fitted[1] == 0)
    assert red[32, 31:33].any()
    assert (red | (np.abs(fitted - 128 / 255) < 1e-6).all(axis=0)).all()
    assert red.mean() == pytest.approx(min(shape) / max(shape), abs=0.02)
