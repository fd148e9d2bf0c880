"""Which cells and anchors of YOLOv3 answer for the objects of a scene.

As published a cell answers for the objects whose middle lies in it, by the anchor whose shape is most like
the object's; here also by every other anchor of a similar shape, which trains faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from network import BOXES, MASK, STRIDES
from numpy.typing import NDArray
from scenes import Floats, Scene

# An anchor has a similar shape when it and the object, laid upon each other, overlap by this.
SIMILAR = 0.55


@dataclass(frozen=True)
class Targets:
    """What a head should answer. Rows are answers: an object may have several, or none in this head."""

    where: NDArray[np.int64]  # [answers, 4]: picture, anchor of the head, row, column
    boxes: Floats  # [answers, 4]: left, top, right, bottom in pixels
    classes: NDArray[np.int64]  # [answers]


def shape_overlap(sizes: Floats, anchors: Floats) -> Floats:
    """Intersection over union of sizes [n, 2] and anchors [m, 2] with a common corner, [n, m]."""
    common = np.minimum(sizes[:, None], anchors[None]).prod(2)
    together = sizes.prod(1)[:, None] + anchors.prod(1)[None] - common
    overlap: Floats = (common / together).astype(np.float32)
    return overlap


def targets(batch: Sequence[Scene], anchors: Sequence[float], size: int) -> list[Targets]:
    """Who answers for the objects of these scenes, by head."""
    pairs = np.asarray(anchors, np.float32).reshape(-1, 2)
    # by head and place, so that of two objects in one place the first has it
    answers: list[dict[tuple[int, ...], tuple[Floats, int]]] = [{} for _ in STRIDES]
    for picture, scene in enumerate(batch):
        overlaps = shape_overlap(scene.boxes[:, 2:] - scene.boxes[:, :2], pairs)
        middles = (scene.boxes[:, 2:] + scene.boxes[:, :2]) / 2
        for box, kind, middle, overlap in zip(scene.boxes, scene.classes, middles, overlaps, strict=True):
            similar = (overlap >= SIMILAR) | (overlap == overlap.max())
            for slot in np.flatnonzero(similar[list(MASK)]):
                head, nth = divmod(int(slot), BOXES)
                column, row = np.minimum(middle // STRIDES[head], size // STRIDES[head] - 1).astype(int)
                answers[head].setdefault((picture, nth, row, column), (box, int(kind)))
    return [
        Targets(
            np.array(list(found), np.int64).reshape(-1, 4),
            np.array([box for box, _ in found.values()], np.float32).reshape(-1, 4),
            np.array([kind for _, kind in found.values()], np.int64),
        )
        for found in answers
    ]
