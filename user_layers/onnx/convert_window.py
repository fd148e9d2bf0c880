"""ONNX operations with windows over h and w: convolutions and pools; one-dimensional ones have h = 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from user_layers.onnx.lower import Lowering, Unsupported, converts
from user_layers.onnx.model import Node


@dataclass(frozen=True)
class Window:
    """A window over the last axes, each tuple with a number for h and for w."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    extra: tuple[int, int]  # behind `after`: room for last windows that are not complete (ceil_mode)

    def fields(self) -> dict[str, int]:
        """As the parameter structs call them."""
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.stride, self.dilation
        found = {
            "kernel_h": kh,
            "kernel_w": kw,
            "stride_h": sh,
            "stride_w": sw,
            "dilation_h": dh,
            "dilation_w": dw,
        }
        top, left = self.before
        bottom, right = self.after
        return found | {"pad_top": top, "pad_left": left, "pad_bottom": bottom, "pad_right": right}


def window_of(node: Node, extents: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """The windows of a node. Raises Unsupported for other than one or two spatial dimensions."""
    rank = len(extents)
    if rank not in (1, 2):
        raise Unsupported(f"{rank} spatial dimensions; layers have one or two")

    def option(name: str, default: int) -> list[int]:
        return [int(v) for v in node.attributes.get(name, [default] * rank)]

    stride, dilation = option("strides", 1), option("dilations", 1)
    pads = [int(v) for v in node.attributes.get("pads", [0] * 2 * rank)]
    before, after, extra = pads[:rank], pads[rank:], [0] * rank
    auto = node.attributes.get("auto_pad", "NOTSET")
    for i, extent in enumerate(extents):
        reach = (kernel[i] - 1) * dilation[i] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (math.ceil(extent / stride[i]) - 1) * stride[i] + reach - extent)
            small = total // 2
            before[i], after[i] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
        elif auto == "VALID":
            before[i] = after[i] = 0
        if node.attributes.get("ceil_mode", 0) and auto == "NOTSET":
            room = extent + before[i] + after[i] - reach
            count = math.ceil(room / stride[i]) + 1
            if (count - 1) * stride[i] >= extent + before[i]:  # a window that begins behind the data
                count -= 1
            extra[i] = max(0, (count - 1) * stride[i] - room)

    def two(values: list[int] | tuple[int, ...], first: int) -> tuple[int, int]:
        return (first, int(values[0])) if rank == 1 else (int(values[0]), int(values[1]))

    return Window(
        two(kernel, 1), two(stride, 1), two(dilation, 1), two(before, 0), two(after, 0), two(extra, 0)
    )


def planes(to: Lowering, node: Node, name: str) -> str:
    """A tensor as [N, C, H, W]: of [N, C, W] with H = 1."""
    shape = to.shape(name)
    tensor = to.tensor(name)
    if len(shape) != 3:
        return tensor
    n, c, w = shape
    return to.between("TPU_RESHAPE", node, [tensor], {"dims": 4, "shape": [n, c, 1, w, 0, 0, 0, 0]})


def _kernels(to: Lowering, node: Node) -> str:
    """The constant weights of a convolution with four dimensions."""
    weights = to.known(node, 1)
    assert weights is not None
    if weights.ndim == 3:
        return to.add_const(weights[:, :, None, :], f"{node.inputs[1]}:planes")
    return to.tensor(node.inputs[1])


def result(to: Lowering, node: Node, op: str, inputs: list[str], param: Mapping[str, float]) -> None:
    """The layer, whose output loses its H again where the node has none."""
    shape = to.shape(node.outputs[0])
    if len(shape) != 3:
        to.simple(op, node, inputs, param)
        return
    made = to.between(op, node, inputs, param)
    to.simple("TPU_RESHAPE", node, [made], {"dims": 3, "shape": [*shape, 0, 0, 0, 0, 0]})


@converts("Conv")
def conv(to: Lowering, node: Node) -> None:
    to.need_float(*node.inputs)
    weights = to.known(node, 1)
    assert weights is not None
    groups = int(node.attributes.get("group", 1))
    shape = to.shape(node.inputs[0])
    window = window_of(node, shape[2:], weights.shape[2:])
    inputs = [
        planes(to, node, node.inputs[0]),
        _kernels(to, node),
    ]
    if to.known(node, 2) is not None:
        inputs.append(to.tensor(node.inputs[2]))
    result(to, node, "TPU_CONV", inputs, {"groups": groups, **window.fields()})


def pool_param(window: Window, *, average: bool, count_pads: bool) -> dict[str, int]:
    """The parameters of TPU_POOL for windows (not for a whole plane)."""
    param = {"mode": int(average), "whole": 0, **window.fields(), "count_include_pad": int(count_pads)}
    return param | {"extra_bottom": window.extra[0], "extra_right": window.extra[1]}


@converts("MaxPool", "AveragePool")
def pool(to: Lowering, node: Node) -> None:
    to.need_float(node.inputs[0])
    if len([name for name in node.outputs if name]) > 1:
        raise Unsupported("indices of the maxima")
    shape = to.shape(node.inputs[0])
    window = window_of(node, shape[2:], tuple(node.attributes["kernel_shape"]))
    pads = bool(node.attributes.get("count_include_pad", 0))
    param = pool_param(window, average=node.op == "AveragePool", count_pads=pads)
    result(to, node, "TPU_POOL", [planes(to, node, node.inputs[0])], param)


@converts("GlobalMaxPool", "GlobalAveragePool")
def global_pool(to: Lowering, node: Node) -> None:
    to.need_float(node.inputs[0])
    if len(to.shape(node.inputs[0])) not in (3, 4):
        raise Unsupported("only one or two spatial dimensions")
    whole_planes(to, node, average=node.op == "GlobalAveragePool")


def whole_planes(to: Lowering, node: Node, average: bool) -> None:
    """The average or the maximum of each plane, with all dimensions."""
    window = Window((1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0))
    param = {"mode": int(average), "whole": 1, **window.fields()}
    result(to, node, "TPU_POOL", [planes(to, node, node.inputs[0])], param)


@converts("LRN")
def lrn(to: Lowering, node: Node) -> None:
    to.need_float(node.inputs[0])
    param: dict[str, float] = {"size": int(node.attributes["size"])}
    for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)):
        param[name] = float(node.attributes.get(name, default))
    to.simple("TPU_LRN", node, [to.tensor(node.inputs[0])], param)


@converts("ConvTranspose")
def conv_transpose(to: Lowering, node: Node) -> None:
    """Pads follow from the shape of the output, where it is given or to be kept."""
    to.need_float(*node.inputs)
    weights = to.known(node, 1)
    assert weights is not None
    if weights.ndim not in (3, 4):
        raise Unsupported(f"{weights.ndim - 2} spatial dimensions; layers have one or two")
    rank = weights.ndim - 2
    extents, lengths = (to.shape(name)[2:] for name in (node.inputs[0], node.outputs[0]))
    plain = Node(node.op, node.domain, node.name, node.inputs, node.outputs, _without_pads(node))
    window = window_of(plain, extents, weights.shape[2:])
    groups = int(node.attributes.get("group", 1))
    more = [int(v) for v in node.attributes.get("output_padding", [0] * rank)]
    before, after = _transposed_pads(node, window, extents, lengths, more)
    param = {"groups": groups, **window.fields()}
    for side, values in (("before", before), ("after", after)):
        names = {"before": ("pad_top", "pad_left"), "after": ("pad_bottom", "pad_right")}[side]
        param |= dict(zip(names, (0, *values) if rank == 1 else values, strict=True))
    param |= dict(zip(("output_pad_h", "output_pad_w"), (0, *more) if rank == 1 else more, strict=True))
    if min(*before, *after) < 0:
        raise Unsupported("an output that is larger than the windows reach")
    inputs = [
        planes(to, node, node.inputs[0]),
        _kernels(to, node),
    ]
    if to.known(node, 2) is not None:
        inputs.append(to.tensor(node.inputs[2]))
    result(to, node, "TPU_DECONV", inputs, param)


def _without_pads(node: Node) -> dict[str, object]:
    return {k: v for k, v in node.attributes.items() if k not in ("pads", "auto_pad", "output_padding")}


def _transposed_pads(
    node: Node, window: Window, extents: tuple[int, ...], lengths: tuple[int, ...], more: list[int]
) -> tuple[list[int], list[int]]:
    """Elements cut off at both ends of each axis, from the output's extents (ONNX, ConvTranspose)."""
    rank = len(extents)
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID") and "output_shape" not in node.attributes:
        pads = [int(v) for v in node.attributes.get("pads", [0] * 2 * rank)]
        return pads[:rank], pads[rank:]
    before, after = [], []
    for i, (extent, length) in enumerate(zip(extents, lengths, strict=True)):
        axis = i + 2 - rank
        reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        total = window.stride[axis] * (extent - 1) + more[i] + reach - length
        small, large = total // 2, total - total // 2
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
    return before, after
