"""ONNX Resize and Upsample, and other weighted sums of pixels: one axis after the other."""

from __future__ import annotations

import numpy as np

from firmware_sim.errors import UsageError
from user_layers.onnx.lower import Lowering, Unsupported, axis_of, converts
from user_layers.onnx.model import Array, Node
from user_layers.onnx.pixel_sums import PIXEL_SUMS
from user_layers.onnx.resize import Resize, upsampling, windows


@converts("Resize", "Upsample")
def resize(to: Lowering, node: Node) -> None:
    """Whole factors of h and w in one layer where pixels repeat; else gathered or weighted, axis by axis.

    Raises Unsupported for an aspect ratio to be kept and for what `resize.Resize` does not know.
    """
    extents, lengths = to.shape(node.inputs[0]), to.shape(node.outputs[0])
    old = node.op == "Upsample" or to.model.opset < 11
    if node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported("keep_aspect_ratio_policy")
    axes = [axis_of(int(axis), len(extents)) for axis in node.attributes.get("axes", range(len(extents)))]
    scales = to.option(node, "scales", 1 if old else 2)
    roi = None if old else to.known(node, 1)
    steps = []
    try:
        for i, axis in enumerate(axes):
            plan = _axis(node, extents[axis], lengths[axis], _at(scales, i), _roi(roi, i, len(axes)), old)
            if plan.coordinates == "tf_crop_and_resize" or extents[axis] != lengths[axis]:
                steps.append((axis, plan.gathered(), plan))
    except UsageError as error:
        raise Unsupported(error.message) from None
    tensor = to.tensor(node.inputs[0])
    if not steps:
        to.simple("TPU_COPY", node, [tensor], {"reserved": 0})
    repeated = upsampling({axis: plan for axis, _, plan in steps}, len(extents))
    if repeated is not None:
        to.simple("TPU_UPSAMPLE", node, [tensor], repeated)
        return
    for number, (axis, gathered, plan) in enumerate(steps):
        if gathered is not None:
            op, constants = "TPU_GATHER", [gathered]
            param = {"axis": axis, "scalar": 0}
        else:
            op, constants = "TPU_RESIZE", list(plan.taps())
            param = {"axis": axis, **windows(constants[0], extents[axis])}
            to.need_float(node.inputs[0])
        names = [tensor, *(to.add_const(values, f"{node.outputs[0]}:taps") for values in constants)]
        if number + 1 == len(steps):
            to.simple(op, node, names, param)
        else:
            tensor = to.between(op, node, names, param)


@converts(PIXEL_SUMS)
def pixel_sums(to: Lowering, node: Node) -> None:
    """Rows, then columns: the numbers of each that are not 0 as taps."""
    to.need_float(node.inputs[0])
    tensor = to.tensor(node.inputs[0])
    for axis, name in ((2, node.inputs[1]), (3, node.inputs[2])):
        matrix = to.known(node, axis - 1)
        assert matrix is not None  # the pass that made the node made this
        counts = np.count_nonzero(matrix, 1)
        taps = int(counts.max())
        used = np.arange(taps)[:, None] < counts
        order = np.argsort(matrix == 0, 1, kind="stable")[:, :taps].T.astype(np.int32)
        indices = np.where(used, order, order[0])  # others weigh nothing
        weights = np.where(used, np.take_along_axis(matrix.T, indices, 0), 0)
        param = {"axis": axis, **windows(indices, matrix.shape[1])}
        consts = [to.add_const(values, f"{name}:taps") for values in (indices, weights.astype(np.float32))]
        if axis == 3:
            to.simple("TPU_RESIZE", node, [tensor, *consts], param)
        else:
            tensor = to.between("TPU_RESIZE", node, [tensor, *consts], param)


def _at(values: Array | None, index: int) -> float | None:
    return float(values[index]) if values is not None and values.size else None


def _roi(values: Array | None, index: int, axes: int) -> tuple[float, float]:
    if values is None or not values.size:
        return 0.0, 1.0
    return float(values[index]), float(values[index + axes])


def _axis(
    node: Node, extent: int, length: int, scale: float | None, roi: tuple[float, float], old: bool
) -> Resize:
    get = node.attributes.get
    return Resize(
        extent,
        length,
        scale,
        mode=str(get("mode", "nearest")),
        coordinates="asymmetric" if old else str(get("coordinate_transformation_mode", "half_pixel")),
        nearest="floor" if old else str(get("nearest_mode", "round_prefer_floor")),
        cubic_a=float(get("cubic_coeff_a", -0.75)),
        exclude_outside=bool(get("exclude_outside", 0)),
        antialias=bool(get("antialias", 0)),
        roi=roi,
        extrapolation=float(get("extrapolation_value", 0.0)),
    )
