"""Functions that add layers with windows over planes: convolutions, pools, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from firmware_sim.errors import UsageError
from user_layers.bmcompiler.calls import (
    Called,
    Floats,
    Input,
    Ints,
    Output,
    Shapes,
    Texts,
    Unread,
    vendor_spread,
)
from user_layers.bmcompiler.session import BMCompiler
from user_layers.onnx.resize import Resize, upsampling, windows

ConvWeights = Annotated[ArrayLike, Floats("output_shape[1]", "input_shape[1]", "kh", "kw", per="groups")]
OutputBias = Annotated[ArrayLike | None, Floats("output_shape[1]", when="have_bias")]


def planes(shape: Sequence[int], what: str) -> None:
    """Raise UsageError unless a shape is [N, C, H, W]; what: the parameter's name, for the message."""
    if len(shape) != 4:
        raise UsageError(f"{what} {list(shape)} has {len(shape)} dimensions; four are needed, [N, C, H, W]")


# ---- convolutions ----


@dataclass(frozen=True)
class ConvWindow:
    """The windows of a convolution: fields of TPU_CONV and TPU_DECONV."""

    kernel_h: Annotated[int, Called("kh")]
    kernel_w: Annotated[int, Called("kw")]
    groups: int
    pad_top: Annotated[int, Called("pad_h_up")]
    pad_bottom: Annotated[int, Called("pad_h_down")]
    pad_left: Annotated[int, Called("pad_w_left")]
    pad_right: Annotated[int, Called("pad_w_right")]
    stride_h: int
    stride_w: int
    dilation_h: Annotated[int, Called("dh")]
    dilation_w: Annotated[int, Called("dw")]


@dataclass(frozen=True)
class NamedWeights:
    """Weight and bias of a convolution; None for names: they are made from the output's."""

    weight_name: str | None
    weight: ConvWeights
    bias_name: str | None
    bias: OutputBias


def _conv(
    p: BMCompiler, x: Input, y: Output, weights: NamedWeights, window: ConvWindow, name: str | None,
    *, transposed: bool = False,
) -> None:  # fmt: skip
    """Add TPU_CONV or TPU_DECONV."""
    planes(x.shape, "input_shape")
    planes(y.shape, "output_shape")
    first, second = (x.shape[1], y.shape[1]) if transposed else (y.shape[1], x.shape[1])
    param = asdict(window) | (_output_pads(x, y, window) if transposed else {})
    values = np.reshape(weights.weight, (first, second // window.groups, window.kernel_h, window.kernel_w))
    inputs = [p.use(x.name, x.shape), p.const(values, weights.weight_name or f"{y.name}:weight")]
    if weights.bias is not None:
        inputs.append(p.const(np.asarray(weights.bias), weights.bias_name or f"{y.name}:bias"))
    p.layer("TPU_DECONV" if transposed else "TPU_CONV", inputs, param, y.name, [y.shape], name)


def _output_pads(x: Input, y: Output, window: ConvWindow) -> dict[str, int]:
    """Rows and columns behind what the windows of a transposed convolution reach."""
    found = {}
    for axis, side, kernel, dilation, stride, cut in (
        (2, "h", window.kernel_h, window.dilation_h, window.stride_h, window.pad_top + window.pad_bottom),
        (3, "w", window.kernel_w, window.dilation_w, window.stride_w, window.pad_left + window.pad_right),
    ):
        made = (x.shape[axis] - 1) * stride + (kernel - 1) * dilation + 1 - cut
        found[f"output_pad_{side}"] = y.shape[axis] - made
        if y.shape[axis] < made:
            raise UsageError(f"output_shape {list(y.shape)} has {side} {y.shape[axis]}, it is {made}")
    return found


@vendor_spread
def add_conv_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    weight: ConvWeights,
    bias: OutputBias,
    window: ConvWindow,
    have_bias: int,
) -> None:
    """A convolution of [N, C, H, W].

    weight: [output channels, channels / groups, kh, kw]; dh, dw: dilation, 1 is none.
    """
    _conv(p_bmcpl, x, y, NamedWeights(None, weight, None, bias), window, layer_name)


@vendor_spread
def add_conv_layer_v2(
    p_bmcpl: BMCompiler, x: Input, y: Output, weights: NamedWeights, window: ConvWindow, have_bias: int
) -> None:
    """add_conv_layer, with names for the constants."""
    _conv(p_bmcpl, x, y, weights, window, None)


@vendor_spread
def add_deconv_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    weight: ConvWeights,
    bias: OutputBias,
    window: ConvWindow,
    have_bias: int,
) -> None:
    """A transposed convolution of [N, C, H, W].

    weight: [channels, output channels / groups, kh, kw]; rows and columns of output_shape beyond what
    the windows reach follow at the end.
    """
    _conv(p_bmcpl, x, y, NamedWeights(None, weight, None, bias), window, layer_name, transposed=True)


# ---- pools ----


@dataclass(frozen=True)
class PoolWindow:
    """The windows of a pool: fields of TPU_POOL."""

    kernel_h: Annotated[int, Called("kh")]
    kernel_w: Annotated[int, Called("kw")]
    pad_top: Annotated[int, Called("up_pad_h")]
    pad_bottom: Annotated[int, Called("down_pad_h")]
    pad_left: Annotated[int, Called("left_pad_w")]
    pad_right: Annotated[int, Called("right_pad_w")]
    stride_h: int
    stride_w: int
    mode: Annotated[int, Called("is_avg_pooling")]


def _pool(
    p: BMCompiler, x: Input, y: Output, window: PoolWindow, *,
    count_pad: int = 0, whole: int = 0, name: str | None = None,
) -> None:  # fmt: skip
    planes(x.shape, "input_shape")
    planes(y.shape, "output_shape")
    if whole:
        window = PoolWindow(1, 1, 0, 0, 0, 0, 1, 1, window.mode)
    param = asdict(window) | {"dilation_h": 1, "dilation_w": 1}
    param |= {"mode": int(bool(window.mode)), "whole": int(bool(whole)), "count_include_pad": count_pad}
    for axis, end, kernel, stride, pads in (
        (2, "bottom", window.kernel_h, window.stride_h, window.pad_top + window.pad_bottom),
        (3, "right", window.kernel_w, window.stride_w, window.pad_left + window.pad_right),
    ):
        needed = (y.shape[axis] - 1) * stride + kernel
        param[f"extra_{end}"] = 0 if whole else max(0, needed - x.shape[axis] - pads)
    p.layer("TPU_POOL", [p.use(x.name, x.shape)], param, y.name, [y.shape], name)


@vendor_spread
def add_pooling_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    output_number: int,
    output_shape: Annotated[Sequence[Sequence[int]], Shapes("output_number", "output_shape_dim")],
    output_shape_dim: Annotated[Sequence[int], Ints("output_number")],
    output_name: Annotated[Sequence[str], Texts("output_number")],
    window: PoolWindow,
    avg_pooling_mode: int,
    is_global_pooling: int,
    out_ceil_mode: int,
    layer_name: str | None,
    coeff_mask: Annotated[None, Unread("const float *")],
) -> None:
    """The maximum, or the average, of windows of [N, C, H, W].

    avg_pooling_mode 0: pads count, 1: they do not. is_global_pooling: the window is the whole plane.
    Whether a last window that is not complete counts (out_ceil_mode) is seen from output_shape.
    output_number is 1: indices of the maxima are not computed.
    """
    if output_number != 1:
        raise UsageError(f"output_number is {output_number}; 1 is computed")
    y = Output(output_shape[0], output_shape_dim[0], output_name[0])
    count_pad = int(avg_pooling_mode == 0)
    _pool(p_bmcpl, x, y, window, count_pad=count_pad, whole=is_global_pooling, name=layer_name)


@vendor_spread
def add_pooling_tf_layer(p_bmcpl: BMCompiler, x: Input, y: Output, window: PoolWindow) -> None:
    """add_pooling_layer as TensorFlow has it: pads do not count in averages."""
    _pool(p_bmcpl, x, y, window)


# ---- resizing ----

_COORDINATES = ("align_corners", "asymmetric", "asymmetric", "asymmetric", "pytorch_half_pixel", "asymmetric")
_NEAREST = (2, 3, 5)  # platform_sp


def _resize(p: BMCompiler, x: Input, y: Output, *, coordinates: str, mode: str) -> None:
    shape, wanted, output = x.shape, y.shape, y.name
    planes(shape, "input_shape")
    planes(wanted, "output_shape")
    made = p.use(x.name, shape)
    nearest = "round_prefer_floor" if coordinates == "align_corners" else "floor"
    steps = [d for d in (2, 3) if shape[d] != wanted[d]]
    if not steps:
        p.layer("TPU_COPY", [made], {"reserved": 0}, output, [wanted])
    plans = {
        d: Resize(shape[d], wanted[d], mode=mode, coordinates=coordinates, nearest=nearest) for d in steps
    }
    repeated = upsampling(plans, 4)
    if repeated is not None:
        p.layer("TPU_UPSAMPLE", [made], repeated, output, [wanted])
        return
    for d, plan in plans.items():
        gathered = plan.gathered()
        constants = list(plan.taps()) if gathered is None else [gathered]
        names = [made, *(p.const(values, f"{output}:taps") for values in constants)]
        op, param = "TPU_GATHER", {"axis": d, "scalar": 0}
        if gathered is None:
            op, param = "TPU_RESIZE", {"axis": d, **windows(constants[0], shape[d])}
        if d == steps[-1]:
            p.layer(op, names, param, output, [wanted])
        else:
            made = p.between(op, names, param, output)


def _platform(platform_sp: int, pad_beg: int, pad_end: int) -> tuple[str, str]:
    """Coordinates and mode of Resize."""
    if not 0 <= platform_sp < len(_COORDINATES):
        raise UsageError(f"platform_sp is {platform_sp}; it is 0 to {len(_COORDINATES) - 1}")
    if pad_beg or pad_end:
        raise UsageError(f"pad_beg is {pad_beg} and pad_end {pad_end}; only 0 is computed")
    return _COORDINATES[platform_sp], "nearest" if platform_sp in _NEAREST else "linear"


@vendor_spread
def add_interp_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    pad_beg: int,
    pad_end: int,
    platform_sp: int,
) -> None:
    """[N, C, H, W] of another height and width.

    platform_sp 0: linear, corners on corners (Caffe), 1: linear from x / scale (TensorFlow), 4: linear
    between centres (PyTorch); 2, 3, 5: the element at x / scale rounded down. pad_beg and pad_end must
    be 0.
    """
    coordinates, mode = _platform(platform_sp, pad_beg, pad_end)
    _resize(p_bmcpl, x, y, coordinates=coordinates, mode=mode)


@vendor_spread
def add_interp_layer_v2(
    p_bmcpl: BMCompiler,
    x: Input,
    shape_is_fixed: int,
    output_shape: Annotated[Sequence[int] | None, Ints("output_shape_dim")],
    output_shape_dim: int,
    output_shape_name: str | None,
    output_name: str,
    pad_beg: int,
    pad_end: int,
    align_corners: int,
    half_pixel_centers: int,
    platform_sp: int,
) -> None:
    """add_interp_layer with coordinates of its own.

    align_corners or half_pixel_centers, if not 0, replaces the coordinates of platform_sp.
    shape_is_fixed must be 1. (Older versions of the vendor's header have neither align_corners nor
    half_pixel_centers.)
    """
    if not shape_is_fixed or output_shape is None:
        raise UsageError("the shape is a tensor; give output_shape, and shape_is_fixed as 1")
    if align_corners and half_pixel_centers:
        raise UsageError("align_corners and half_pixel_centers exclude each other")
    coordinates, mode = _platform(platform_sp, pad_beg, pad_end)
    if align_corners or half_pixel_centers:
        coordinates = "align_corners" if align_corners else "half_pixel"
    y = Output(output_shape, output_shape_dim, output_name)
    _resize(p_bmcpl, x, y, coordinates=coordinates, mode=mode)


@vendor_spread
def add_upsample_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    size: int,
) -> None:
    """Each element of a plane size x size times."""
    if len(x.shape) == 4 and [n * size for n in x.shape[2:]] != list(y.shape[2:]):
        raise UsageError(f"size is {size}, but {list(x.shape)} becomes {list(y.shape)}")
    _resize(p_bmcpl, x, y, coordinates="asymmetric", mode="nearest")
