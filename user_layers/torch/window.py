"""How ATen's convolutions, pools, norms and resizes are spelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from user_layers.spelling.speller import Unspelled
from user_layers.torch.call import Call, aten, fixed
from user_layers.torch.program import is_free


def _each(values: Any, count: int) -> list[int]:
    """One number for each dimension: what is given once holds for all."""
    found = [values] if isinstance(values, int) else [int(value) for value in values]
    return found * count if len(found) == 1 else found


def _batched(c: Call, dims: int) -> tuple[str, bool]:
    """The first tensor with a batch, and whether it had none."""
    if c.rank() == dims + 2:
        return c.x(), False
    return c.one("Unsqueeze", c.x(), c.ints([0])), True


def _unbatched(c: Call, value: str, added: bool) -> str:
    return c.one("Squeeze", value, c.ints([0])) if added else value


# ---- convolutions ----


@aten("convolution", "_convolution")
def _convolution(c: Call) -> str:
    return _conv(c, transposed=bool(c.get("transposed")))


@aten("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def _plain_convolution(c: Call) -> str:
    return _conv(c, transposed=False)


@aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def _transposed_convolution(c: Call) -> str:
    return _conv(c, transposed=True)


def _conv(c: Call, *, transposed: bool) -> str:
    dims = c.rank(1) - 2
    value, added = _batched(c, dims)
    strides, dilations = _each(c.get("stride", 1), dims), _each(c.get("dilation", 1), dims)
    padding = c.get("padding", 0)
    inputs = [value, c.x(1), *([c.x(2)] if c.has(2) else [])]
    attributes = {"strides": strides, "dilations": dilations, "group": int(c.get("groups", 1))}
    if isinstance(padding, str):
        pads = [0] * dims
        if padding == "same":
            attributes["pads"] = _same(c.shape(1)[2:], dilations)
            return _unbatched(c, c.one("Conv", *inputs, **attributes), added)
    else:
        pads = _each(padding, dims)
    attributes["pads"] = [*pads, *pads]
    attributes["kernel_shape"] = list(c.shape(1)[2:])
    if transposed:
        attributes["output_padding"] = _each(c.get("output_padding", 0), dims)
        return _unbatched(c, c.one("ConvTranspose", *inputs, **attributes), added)
    return _unbatched(c, c.one("Conv", *inputs, **attributes), added)


def _same(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """The padding that keeps extents, the odd one at the end."""
    total = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    return [*(t // 2 for t in total), *(t - t // 2 for t in total)]


# ---- pools ----


@aten(
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
)
def _max_pool(c: Call) -> list[str | None]:
    dims = len(_each(c.get("kernel_size"), 1)) if "pool1d" in c.op.kind else 3 if "pool3d" in c.op.kind else 2
    value, added = _batched(c, dims)
    kernel = _each(c.get("kernel_size"), dims)
    pads = _each(c.get("padding", 0), dims)
    made = c.one(
        "MaxPool",
        value,
        kernel_shape=kernel,
        strides=_each(c.get("stride") or kernel, dims),
        pads=[*pads, *pads],
        dilations=_each(c.get("dilation", 1), dims),
        ceil_mode=int(bool(c.get("ceil_mode"))),
    )
    return [_unbatched(c, made, added), None]


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(c: Call) -> str:
    dims = int(c.op.kind[len("aten.avg_pool")])
    value, added = _batched(c, dims)
    kernel = _each(c.get("kernel_size"), dims)
    pads = _each(c.get("padding", 0), dims)
    divisor = c.get("divisor_override")
    made = c.one(
        "AveragePool",
        value,
        kernel_shape=kernel,
        strides=_each(c.get("stride") or kernel, dims),
        pads=[*pads, *pads],
        ceil_mode=int(bool(c.get("ceil_mode"))),
        count_include_pad=int(bool(c.get("count_include_pad", True)) or divisor is not None),
    )
    if divisor is not None:
        if c.get("ceil_mode"):
            raise Unspelled("it has both divisor_override and ceil_mode")
        made = c.one("Mul", made, c.const(float(np.prod(kernel)) / divisor))
    return _unbatched(c, made, added)


@aten("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
@aten("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_avg_pool(c: Call) -> str:
    dims = int(c.op.kind.rpartition("pool")[2][0])
    have, want = _extents(c, dims)
    if all(h % w == 0 for h, w in zip(have, want, strict=True)):
        return _adaptive(c, "AveragePool", "GlobalAveragePool", dims)
    value = c.x()
    for axis in range(dims):  # the mean over windows of unequal sizes is a product with a matrix
        if have[axis] == want[axis]:
            continue
        matrix = np.zeros((have[axis], want[axis]), np.float32)
        for i in range(want[axis]):
            begin, end = i * have[axis] // want[axis], -(-(i + 1) * have[axis] // want[axis])
            matrix[begin:end, i] = 1 / (end - begin)
        place = c.rank() - dims + axis
        order = [a for a in range(c.rank()) if a != place] + [place]
        moved = value if place == c.rank() - 1 else c.one("Transpose", value, perm=order)
        made = c.one("MatMul", moved, c.const(matrix))
        value = (
            made
            if place == c.rank() - 1
            else c.one("Transpose", made, perm=[order.index(a) for a in range(c.rank())])
        )
    return value


@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(c: Call) -> list[str | None]:
    dims = int(c.op.kind.rpartition("pool")[2][0])
    have, want = _extents(c, dims)
    if any(h % w for h, w in zip(have, want, strict=True)):
        raise Unspelled(f"its windows have different sizes: {list(have)} to {list(want)}")
    return [_adaptive(c, "MaxPool", "GlobalMaxPool", dims), None]


def _extents(c: Call, dims: int) -> tuple[list[int], list[int]]:
    """Of an adaptive pool's input and result. Raises Unspelled where windows would depend on free ones."""
    want = fixed(c.out_shape[-dims:])
    have = c.shape()[-dims:]
    return list(have) if set(want) == {1} else fixed(have), want


def _adaptive(c: Call, windows: str, whole: str, dims: int) -> str:
    value, added = _batched(c, dims)
    have, want = _extents(c, dims)
    if all(extent == 1 for extent in want):
        return _unbatched(c, c.one(whole, value), added)
    kernel = [h // w for h, w in zip(have, want, strict=True)]
    return _unbatched(c, c.one(windows, value, kernel_shape=kernel, strides=kernel), added)


# ---- norms ----


@aten("_native_batch_norm_legit_no_training", "batch_norm")
def _batch_norm(c: Call) -> list[str | None]:
    if c.get("training"):
        raise Unspelled("it takes mean and variance of its input: export the module in eval()")
    count = c.shape()[1:2]
    weight = c.x(1) if c.has(1) else c.const(np.ones(fixed(count)))
    bias = c.x(2) if c.has(2) else c.const(np.zeros(fixed(count)))
    made = c.one("BatchNormalization", c.x(), weight, bias, c.x(3), c.x(4), epsilon=float(c.get("eps", 1e-5)))
    return [made, None, None]


@aten("layer_norm", "native_layer_norm")
def _layer_norm(c: Call) -> list[str | None]:
    shape = [int(extent) for extent in c.get("normalized_shape")]
    weight = c.x(1) if c.has(1) else c.const(np.ones(shape))
    bias = [c.x(2)] if c.has(2) else []
    epsilon = float(c.get("eps", 1e-5))
    return [
        c.one("LayerNormalization", c.x(), weight, *bias, axis=c.rank() - len(shape), epsilon=epsilon),
        None,
        None,
    ]


@aten("rms_norm")
def _rms_norm(c: Call) -> str:
    shape = c.get("normalized_shape")
    axes = list(range(c.rank() - len(shape), c.rank()))
    value = c.x()
    mean = c.one("ReduceMean", c.one("Mul", value, value), c.ints(axes), keepdims=1)
    epsilon = float(c.get("eps", np.finfo(np.float32).eps))
    root = c.one("Sqrt", c.one("Add", mean, c.const(epsilon)))
    made = c.one("Div", value, root)
    return c.one("Mul", made, c.x(1)) if c.has(1) else made


@aten("group_norm", "native_group_norm")
def _group_norm(c: Call) -> list[str | None]:
    groups = int(c.get("num_groups", c.get("group")))
    return [_normalized(c, groups, float(c.get("eps", 1e-5))), None, None]


@aten("instance_norm", "_native_batch_norm_legit.no_stats")
def _instance_norm(c: Call) -> list[str | None]:
    if "instance" in c.op.kind and not c.get("use_input_stats", True):
        raise Unspelled("it uses running statistics")
    if "no_stats" in c.op.kind:
        if c.shape()[0] != 1:
            raise Unspelled("it takes mean and variance over the batch")
        return [_normalized(c, c.shape()[1], float(c.get("eps", 1e-5))), None, None]
    return [_normalized(c, c.shape()[1], float(c.get("eps", 1e-5)))]


def _normalized(c: Call, groups: int, epsilon: float) -> str:
    shape = c.shape()
    (channels,) = fixed(shape[1:2])
    scale, bias = c.const(np.ones(groups)), c.const(np.zeros(groups))
    value = c.x()
    if groups == channels and len(shape) > 2:
        made = c.one("InstanceNormalization", value, scale, bias, epsilon=epsilon)
    elif len(shape) > 2 and is_free(tuple(shape[2:])):
        # A reshape back would have the other extents as numbers, which smaller inputs need not have.
        made = c.one("GroupNormalization", value, scale, bias, num_groups=groups, epsilon=epsilon)
    else:
        flat = c.reshaped(value, [shape[0], groups, -1], shape)
        made = c.one("InstanceNormalization", flat, scale, bias, epsilon=epsilon)
        made = c.reshaped(made, shape, shape[:1])
    wide = [channels, *[1] * (len(shape) - 2)]
    if c.has(1):
        made = c.one("Mul", made, c.reshaped(c.x(1), wide))
    if c.has(2):
        made = c.one("Add", made, c.reshaped(c.x(2), wide))
    return made


# ---- resizes ----


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def _nearest(c: Call) -> str:
    return _resized(c, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@aten("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
@aten("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def _linear(c: Call) -> str:
    return _resized(c, mode="linear", coordinate_transformation_mode=_coordinates(c))


@aten("upsample_bicubic2d", "upsample_bicubic2d.vec")
def _cubic(c: Call) -> str:
    return _resized(c, mode="cubic", cubic_coeff_a=-0.75, coordinate_transformation_mode=_coordinates(c))


def _coordinates(c: Call) -> str:
    return "align_corners" if c.get("align_corners") else "half_pixel"


def _resized(c: Call, **attributes: Any) -> str:
    given = c.get("scale_factors")
    if given is None:
        each = [
            c.get(name) for name in ("scales_d", "scales_h", "scales_w", "scales") if name in c.op.attributes
        ]
        given = each if each and None not in each else None
    if given is not None:
        scales = [1.0, 1.0, *(float(scale) for scale in given)]
        if [int(np.floor(n * s)) for n, s in zip(c.shape(), scales, strict=True)] == list(c.out_shape):
            return c.one("Resize", c.x(), "", c.const(scales, np.float32), **attributes)
    if not is_free(c.shape()):
        return c.one("Resize", c.x(), "", "", c.ints(c.out_shape), **attributes)
    fixed(c.shape()[2:])
    axes = list(range(2, c.rank()))
    return c.one("Resize", c.x(), "", "", c.ints(c.out_shape[2:]), axes=axes, **attributes)
