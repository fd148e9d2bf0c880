"""Caffe's layer TPUYolov3DetectOut becomes the layer TPU_YOLOV3_DETECT_OUT."""

from __future__ import annotations

from typing import Any

from tpulayer.caffe import CaffeLayer, caffe_layer

HEADS = 3
ANCHORS = 9


@caffe_layer("TPUYolov3DetectOut")
def yolov3_detect_out(graph: Any, layer: CaffeLayer) -> None:
    p = layer.message("yolov3_detect_out_param")
    heads = len(layer.bottoms)
    if heads > HEADS:
        raise layer.error(f"it has {heads} bottoms; the heads of a network are 1 to {HEADS}")
    boxes = p.integer("num_boxes", 3, least=1)
    group = p.integer("mask_group_size", boxes, least=boxes)
    param = {
        "num_classes": p.integer("num_classes", least=1),
        "num_boxes": boxes,
        "mask_group_size": group,
        "keep_top_k": p.integer("keep_top_k", 200),
        "nms_threshold": p.number("nms_threshold", 0.45),
        "confidence_threshold": p.number("confidence_threshold", 0.5),
        "bias": p.numbers("biases"),
        "anchor_scale": p.numbers("anchors_scale"),
        "mask": p.integers("mask"),
    }
    graph.add_tpu_layer("TPU_YOLOV3_DETECT_OUT", layer.bottoms, param, layer.tops)
