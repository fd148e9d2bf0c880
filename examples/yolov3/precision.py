"""How good detections are: average precision, as the VOC challenge measures it, area under the curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Detections(NamedTuple):
    """What was found in one picture, in any order."""

    boxes: Floats  # [n, 4]: left, top, right, bottom
    classes: NDArray[np.int64]  # [n]
    scores: Floats  # [n], higher is surer

    def surer(self, least: float) -> Detections:
        """Those with at least this score."""
        kept = self.scores >= least
        return Detections(self.boxes[kept], self.classes[kept], self.scores[kept])


def detections_of(rows: Floats, images: int, size: int) -> list[Detections]:
    """What YOLOV3_DETECT_OUT found, by image, in pixels.

    rows: [..., 7], each image, class, score, and in parts of the picture x and y of the middle, width and
    height; a row with class -1 says that there is nothing.
    """
    rows = rows.reshape(-1, 7)
    found = []
    for image in range(images):
        mine = rows[(rows[:, 0] == image) & (rows[:, 1] >= 0)]
        middle, half = mine[:, 3:5] * np.float32(size), mine[:, 5:7] * np.float32(size / 2)
        boxes = np.concatenate([middle - half, middle + half], axis=1)
        found.append(Detections(boxes, mine[:, 1].astype(np.int64), mine[:, 2]))
    return found


class Truth(NamedTuple):
    """What is in one picture."""

    boxes: Floats  # [n, 4]: left, top, right, bottom
    classes: NDArray[np.int64]  # [n]


def iou(a: Floats, b: Floats) -> Floats:
    """Intersection over union of boxes [n, 4] and [m, 4] (left, top, right, bottom), [n, m]."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.maximum(high - low, 0).prod(axis=2)
    areas = [np.maximum(x[:, 2:] - x[:, :2], 0).prod(axis=1) for x in (a, b)]
    together = areas[0][:, None] + areas[1][None, :] - common
    result: Floats = (common / np.maximum(together, 1e-9)).astype(np.float32)
    return result


def average_precisions(
    found: Sequence[Detections], truths: Sequence[Truth], classes: int, overlap: float = 0.5
) -> list[float]:
    """The average precision of each class, 0 to 1; nan for a class that no picture has.

    found and truths: one per picture. A detection is right when the object of its class that it overlaps most
    does so by `overlap` (intersection over union), and no surer detection took that object.
    """
    return [_average_precision(found, truths, kind, overlap) for kind in range(classes)]


def _average_precision(
    found: Sequence[Detections], truths: Sequence[Truth], kind: int, overlap: float
) -> float:
    scores: list[float] = []
    right: list[bool] = []
    objects = 0
    for detections, truth in zip(found, truths, strict=True):
        wanted = truth.boxes[truth.classes == kind]
        objects += len(wanted)
        mine = detections.classes == kind
        order = np.argsort(-detections.scores[mine], kind="stable")
        overlaps = iou(detections.boxes[mine][order], wanted)
        taken: set[int] = set()
        for row in overlaps:
            best = int(row.argmax()) if row.size else -1
            hit = best >= 0 and row[best] >= overlap and best not in taken
            if hit:
                taken.add(best)
            right.append(hit)
        scores += detections.scores[mine][order].tolist()
    if not objects:
        return float("nan")
    sorted_right = np.array(right, bool)[np.argsort(-np.array(scores), kind="stable")]
    hits = np.cumsum(sorted_right)
    precision = hits / np.arange(1, len(hits) + 1)
    # the best precision at this recall or a higher one
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best_from_here[sorted_right].sum() / objects)
