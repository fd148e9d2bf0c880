"""Extents of what Resize makes by scales: onnxruntime multiplies in single precision, ONNX's inference in
double, so that six elements times 3.3333333 are twenty in the one and nineteen in the other. And of pools in
ceil_mode, whose last window onnxruntime leaves out where it would begin behind the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from user_layers.onnx.load import infer_values
from user_layers.onnx.model import Model, Node
from user_layers.onnx.window_axes import axes_of, windows_along

_POOLS = ("MaxPool", "AveragePool", "LpPool")


def with_lengths(model: Model) -> Model:
    """The model with the extents that onnxruntime makes, and with all shapes behind them."""
    for at, node in enumerate(model.nodes):
        shape = _shape(model, node)
        if shape is None or shape == model.value(node.outputs[0]).fixed:
            continue
        values = {**model.values, node.outputs[0]: replace(model.value(node.outputs[0]), shape=shape)}
        behind = _behind(model, node)
        later = [other for other in model.nodes[at + 1 :] if not behind.isdisjoint(other.outputs)]
        for other in later:
            for name in other.makes:
                values[name] = replace(model.value(name), shape=None)
        outputs = tuple(values.get(value.name, value) for value in model.outputs)
        model = infer_values(replace(model, values=values, outputs=outputs), later)
    return model


def _shape(model: Model, node: Node) -> tuple[int, ...] | None:
    """What a pool, or a Resize by constant scales, makes of an input with a known shape; None where it is no
    such."""
    if node.is_a(*_POOLS) and node.attributes.get("ceil_mode", 0):
        return _pooled(model, node)
    if not node.is_a("Resize", "Upsample") or node.attributes.get("axes"):
        return None
    at = 1 if node.op == "Upsample" or model.opset < 11 else 2
    scales = model.constants.get(node.inputs[at]) if len(node.inputs) > at else None
    before = model.value(node.inputs[0]).fixed
    if scales is None or before is None or scales.size != len(before):
        return None
    if node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return None  # which goes by its region, too
    return tuple(int(np.float32(n) * np.float32(s)) for n, s in zip(before, scales.ravel(), strict=True))


def _pooled(model: Model, node: Node) -> tuple[int, ...] | None:
    before, kernel = model.value(node.inputs[0]).fixed, node.attributes.get("kernel_shape")
    if before is None or kernel is None or len(kernel) != len(before) - 2:
        return None
    axes = axes_of(node, before[2:], tuple(int(n) for n in kernel))
    return *before[:2], *(windows_along(axis, n) for axis, n in zip(axes, before[2:], strict=True))


def _behind(model: Model, node: Node) -> set[str]:
    """What depends on what a node makes."""
    found = set(node.makes)
    for other in model.nodes:
        if not found.isdisjoint(other.reads):
            found.update(other.makes)
    return found - set(node.makes)
