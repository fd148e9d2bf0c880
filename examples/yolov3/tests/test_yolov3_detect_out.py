"""TPU_YOLOV3_DETECT_OUT beside its numpy reference: `tpulayer test yolov3_detect_out`, or pytest."""

import numpy as np

from tpulayer.testing import Array, Case, Param, check_layer

ANCHORS = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326]
MASK = [6, 7, 8, 3, 4, 5, 0, 1, 2]
ONE = np.float32(1)


def sigmoid(x: Array) -> Array:
    """Of -80 to 80; what is beyond gives what these give."""
    y: Array = ONE / (ONE + np.exp(-np.clip(x, -80, 80)))
    return y


def decoded(inputs: list[Array], param: Param, image: int) -> tuple[Array, Array, Array]:
    """Of all boxes of an image (heads, anchors, rows, columns): scores, classes, [boxes, 4]."""
    scores, labels, boxes = [], [], []
    for t, head in enumerate(inputs):
        h, w = head.shape[2:]
        net = param["anchor_scale"][t]
        each = head[image].reshape(param["num_boxes"], -1, h, w)
        for k, x in enumerate(each):
            anchor = param["mask"][t * param["mask_group_size"] + k]
            wide, high = (np.float32(size) for size in param["bias"][2 * anchor : 2 * anchor + 2])
            column, row = np.arange(w, dtype=np.float32), np.arange(h, dtype=np.float32)[:, None]
            scores.append(sigmoid(x[4]) * sigmoid(x[5:].max(0)))
            labels.append(x[5:].argmax(0))
            box = (
                (sigmoid(x[0]) + column) * (ONE / np.float32(w)),
                (sigmoid(x[1]) + row) * (ONE / np.float32(h)),
                np.exp(np.clip(x[2], -80, 80)) * (wide / np.float32(w * net)),
                np.exp(np.clip(x[3], -80, 80)) * (high / np.float32(h * net)),
            )
            boxes.append(np.stack(box, -1))
    return (
        np.concatenate([s.ravel() for s in scores]),
        np.concatenate([s.ravel() for s in labels]),
        np.concatenate([b.reshape(-1, 4) for b in boxes]),
    )


def overlap(box: Array, others: Array) -> Array:
    """Intersection over union of a box and others, centre and size each."""
    low = np.maximum(box[:2] - box[2:] / 2, others[:, :2] - others[:, 2:] / 2)
    high = np.minimum(box[:2] + box[2:] / 2, others[:, :2] + others[:, 2:] / 2)
    both = np.prod(np.maximum(high - low, 0), 1)
    found: Array = both / (np.prod(box[2:]) + np.prod(others[:, 2:], 1) - both)
    return found


def golden(inputs: list[Array], param: Param) -> list[Array]:
    """Detections as rows: image, class, score, x and y of the centre, width, height."""
    rows = []
    images = len(inputs[0])
    for image in range(images):
        scores, labels, boxes = decoded(inputs, param, image)
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > np.float32(param["confidence_threshold"])]
        kept: list[int] = []
        for i in order:
            same = [k for k in kept if labels[k] == labels[i]]
            if not same or overlap(boxes[i], boxes[same]).max() <= np.float32(param["nms_threshold"]):
                kept.append(i)
            if len(kept) == param["keep_top_k"]:
                break
        rows += [[image, labels[i], scores[i], *boxes[i]] for i in kept]
    rows = rows or [[image] + 6 * [-1] for image in range(images)]
    return [np.array(rows, np.float32).reshape(1, 1, -1, 7)]


def param(classes: int, **other: object) -> dict[str, object]:
    """Three anchors of each head, as published."""
    found: dict[str, object] = {
        "num_classes": classes,
        "num_boxes": 3,
        "mask_group_size": 3,
        "keep_top_k": 200,
        "nms_threshold": 0.45,
        "confidence_threshold": 0.5,
        "bias": ANCHORS,
        "anchor_scale": [32, 16, 8],
        "mask": MASK,
    }
    return found | other


def heads(*shapes: tuple[int, ...]) -> list[Array]:
    """Heads with numbers that tell neighbouring cells apart."""
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [(1.5 * rng.standard_normal(shape)).astype(np.float32) for shape in shapes]


def case(inputs: list[Array], param: dict[str, object]) -> Case:
    """Beside other layers it runs as it does alone: always dynamically."""
    return Case(*inputs, param=param, atol=1e-5, rtol=1e-5, modes=("opt 0", "dynamic"))


CASES = [
    case(heads((1, 255, 13, 13), (1, 255, 26, 26), (1, 255, 52, 52)), param(80)),
    case(heads((2, 24, 13, 13), (2, 24, 26, 26)), param(3, keep_top_k=-1)),
    case(heads((3, 18, 7, 5)), param(1, confidence_threshold=0, nms_threshold=0)),
    case(heads((2, 7, 70, 9)), param(2, num_boxes=1, nms_threshold=1, keep_top_k=5)),
    case(heads((1, 2115, 3, 4)), param(700, mask=[8, 1, 0])),
    case(heads((2, 255, 5, 5)), param(80, confidence_threshold=0.999)),  # nothing found
]


def test_yolov3_detect_out() -> None:
    check_layer("yolov3_detect_out", golden, CASES)
