"""What YOLOv3 is trained by: how wrong the answers of its heads are.

As published, objectness and classes are compared by binary cross-entropy, and anchors that answer for nothing
but predict a box near an object are not punished. Boxes are compared by their overlap (generalised
intersection over union) instead of by squared differences, which trains faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from network import BOXES, MASK, STRIDES
from targets import Targets
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

# A predicted box this near to an object is not punished for saying that something is there.
NEAR = 0.6
# Weights of the three parts.
BOX, OBJECT, CLASS = 3.0, 1.0, 0.5


def loss(
    heads: Sequence[Tensor], wanted: Sequence[Targets], truths: Sequence[Tensor], anchors: Sequence[float]
) -> Tensor:
    """The mean loss per object that is answered for.

    heads: [n, BOXES * (5 + classes), cells, cells]. truths: each picture's boxes [objects, 4] in pixels.
    """
    pairs = torch.tensor(anchors, dtype=torch.float32).reshape(-1, 2)
    answers = max(1, sum(len(w.where) for w in wanted))
    total = torch.zeros(())
    for head, stride in enumerate(STRIDES):
        n, channels, cells, _ = heads[head].shape
        raw = heads[head].reshape(n, BOXES, channels // BOXES, cells, cells).permute(0, 1, 3, 4, 2)
        own = pairs[list(MASK[BOXES * head : BOXES * (head + 1)])]
        boxes = _boxes(raw, own, stride)
        w = wanted[head]
        at = tuple(torch.from_numpy(w.where).T)
        there = torch.zeros(raw.shape[:4])
        there[at] = 1
        counts = torch.maximum(there, (_nearest(boxes.detach(), truths) < NEAR).float())
        objects = binary_cross_entropy_with_logits(raw[..., 4], there, weight=counts, reduction="sum")
        total = total + OBJECT * objects
        if len(w.where):
            boxes_apart = 1 - _generalised_iou(boxes[at], torch.from_numpy(w.boxes))
            logits = raw[at][:, 5:]
            kinds = torch.zeros_like(logits)
            kinds[torch.arange(len(kinds)), torch.from_numpy(w.classes)] = 1
            classes = binary_cross_entropy_with_logits(logits, kinds, reduction="sum")
            total = total + BOX * boxes_apart.sum() + CLASS * classes
    return total / answers


def _boxes(raw: Tensor, anchors: Tensor, stride: int) -> Tensor:
    """[n, anchors, rows, columns, 4]: left, top, right, bottom in pixels, of what a head says."""
    columns = torch.arange(raw.shape[3])[None, :].expand(raw.shape[2:4])
    rows = torch.arange(raw.shape[2])[:, None].expand(raw.shape[2:4])
    middle = (raw[..., 0:2].sigmoid() + torch.stack([columns, rows], -1)) * stride
    # exp(5) is 148 times an anchor: beyond it a gradient would explode, and no box is that large
    half = raw[..., 2:4].clamp(max=5).exp() * anchors[:, None, None] / 2
    return torch.cat([middle - half, middle + half], -1)


def _nearest(boxes: Tensor, truths: Sequence[Tensor]) -> Tensor:
    """How much each box overlaps the object nearest to it: [n, anchors, rows, columns]."""
    rows = []
    for mine, truth in zip(boxes, truths, strict=True):
        common, together, _ = _areas(mine[..., None, :], truth)
        rows.append((common / together).amax(-1))
    return torch.stack(rows)


def _generalised_iou(a: Tensor, b: Tensor) -> Tensor:
    """Row by row; -1 for boxes far apart, 1 for equal ones."""
    common, together, around = _areas(a, b)
    return common / together - (around - together) / around


def _areas(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of intersection, union, and the smallest box around both."""
    common = (
        (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    )
    around = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    areas = [(x[..., 2:] - x[..., :2]).prod(-1) for x in (a, b)]
    return common, (areas[0] + areas[1] - common).clamp(min=1e-6), around.clamp(min=1e-6)
