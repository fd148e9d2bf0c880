"""DetectionOutput as Caffe's ssd branch defines it, slow and plain, in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ALL = float(np.finfo(np.float32).min)  # a threshold that every number is above
CORNER, CENTER_SIZE, CORNER_SIZE = 1, 2, 3


class Nearly(Exception):
    """An overlap is so near the threshold that rounding decides."""


def param(num_classes: int, **given: Any) -> dict[str, Any]:
    """All parameters of the layer; those not given as Caffe's schema has them."""
    usual = {
        "num_classes": num_classes,
        "share_location": 1,
        "background_label_id": 0,
        "code_type": CORNER,
        "variance_encoded_in_target": 0,
        "top_k": 0,
        "keep_top_k": 0,
        "nms_threshold": 0.3,
        "eta": 1.0,
        "confidence_threshold": ALL,
    }
    assert not given.keys() - usual.keys()
    return {**usual, **given}


def detections(loc: Array, conf: Array, prior: Array, p: dict[str, Any], *, margin: float = 0) -> Array:
    """Rows of image, class, score, xmin, ymin, xmax, ymax: [1, 1, rows, 7].

    loc [N, priors * 4 * (1 or classes)], conf [N, priors * classes], prior [1, 2, priors * 4]. Raises Nearly
    where an overlap is within margin of the threshold.
    """
    images, priors, classes = loc.shape[0], prior.shape[2] // 4, p["num_classes"]
    sets = 1 if p["share_location"] else classes
    where = loc.reshape(images, priors, sets, 4)
    scores = conf.reshape(images, priors, classes)
    corners, variances = prior[0, 0].reshape(priors, 4), prior[0, -1].reshape(priors, 4)
    rows: list[list[Any]] = []
    for image in range(images):
        found: list[tuple[np.float32, int, int]] = []
        for label in range(classes):
            if label == p["background_label_id"]:
                continue
            boxes = decoded(where[image, :, label % sets], corners, variances, p)
            found += [
                (scores[image, i, label], label, i) for i in kept(boxes, scores[image, :, label], p, margin)
            ]
        if 0 < p["keep_top_k"] < len(found):
            best = sorted(range(len(found)), key=lambda at: -found[at][0])[: p["keep_top_k"]]
            found = [found[at] for at in sorted(best)]
        for score, label, i in found:
            box = decoded(where[image, :, label % sets], corners, variances, p)[i]
            rows.append([image, label, score, *box])
    if not rows:
        rows = [[image, *[-1] * 6] for image in range(images)]
    return np.asarray(rows, np.float32)[None, None]


def decoded(loc: Array, prior: Array, variances: Array, p: dict[str, Any]) -> Any:
    """Boxes [priors, 4] from the predictions of one class [priors, 4]."""
    if not p["variance_encoded_in_target"]:
        loc = variances * loc
    if p["code_type"] == CORNER:
        return prior + loc
    size = prior[:, 2:] - prior[:, :2]
    if p["code_type"] == CORNER_SIZE:
        return prior + loc * np.concatenate([size, size], 1)
    middle = loc[:, :2] * size + (prior[:, :2] + prior[:, 2:]) / np.float32(2)
    half = np.exp(loc[:, 2:]) * size / np.float32(2)
    return np.concatenate([middle - half, middle + half], 1)


def kept(boxes: Array, scores: Array, p: dict[str, Any], margin: float) -> list[int]:
    """The priors of one class that stay, the best one first."""
    order = [
        i for i in np.argsort(-scores, kind="stable") if scores[i] > np.float32(p["confidence_threshold"])
    ]
    if p["top_k"]:
        order = order[: p["top_k"]]
    threshold, eta = np.float32(p["nms_threshold"]), np.float32(p["eta"])
    found: list[int] = []
    for i in order:
        shares = [overlap(boxes[i], boxes[k]) for k in found]
        if margin and any(abs(share - threshold) < margin for share in shares):
            raise Nearly
        if any(share > threshold for share in shares):
            continue
        found.append(int(i))
        if eta < 1 and threshold > np.float32(0.5):
            threshold *= eta
    return found


def overlap(a: Array, b: Array) -> Any:
    """What two boxes share, of what they cover together."""
    width = np.minimum(a[2], b[2]) - np.maximum(a[0], b[0])
    height = np.minimum(a[3], b[3]) - np.maximum(a[1], b[1])
    if not (width > 0 and height > 0):
        return np.float32(0)
    shared = width * height
    return shared / (area(a) + area(b) - shared)


def area(box: Array) -> Any:
    """Of a box whose sides are turned round: 0."""
    if box[2] < box[0] or box[3] < box[1]:
        return np.float32(0)
    return (box[2] - box[0]) * (box[3] - box[1])
