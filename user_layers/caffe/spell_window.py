"""How Caffe's layers with windows are spelled: convolutions, pools, what resizes planes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from user_layers.caffe.words import CAFFE, axis_of, blob, bottom, bottoms, filled
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled

# ---- convolutions ----


def _each(op: Operation, name: str, count: int, default: int | None) -> list[int]:
    """A repeated field: once for all axes or once for each, or two fields NAME_h and NAME_w."""
    given = op.attributes.get("kernel_size" if name == "kernel" else name, ())
    found = [int(n) for n in (given if isinstance(given, tuple) else (given,))]
    pair = [op.attributes.get(f"{name}_{axis}") for axis in "hw"]
    if any(pair):
        if count != 2:
            raise Unspelled(f"{name}_h and {name}_w are for two dimensions, and there are {count}")
        if found:
            raise Unspelled(f"it has both {name} and {name}_h or {name}_w")
        return [int(n or 0) for n in pair]
    if not found:
        if default is None:
            raise Unspelled(f"it has no {name}")
        return [default] * count
    if len(found) not in (1, count):
        raise Unspelled(f"it has {len(found)} numbers for {name}, and {count} dimensions")
    return found if len(found) == count else found * count


@CAFFE.of("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Deconvolution")
def convolution(to: Speller, op: Operation) -> None:
    """Of one or several bottoms by the same weights; what stands before `axis` are images."""
    for name, top in zip(bottoms(op), op.outputs, strict=True):
        to.put(top, _convolved(to, op, name))


def _convolved(to: Speller, op: Operation, name: str) -> str:
    shape, axis = filled(to, name), axis_of(to, name, int(op.attributes.get("axis", 1)))
    channels, extents = shape[axis], shape[axis + 1 :]
    if not extents:
        raise Unspelled(f"there are no dimensions behind axis {axis} of {shape}")
    count, outputs = len(extents), int(op.attributes["num_output"])
    kernel, strides = _each(op, "kernel", count, None), _each(op, "stride", count, 1)
    pads, dilations = _each(op, "pad", count, 0), _each(op, "dilation", count, 1)
    deep = op.kind in ("ConvolutionDepthwise", "DepthwiseConvolution")  # group may be left out there
    group = channels if deep else int(op.attributes.get("group", 1))
    if min(*kernel, *strides, *dilations, group, outputs) < 1:
        raise Unspelled("a number of kernel, stride, dilation, group or num_output is not above 0")
    if channels % group or outputs % group:
        raise Unspelled(f"its {channels} channels and {outputs} outputs are not multiples of {group} groups")
    transposed = op.kind == "Deconvolution"
    for extent, size, stride, pad, dilation in zip(extents, kernel, strides, pads, dilations, strict=True):
        reach = dilation * (size - 1) + 1
        room = stride * (extent - 1) + reach - 2 * pad - 1 if transposed else extent + 2 * pad - reach
        if room < 0:
            raise Unspelled(f"its windows of {reach} do not fit {extent} with pad {pad}")
    sides = (channels, outputs // group) if transposed else (outputs, channels // group)
    operands = [blob(to, op, 0, (*sides, *kernel))]
    if op.attributes.get("bias_term", True):
        operands.append(blob(to, op, 1, (outputs,)))
    value = to.own(name)
    if axis != 1:
        value = to.one("Reshape", value, to.const([math.prod(shape[:axis]), *shape[axis:]], np.int64))
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": [*pads, *pads]}
    attributes |= {"dilations": dilations, "group": group}
    made = to.one("ConvTranspose" if transposed else "Conv", value, *operands, **attributes)
    if axis == 1:
        return made
    # -1 stands for what a window makes of the only dimension; of several ones each is computed.
    lengths = [
        stride * (extent - 1) + dilation * (size - 1) + 1 - 2 * pad
        if transposed
        else (extent + 2 * pad - dilation * (size - 1) - 1) // stride + 1
        for extent, size, stride, pad, dilation in zip(extents, kernel, strides, pads, dilations, strict=True)
    ]
    return to.one("Reshape", made, to.const([*shape[:axis], outputs, *lengths], np.int64))


# ---- pools ----


@dataclass(frozen=True)
class _Pool:
    """Windows over h and w. up: the last ones may be incomplete, as Caffe's usually are."""

    method: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    up: bool = True

    def attributes(self, extents: tuple[int, ...]) -> dict[str, Any]:
        """Those of an ONNX node over planes with these extents. Raises Unspelled for windows that ONNX has
        not, or Caffe neither."""
        axes = [self._axis(extent, i) for i, extent in enumerate(extents)]
        up = any(axis.incomplete for axis in axes) or (self.up and not any(axis.dropped for axis in axes))
        after = [axis.after if up and axis.dropped else pad for axis, pad in zip(axes, self.pad, strict=True)]
        if min(after) < 0:
            raise Unspelled("its last windows are incomplete along one axis and left out along the other")
        return {
            "kernel_shape": [axis.kernel for axis in axes],
            "strides": list(self.stride),
            "pads": [*self.pad, *after],
            "ceil_mode": int(up),
        }

    def _axis(self, extent: int, i: int) -> _Axis:
        size, stride, pad = self.kernel[i], self.stride[i], self.pad[i]
        if size < 1 or stride < 1 or pad >= size:
            raise Unspelled(f"a kernel of {size} with stride {stride} and pad {pad}")
        room = extent + 2 * pad - size
        last = -(-room // stride) if self.up else room // stride
        dropped = any(self.pad) and last * stride >= extent + pad  # Caffe looks at both axes' pads
        last -= dropped
        if last < 0:
            raise Unspelled(f"its windows of {size} do not fit {extent} with pad {pad}")
        if last * stride - pad >= extent:
            raise Unspelled(
                f"its last window of {size} begins behind the {extent} elements (stride {stride})"
            )
        kernel = min(size, extent + 2 * pad)  # one window that is larger than the plane has the same elements
        return _Axis(
            kernel, room < last * stride and kernel == size, dropped, last * stride + size - extent - pad
        )


@dataclass(frozen=True)
class _Axis:
    """Windows along one axis. incomplete: the last one. dropped: the last one, which would begin behind the
    elements. after: the pad with which there is none left to be dropped."""

    kernel: int
    incomplete: bool
    dropped: bool
    after: int


def _pooled(to: Speller, value: str, pool: _Pool, extents: tuple[int, ...]) -> str:
    if pool.method == "MAX":
        return to.one("MaxPool", value, **pool.attributes(extents))
    if pool.method != "AVE":
        raise Unspelled(f"its method is {pool.method}, which draws random numbers")
    # Caffe divides by the part of a window that lies in the padded plane.
    return to.one("AveragePool", value, count_include_pad=1, **pool.attributes(extents))


@CAFFE.of("Pooling")
def pooling(to: Speller, op: Operation) -> None:
    """Maxima or averages; the second top of maxima has their indices in the plane."""
    name, get = bottom(op), op.attributes.get
    shape, method = filled(to, name), str(get("pool", "MAX"))
    if len(shape) != 4:
        raise Unspelled(f"{shape} has {len(shape)} dimensions, not 4")
    if get("global_pooling", False):
        kernel, stride, pad = shape[2:], (1, 1), (0, 0)
    else:
        kernel = (int(get("kernel_h") or 0), int(get("kernel_w") or 0))
        if get("kernel_size"):
            kernel = (int(get("kernel_size", 0)),) * 2
        if min(kernel) < 1:
            raise Unspelled("it has no kernel_size, and not both of kernel_h and kernel_w")
        stride = (int(get("stride_h") or get("stride", 1)), int(get("stride_w") or get("stride", 1)))
        pad = (int(get("pad_h") or get("pad", 0)), int(get("pad_w") or get("pad", 0)))
    up = get("round_mode", "CEIL") == "CEIL" and bool(get("ceil_mode", True))
    pool = _Pool(method, kernel, stride, pad, up)
    if len(op.outputs) > 1:
        _with_indices(to, op, pool)
    elif get("global_pooling", False) and method in ("MAX", "AVE"):
        whole = "GlobalMaxPool" if method == "MAX" else "GlobalAveragePool"
        to.put(op.outputs[0], to.one(whole, to.own(name)))
    else:
        to.put(op.outputs[0], _pooled(to, to.own(name), pool, shape[2:]))


def _with_indices(to: Speller, op: Operation, pool: _Pool) -> None:
    if pool.method != "MAX":
        raise Unspelled(f"it has 2 tops, and its method is {pool.method}")
    value, shape = to.own(bottom(op)), to.shape(bottom(op))
    to.put(op.outputs[0], _pooled(to, value, pool, shape[2:]))
    # A node of its own: that with indices is for the host, and the maxima need not wait for it.
    _, where = to.node("MaxPool", [value], pool.attributes(shape[2:]), outputs=2)
    inside = to.one("Mod", where, to.const(shape[2] * shape[3], np.int64))  # ONNX counts over all planes
    to.put(op.outputs[1], to.one("Cast", inside, to=1))


@CAFFE.of("SPP")
def pyramid(to: Speller, op: Operation) -> None:
    """Pools with 1, 2, 4, ... windows along h and w, one after the other as a row for each image."""
    name, method = bottom(op), str(op.attributes.get("pool", "MAX"))
    shape, levels = filled(to, name), int(op.attributes["pyramid_height"])
    if len(shape) != 4 or levels < 1:
        raise Unspelled(f"{levels} levels of {shape}, which has to have 4 dimensions")
    made = []
    for level in range(levels):
        bins = 2**level
        kernel = (-(-shape[2] // bins), -(-shape[3] // bins))
        pad = ((kernel[0] * bins - shape[2] + 1) // 2, (kernel[1] * bins - shape[3] + 1) // 2)
        pool = _Pool(method, kernel, kernel, pad)
        made.append(_pooled(to, to.own(name), pool, shape[2:]))
    if levels > 1:
        made = [to.one("Concat", *(to.one("Flatten", value, axis=1) for value in made), axis=1)]
    to.put(op.outputs[0], made[0])


@CAFFE.of("LRN")
def lrn(to: Speller, op: Operation) -> None:
    """Over neighbouring channels, or over a square of each plane."""
    name, get = bottom(op), op.attributes.get
    size, alpha, beta = int(get("local_size", 5)), float(get("alpha", 1)), float(get("beta", 0.75))
    if size % 2 == 0 or to.rank(name) != 4:
        raise Unspelled(f"a local_size of {size} (odd ones are) for {to.rank(name)} dimensions (4 are)")
    value, region = to.own(name), get("norm_region", "ACROSS_CHANNELS")
    if region == "ACROSS_CHANNELS":
        made = to.one("LRN", value, size=size, alpha=alpha, beta=beta, bias=float(get("k", 1)))
    elif region == "WITHIN_CHANNEL":  # without k
        pool = _Pool("AVE", (size, size), (1, 1), (size // 2, size // 2), up=False)
        squares = _pooled(to, to.one("Mul", value, value), pool, filled(to, name)[2:])
        mean = to.one("Mul", squares, to.const(alpha, np.float32))
        base = to.one("Add", mean, to.const(1, np.float32))
        made = to.one("Mul", value, to.one("Pow", base, to.const(-beta, np.float32)))
    else:
        raise Unspelled(f"its norm_region is {region}")
    to.put(op.outputs[0], made)


@CAFFE.of("ROIPooling")
def roi_pooling(to: Speller, op: Operation) -> None:
    """Maxima over windows of regions: image, left, top, right, bottom for each."""
    regions = bottom(op, 1)
    pooled = [int(op.attributes.get(name, 0)) for name in ("pooled_h", "pooled_w")]
    if to.rank(bottom(op)) != 4 or min(pooled) < 1 or math.prod(to.shape(regions)[1:]) != 5:
        raise Unspelled(f"{pooled} windows in regions {to.shape(regions)} of {to.shape(bottom(op))}")
    value = to.own(regions)
    if to.rank(regions) != 2:
        value = to.one("Flatten", value, axis=1)
    attributes = {"pooled_shape": pooled, "spatial_scale": float(op.attributes.get("spatial_scale", 1))}
    to.put(op.outputs[0], to.one("MaxRoiPool", to.own(bottom(op)), value, **attributes))


# ---- resizing ----


def _resized(to: Speller, value: str, shape: tuple[int, ...], **attributes: Any) -> str:
    return to.node("Resize", [value, "", "", to.const(shape, np.int64)], attributes)[0]


@CAFFE.of("Upsample")
def upsample(to: Speller, op: Operation) -> None:
    """Each pixel `scale` times along the last two dimensions; with a mask each where it was the largest."""
    names, get = bottoms(op), op.attributes.get
    shape = filled(to, bottom(op))
    if len(names) > 1:
        _unpooled(to, op, shape)
        return
    other = [
        name for name in ("scale_h", "scale_w", "upsample_h", "upsample_w", "height", "width") if get(name)
    ]
    scale = float(get("scale", 0))
    if other or scale < 2 or not scale.is_integer():
        told = f" and it has {', '.join(other)}" if other else ""
        raise Unspelled(f"its scale is {scale:g}{told}; with one bottom a whole scale above 1 is known")
    if len(shape) < 3:
        raise Unspelled(f"{shape} has no planes")
    scales = to.const([*[1] * (len(shape) - 2), scale, scale], np.float32)
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    to.put(op.outputs[0], to.node("Resize", [to.own(bottom(op)), "", scales], nearest)[0])


def _unpooled(to: Speller, op: Operation, shape: tuple[int, ...]) -> None:
    """Where the second top of Pooling says; the rest is 0."""
    told = op.attributes
    if len(shape) != 4 or to.shape(bottom(op, 1)) != shape:
        raise Unspelled(f"its mask {to.shape(bottom(op, 1))} is not as {shape}")
    size = []
    for axis, extent in zip("hw", shape[2:], strict=True):
        scale = int(told.get(f"scale_{axis}") or told.get("scale", 1))
        whole = int(told.get(f"upsample_{axis}") or 0)
        if whole < 1 and scale < 2:  # branches have different defaults
            raise Unspelled(f"it has no upsample_{axis}, and no scale above 1")
        size.append(whole or extent * scale - int(told.get(f"pad_out_{axis}") or 0))
    planes = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape[0], shape[1], 1, 1) * math.prod(
        size
    )
    where = to.one("Add", to.one("Cast", to.own(bottom(op, 1)), to=7), to.const(planes))
    target = to.const([*shape[:2], *size], np.int64)
    attributes = {"kernel_shape": [1, 1], "strides": [1, 1]}
    made = to.node("MaxUnpool", [to.own(bottom(op)), where, target], attributes)[0]
    to.put(op.outputs[0], to.one("Reshape", made, target))  # ONNX infers no shape before


@CAFFE.of("Interp")
def interp(to: Speller, op: Operation) -> None:
    """Linear along h and w, so that the corners stay; pads below 0 cut off edges before."""
    name, get = bottom(op), op.attributes.get
    shape = filled(to, name)
    if len(shape) != 4:
        raise Unspelled(f"{shape} has {len(shape)} dimensions, not 4")
    first, last = int(get("pad_beg", 0)), int(get("pad_end", 0))
    if first > 0 or last > 0:
        raise Unspelled(f"its pads {first} and {last} are above 0")
    inner = tuple(extent + first + last for extent in shape[2:])
    if min(inner) < 1:
        raise Unspelled(f"its pads {first} and {last} leave nothing of {shape}")
    size = _interpolated_size(to, op, inner)
    value = to.own(name)
    if first or last:
        ends = [extent + last for extent in shape[2:]]
        value = to.one("Slice", value, *(to.const(n, np.int64) for n in ([-first, -first], ends, [2, 3])))
    told = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    to.put(op.outputs[0], _resized(to, value, (*shape[:2], *size), **told))


def _interpolated_size(to: Speller, op: Operation, inner: tuple[int, ...]) -> tuple[int, ...]:
    get = op.attributes.get
    shrink, zoom = int(get("shrink_factor") or 0), int(get("zoom_factor") or 0)
    if len(bottoms(op)) > 1:
        return filled(to, bottom(op, 1))[2:]
    size = int(get("height") or 0), int(get("width") or 0)
    if min(size) > 0:
        return size
    if shrink <= 1 and zoom <= 1 and inner == to.shape(bottom(op))[2:]:
        raise Unspelled("it has no height and width, no factor above 1, no pads and no second bottom")
    if shrink > 0:
        inner = tuple((extent - 1) // shrink + 1 for extent in inner)
    if zoom > 0:
        inner = tuple(extent + (extent - 1) * (zoom - 1) for extent in inner)
    return inner
