"""Functions that add layers with windows over planes: convolutions, pools, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from firmware_sim.errors import UsageError
from user_layers.bmcompiler.calls import Floats, InputShape, Ints, OutputShape, Shapes, Texts, Unread, vendor
from user_layers.bmcompiler.session import BMCompiler
from user_layers.onnx.resize import Resize, upsampling

ConvWeights = Annotated[ArrayLike, Floats("output_shape[1]", "input_shape[1]", "kh", "kw", per="groups")]
OutputBias = Annotated[ArrayLike | None, Floats("output_shape[1]", when="have_bias")]


def planes(shape: Sequence[int], what: str) -> None:
    """Raise UsageError unless a shape is [N, C, H, W]; what: the parameter's name, for the message."""
    if len(shape) != 4:
        raise UsageError(f"{what} {list(shape)} has {len(shape)} dimensions; four are needed, [N, C, H, W]")


# ---- convolutions ----


def _conv(
    p: BMCompiler, source: str, input_shape: Sequence[int], output_shape: Sequence[int], output: str,
    name: str | None, weight: tuple[str | None, ArrayLike], bias: tuple[str | None, ArrayLike | None],
    window: dict[str, int],
) -> None:  # fmt: skip
    planes(input_shape, "input_shape")
    planes(output_shape, "output_shape")
    groups = window["groups"]
    extents = (output_shape[1], input_shape[1] // groups, window["kernel_h"], window["kernel_w"])
    values = np.reshape(weight[1], extents)
    inputs = [p.use(source, input_shape), p.const(values, weight[0] or f"{output}:weight")]
    if bias[1] is not None:
        inputs.append(p.const(np.asarray(bias[1]), bias[0] or f"{output}:bias"))
    p.layer("TPU_CONV", inputs, window, output, [output_shape], name)


def _window(
    groups: int, kernel: Sequence[int], pads: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> dict[str, int]:
    """Fields of TPU_CONV and TPU_DECONV; pads: top, bottom, left, right."""
    if groups < 1:
        raise UsageError(f"groups is {groups}")
    sides = zip(("top", "bottom", "left", "right"), pads, strict=True)
    found = {"groups": groups} | {f"pad_{side}": pad for side, pad in sides}
    for what, pair in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        found |= {f"{what}_h": pair[0], f"{what}_w": pair[1]}
    return found


@vendor
def add_conv_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    weight: ConvWeights,
    bias: OutputBias,
    kh: int,
    kw: int,
    groups: int,
    pad_h_up: int,
    pad_h_down: int,
    pad_w_left: int,
    pad_w_right: int,
    stride_h: int,
    stride_w: int,
    dh: int,
    dw: int,
    have_bias: int,
) -> None:
    """A convolution of [N, C, H, W].

    weight: [output channels, channels / groups, kh, kw]; dh, dw: dilation, 1 is none.
    """
    pads = (pad_h_up, pad_h_down, pad_w_left, pad_w_right)
    window = _window(groups, (kh, kw), pads, (stride_h, stride_w), (dh, dw))
    plain = (None, weight), (None, bias)
    _conv(p_bmcpl, input_name, input_shape, output_shape, output_name, layer_name, *plain, window)


@vendor
def add_conv_layer_v2(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    weight_name: str | None,
    weight: ConvWeights,
    bias_name: str | None,
    bias: OutputBias,
    kh: int,
    kw: int,
    groups: int,
    pad_h_up: int,
    pad_h_down: int,
    pad_w_left: int,
    pad_w_right: int,
    stride_h: int,
    stride_w: int,
    dh: int,
    dw: int,
    have_bias: int,
) -> None:
    """add_conv_layer, with names for the constants."""
    pads = (pad_h_up, pad_h_down, pad_w_left, pad_w_right)
    window = _window(groups, (kh, kw), pads, (stride_h, stride_w), (dh, dw))
    named = (weight_name, weight), (bias_name, bias)
    _conv(p_bmcpl, input_name, input_shape, output_shape, output_name, None, *named, window)


@vendor
def add_deconv_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    layer_name: str | None,
    weight: ConvWeights,
    bias: OutputBias,
    kh: int,
    kw: int,
    groups: int,
    pad_h_up: int,
    pad_h_down: int,
    pad_w_left: int,
    pad_w_right: int,
    stride_h: int,
    stride_w: int,
    dh: int,
    dw: int,
    have_bias: int,
) -> None:
    """A transposed convolution of [N, C, H, W].

    weight: [channels, output channels / groups, kh, kw]; rows and columns of output_shape beyond what
    the windows reach follow at the end.
    """
    planes(input_shape, "input_shape")
    planes(output_shape, "output_shape")
    pads = (pad_h_up, pad_h_down, pad_w_left, pad_w_right)
    window = _window(groups, (kh, kw), pads, (stride_h, stride_w), (dh, dw))
    for axis, side in ((2, "h"), (3, "w")):
        cut = sum(pads[:2] if side == "h" else pads[2:])
        reach = (window[f"kernel_{side}"] - 1) * window[f"dilation_{side}"] + 1
        made = (input_shape[axis] - 1) * window[f"stride_{side}"] + reach - cut
        window[f"output_pad_{side}"] = output_shape[axis] - made
        if output_shape[axis] < made:
            raise UsageError(
                f"output_shape {list(output_shape)} has {side} {output_shape[axis]}, it is {made}"
            )
    values = np.reshape(weight, (input_shape[1], output_shape[1] // groups, kh, kw))
    inputs = [p_bmcpl.use(input_name, input_shape)]
    inputs.append(p_bmcpl.const(values, f"{output_name}:weight"))
    if bias is not None:
        inputs.append(p_bmcpl.const(np.asarray(bias), f"{output_name}:bias"))
    p_bmcpl.layer("TPU_DECONV", inputs, window, output_name, [output_shape], layer_name)


# ---- pools ----


def _pool(
    p: BMCompiler, source: str, shape: Sequence[int], wanted: Sequence[int], output: str, name: str | None,
    *, kernel: Sequence[int], pads: Sequence[int], stride: Sequence[int],
    average: int, count_pad: int, whole: int,
) -> None:  # fmt: skip
    planes(shape, "input_shape")
    planes(wanted, "output_shape")
    if whole:
        kernel, stride, pads = (1, 1), (1, 1), (0, 0, 0, 0)
    param = _window(1, kernel, pads, stride, (1, 1))
    del param["groups"]
    param |= {
        "mode": int(bool(average)),
        "whole": int(bool(whole)),
        "count_include_pad": int(bool(count_pad)),
    }
    for axis, side, end in ((2, "h", "bottom"), (3, "w", "right")):
        room = shape[axis] + sum(pads[:2] if side == "h" else pads[2:])
        needed = (wanted[axis] - 1) * param[f"stride_{side}"] + param[f"kernel_{side}"]
        param[f"extra_{end}"] = 0 if whole else max(0, needed - room)
    p.layer("TPU_POOL", [p.use(source, shape)], param, output, [wanted], name)


@vendor
def add_pooling_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_number: int,
    output_shape: Annotated[Sequence[Sequence[int]], Shapes("output_number", "output_shape_dim")],
    output_shape_dim: Annotated[Sequence[int], Ints("output_number")],
    output_name: Annotated[Sequence[str], Texts("output_number")],
    kh: int,
    kw: int,
    up_pad_h: int,
    down_pad_h: int,
    left_pad_w: int,
    right_pad_w: int,
    stride_h: int,
    stride_w: int,
    is_avg_pooling: int,
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
    _pool(
        p_bmcpl, input_name, input_shape, output_shape[0], output_name[0], layer_name, kernel=(kh, kw),
        pads=(up_pad_h, down_pad_h, left_pad_w, right_pad_w), stride=(stride_h, stride_w),
        average=is_avg_pooling, count_pad=int(avg_pooling_mode == 0), whole=is_global_pooling,
    )  # fmt: skip


@vendor
def add_pooling_tf_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    kh: int,
    kw: int,
    up_pad_h: int,
    down_pad_h: int,
    left_pad_w: int,
    right_pad_w: int,
    stride_h: int,
    stride_w: int,
    is_avg_pooling: int,
) -> None:
    """add_pooling_layer as TensorFlow has it: pads do not count in averages."""
    _pool(
        p_bmcpl, input_name, input_shape, output_shape, output_name, None, kernel=(kh, kw),
        pads=(up_pad_h, down_pad_h, left_pad_w, right_pad_w), stride=(stride_h, stride_w),
        average=is_avg_pooling, count_pad=0, whole=0,
    )  # fmt: skip


# ---- resizing ----

_COORDINATES = ("align_corners", "asymmetric", "asymmetric", "asymmetric", "pytorch_half_pixel", "asymmetric")
_NEAREST = (2, 3, 5)  # platform_sp


def _resize(
    p: BMCompiler, source: str, shape: Sequence[int], wanted: Sequence[int], output: str,
    *, coordinates: str, mode: str,
) -> None:  # fmt: skip
    planes(shape, "input_shape")
    planes(wanted, "output_shape")
    made = p.use(source, shape)
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
        op, param = (
            ("TPU_RESIZE", {"axis": d}) if gathered is None else ("TPU_GATHER", {"axis": d, "scalar": 0})
        )
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


@vendor
def add_interp_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
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
    _resize(p_bmcpl, input_name, input_shape, output_shape, output_name, coordinates=coordinates, mode=mode)


@vendor
def add_interp_layer_v2(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
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
    _resize(p_bmcpl, input_name, input_shape, output_shape, output_name, coordinates=coordinates, mode=mode)


@vendor
def add_upsample_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    size: int,
) -> None:
    """Each element of a plane size x size times."""
    if len(input_shape) == 4 and [n * size for n in input_shape[2:]] != list(output_shape[2:]):
        raise UsageError(f"size is {size}, but {list(input_shape)} becomes {list(output_shape)}")
    _resize(
        p_bmcpl, input_name, input_shape, output_shape, output_name, coordinates="asymmetric", mode="nearest"
    )
