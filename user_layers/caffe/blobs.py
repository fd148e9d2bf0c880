"""Which blobs of weights layers have: their shapes, by the layer's parameters and its bottom."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from user_layers.spelling.foreign import Array

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
Wanted = Callable[[Attributes, Sequence[Shape]], list[Shape]]

_WANTED: dict[str, Wanted] = {}


def learned(kind: str) -> bool:
    """Whether layers of this type have weights, with these parameters or others."""
    return kind in _WANTED


def wanted_blobs(kind: str, attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape] | None:
    """The shapes of a layer's blobs; None for a type of which it is not known. bottoms: their shapes.
    Errors: LookupError, ArithmeticError, TypeError where parameters are missing or do not fit."""
    return _WANTED[kind](attributes, bottoms) if kind in _WANTED else None


def fitted(array: Array, shape: Shape) -> Array | None:
    """The blob with that shape, which older files write with ones in it; None where it does not fit."""
    if [n for n in array.shape if n != 1] != [n for n in shape if n != 1]:
        return None
    return array.reshape(shape)


def _of(*kinds: str) -> Callable[[Wanted], Wanted]:
    def register(function: Wanted) -> Wanted:
        _WANTED.update(dict.fromkeys(kinds, function))
        return function

    return register


def _axis(attributes: Attributes, rank: int) -> int:
    axis = int(attributes.get("axis", 1))
    if not -rank <= axis < rank:
        raise LookupError(f"there is no axis {axis} among {rank}")
    return axis % rank


def _kernel(attributes: Attributes, count: int) -> Shape:
    if "kernel_h" in attributes or "kernel_w" in attributes:
        return (attributes["kernel_h"], attributes["kernel_w"])
    kernel = tuple(attributes.get("kernel_size", ()))
    if not kernel:
        raise LookupError("it has no kernel_size")
    return kernel * count if len(kernel) == 1 else kernel


def _bias(attributes: Attributes) -> list[Shape]:
    return [(attributes["num_output"],)] if attributes.get("bias_term", True) else []


@_of("Convolution")
def _convolution(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    shape = bottoms[0]
    axis = _axis(attributes, len(shape))
    channels, outputs, group = shape[axis], attributes["num_output"], attributes.get("group", 1)
    if not outputs or not group or channels % group or outputs % group:
        raise LookupError(f"group {group} does not divide its {channels} channels and num_output {outputs}")
    return [(outputs, channels // group, *_kernel(attributes, len(shape) - axis - 1)), *_bias(attributes)]


@_of("Deconvolution")
def _deconvolution(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    weight, *bias = _convolution(attributes, bottoms)
    group = attributes.get("group", 1)
    return [(weight[1] * group, weight[0] // group, *weight[2:]), *bias]


@_of("ConvolutionDepthwise", "DepthwiseConvolution")
def _depthwise(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    return _convolution({**attributes, "group": bottoms[0][1]}, bottoms)


@_of("InnerProduct")
def _inner_product(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    shape = bottoms[0]
    length = math.prod(shape[_axis(attributes, len(shape)) :])
    weight = (attributes["num_output"], length)
    return [weight[::-1] if attributes.get("transpose") else weight, *_bias(attributes)]


@_of("Embed")
def _embed(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    return [(attributes["input_dim"], attributes["num_output"]), *_bias(attributes)]


@_of("BatchNorm")
def _batch_norm(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    channels = (bottoms[0][1] if len(bottoms[0]) > 1 else 1,)
    return [channels, channels, (1,)]


def _covered(attributes: Attributes, shape: Shape) -> Shape:
    axis, count = _axis(attributes, len(shape)), int(attributes.get("num_axes", 1))
    return shape[axis:] if count < 0 else shape[axis : axis + count]


@_of("Scale")
def _scale(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    biased = bool(attributes.get("bias_term"))
    if len(bottoms) > 1:
        return [bottoms[1]] * biased
    return [_covered(attributes, bottoms[0])] * (1 + biased)


@_of("Bias")
def _bias_layer(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    return [] if len(bottoms) > 1 else [_covered(attributes, bottoms[0])]


@_of("PReLU", "Normalize")
def _per_channel(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    return [(1 if attributes.get("channel_shared") else bottoms[0][1],)]


@_of("Parameter")
def _parameter(attributes: Attributes, bottoms: Sequence[Shape]) -> list[Shape]:
    return [tuple(attributes["shape"]["dim"])]
