"""PriorBox, a constant by the shapes of its bottoms, and DetectionOutput, a layer of the TPU, of SSD nets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from user_layers.caffe.words import CAFFE, bottom, bottoms
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled

DETECTION_OUTPUT = "TPU_DETECTION_OUTPUT"
_CODE_TYPES = {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3}
_LEAST = float(np.finfo(np.float32).min)
_SAME = 1e-6  # aspect ratios nearer than this are one


# ---- PriorBox ----


@CAFFE.of("PriorBox")
def prior_box(to: Speller, op: Operation) -> None:
    """A constant [1, 2, H * W * boxes * 4]: the boxes around each cell of the first bottom, variances."""
    height, width = _plane(to, bottom(op))
    image = _pair(op, "img_size", "img_h", "img_w") or _plane(to, bottom(op, 1))
    step = _pair(op, "step", "step_h", "step_w")
    if step is None:
        step = (
            float(np.float32(image[0]) / np.float32(height)),
            float(np.float32(image[1]) / np.float32(width)),
        )
    boxes = _boxes_of_a_cell(op.attributes)
    offset = np.float32(op.attributes.get("offset", 0.5))
    middle_x = (np.arange(width, dtype=np.float32) + offset) * np.float32(step[1])
    middle_y = (np.arange(height, dtype=np.float32) + offset) * np.float32(step[0])
    middle = np.empty((height, width, 1, 2))
    middle[..., 0], middle[..., 1] = middle_x[None, :, None], middle_y[:, None, None]
    half = np.asarray(boxes, np.float64) / 2
    extent = np.asarray([image[1], image[0]], np.float64)
    corners = np.concatenate([(middle - half) / extent, (middle + half) / extent], -1).astype(np.float32)
    if op.attributes.get("clip", False):
        corners = np.clip(corners, 0, 1)
    variances = np.broadcast_to(np.asarray(_variances(op.attributes), np.float32), corners.shape)
    made = np.stack([corners.reshape(-1), variances.reshape(-1)])[None]
    to.put(op.outputs[0], to.one("Identity", to.const(made)))


def _plane(to: Speller, name: str) -> tuple[int, int]:
    shape = to.shape(name)
    if len(shape) != 4 or min(shape[2:]) < 1:
        raise Unspelled(
            f"its bottom {name!r} has the shape {list(shape)}; one with height and width is needed"
        )
    return shape[2], shape[3]


def _pair(op: Operation, both: str, high: str, wide: str) -> tuple[float, float] | None:
    """A size that is given for both directions or for each; None where it is not given."""
    given = {
        name: float(op.attributes[name]) for name in (both, high, wide) if op.attributes.get(name) is not None
    }
    if not given:
        return None
    if min(given.values()) <= 0:
        raise Unspelled(f"{', '.join(given)} must be above 0")
    if both in given:
        if len(given) > 1:
            raise Unspelled(
                f"it has {both} and also {' and '.join(list(given)[1:])}; only one way is possible"
            )
        return given[both], given[both]
    if len(given) == 1:
        raise Unspelled(f"{high} and {wide} belong together; it has only {next(iter(given))}")
    return given[high], given[wide]


def _boxes_of_a_cell(attributes: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Widths and heights. Caffe holds a box's smallest and largest size as whole numbers, cut off."""
    smallest, largest = (_positive(attributes, name) for name in ("min_size", "max_size"))
    if not smallest:
        raise Unspelled("it has no min_size")
    if largest and len(largest) != len(smallest):
        raise Unspelled(f"it has {len(smallest)} min_size and {len(largest)} max_size; as many are needed")
    ratios = _ratios(attributes)
    boxes = []
    for index, size in enumerate(smallest):
        least = float(int(size))
        boxes.append((least, least))
        if largest:
            if largest[index] <= size:
                raise Unspelled(f"max_size {largest[index]:g} is not above min_size {size:g}")
            middle = math.sqrt(least * int(largest[index]))
            boxes.append((middle, middle))
        boxes += [(least * math.sqrt(ratio), least / math.sqrt(ratio)) for ratio in ratios]
    return [(float(np.float32(w)), float(np.float32(h))) for w, h in boxes]


def _positive(attributes: Mapping[str, Any], name: str) -> list[float]:
    found = [float(size) for size in attributes.get(name, ())]
    if any(not size > 0 for size in found):
        raise Unspelled(f"{name} must be above 0")
    return found


def _ratios(attributes: Mapping[str, Any]) -> list[float]:
    """Those other than 1, each once; with flip also what turns them round."""
    found = [1.0]
    for ratio in _positive(attributes, "aspect_ratio"):
        if any(abs(ratio - other) < _SAME for other in found):
            continue
        found.append(float(np.float32(ratio)))
        if attributes.get("flip", True):
            found.append(float(np.float32(1 / ratio)))
    return [ratio for ratio in found if abs(ratio - 1) >= _SAME]


def _variances(attributes: Mapping[str, Any]) -> list[float]:
    found = _positive(attributes, "variance")
    if len(found) not in (0, 1, 4):
        raise Unspelled(f"it has {len(found)} numbers of variance; 1 or 4 are possible")
    return found or [0.1]


# ---- DetectionOutput ----


@dataclass(frozen=True)
class Detection:
    """What a DetectionOutput is to do. top_k, keep_top_k: 0 for all."""

    num_classes: int
    share_location: int
    background_label_id: int
    code_type: int
    variance_encoded_in_target: int
    top_k: int
    keep_top_k: int
    nms_threshold: float
    eta: float
    confidence_threshold: float

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Detection:
        """From the fields of detection_output_param; those of saving and showing are about files that Caffe
        writes besides. Raises Unspelled."""
        nms = attributes.get("nms_param", {})
        if not attributes.get("num_classes"):
            raise Unspelled("it has no num_classes")
        code = attributes.get("code_type", "CORNER")
        if code not in _CODE_TYPES:
            raise Unspelled(f"code_type {code} is none of {', '.join(_CODE_TYPES)}")
        found = cls(
            num_classes=int(attributes["num_classes"]),
            share_location=int(attributes.get("share_location", True)),
            background_label_id=max(int(attributes.get("background_label_id", 0)), -1),
            code_type=_CODE_TYPES[code],
            variance_encoded_in_target=int(attributes.get("variance_encoded_in_target", False)),
            top_k=_most(nms, "top_k"),
            keep_top_k=_most(attributes, "keep_top_k"),
            nms_threshold=float(nms.get("nms_threshold", 0.3)),
            eta=float(nms.get("eta", 1.0)),
            confidence_threshold=float(attributes.get("confidence_threshold", _LEAST)),
        )
        if not found.nms_threshold >= 0:
            raise Unspelled(f"nms_threshold {found.nms_threshold:g} is below 0")
        if not 0 < found.eta <= 1:
            raise Unspelled(f"eta {found.eta:g} is not above 0 and at most 1")
        if found.background_label_id >= found.num_classes:
            return cls(**{**vars(found), "background_label_id": -1})  # no class is it
        return found

    def most(self, images: int, priors: int) -> int:
        """The most rows that there may be: the extent for which the net is compiled."""
        candidates = min(self.top_k, priors) if self.top_k else priors
        kept = (self.num_classes - (self.background_label_id >= 0)) * candidates
        return images * max(min(self.keep_top_k, kept) if self.keep_top_k else kept, 1)


def _most(attributes: Mapping[str, Any], name: str) -> int:
    """How many at most; 0: all, which Caffe says by a number below 0."""
    found = int(attributes.get(name, -1))
    if found == 0:
        raise Unspelled(f"{name} 0 leaves no detections; -1 means all")
    return max(found, 0)


@CAFFE.of("DetectionOutput")
def detection_output(to: Speller, op: Operation) -> None:
    """The layer TPU_DETECTION_OUTPUT."""
    names = bottoms(op)
    shape = _detection_shape(op.attributes, [to.shape(name) for name in names])
    layer = Operation(DETECTION_OUTPUT, op.name, names, op.outputs)
    detection = Detection.of(op.attributes)
    (made,) = to.own_layer(layer, [to.own(name) for name in names], vars(detection))
    images, priors = to.shape(names[0])[0], to.shape(names[2])[-1] // 4
    to.declare(made, (1, 1, detection.most(images, priors), 7))
    to.declare(made, shape)
    to.put(op.outputs[0], made)


def _detection_shape(attributes: Mapping[str, Any], shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The largest shape that the result may have, by those of the bottoms: what the net is compiled for.
    Raises Unspelled where they do not belong together."""
    detection = Detection.of(attributes)
    loc, conf, prior = shapes
    if len(prior) != 3 or prior[0] != 1 or prior[2] % 4:
        raise Unspelled(f"its priors have the shape {list(prior)}; [1, 2, priors * 4] is needed")
    priors = prior[2] // 4
    sets = 1 if detection.share_location else detection.num_classes
    for what, shape, wanted in (
        ("locations", loc, priors * 4 * sets),
        ("confidences", conf, priors * detection.num_classes),
    ):
        if math.prod(shape[1:]) != wanted or shape[0] != loc[0]:
            raise Unspelled(
                f"its {what} have the shape {list(shape)}; {priors} priors and "
                f"{detection.num_classes} classes need [{loc[0]}, {wanted}]"
            )
    return (1, 1, detection.most(loc[0], priors), 7)
