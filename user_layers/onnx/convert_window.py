"""ONNX operations with windows: convolutions and pools over h and w, or over h alone, and of volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.isa.layout import CHANNELS_MAX
from user_layers.net import phases
from user_layers.net.functions import WHOLE_PLANE
from user_layers.net.volumes import Planes, Three, Volumes
from user_layers.onnx.lower import Lowering, Unsupported, converts, reshape_param
from user_layers.onnx.model import Array, Node
from user_layers.onnx.unfold import Axis, Problem, rows_fold, unfold_param, unfolded_weights
from user_layers.onnx.window_axes import axes_of


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


ONE_TAP = Window((1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0))


def plane_window(h: Axis, w: Axis) -> Window:
    """A window over h and w."""
    return Window(
        (h.kernel, w.kernel),
        (h.stride, w.stride),
        (h.dilation, w.dilation),
        (h.before, w.before),
        (h.after, w.after),
        (h.extra, w.extra),
    )


def window_of(node: Node, extents: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """The windows of a node. Raises Unsupported for other than one or two spatial dimensions."""
    if len(extents) not in (1, 2):
        raise Unsupported(f"{len(extents)} spatial dimensions; layers have one or two")
    axes = axes_of(node, extents, kernel)
    return plane_window(*axes) if len(axes) == 2 else plane_window(Axis(1), axes[0])


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
    """Weights and bias are constants. Volumes, [N, C, D, H, W], are planes: rows and planes of a window are
    channels of a convolution, groups one layer (TPU_CONV3D), the rest a convolution for each tap, added up.
    """
    to.need_float(*node.inputs)
    weights = to.known(node, 1)
    assert weights is not None
    groups = int(node.attributes.get("group", 1))
    shape = to.shape(node.inputs[0])
    if len(shape) == 5:
        _conv_of_volumes(to, node, weights, groups)
        return
    bias = to.known(node, 2) is not None
    if len(shape) == 4 and groups == 1:
        h, w = axes_of(node, shape[2:], weights.shape[2:])
        made, computed = to.shape(node.outputs[0]), node.inputs[0] not in to.graph.inputs
        if rows_fold(Problem(shape, made, 1, Axis(1), h, w, bias, computed)):
            _conv_of_rows(to, node, weights, h, w)
            return
    if len(shape) not in (3, 4):
        raise Unsupported(f"{len(shape) - 2} spatial dimensions; layers have one, two or three")
    columns = [Axis(1)] * (4 - len(shape))
    window = plane_window(*axes_of(node, shape[2:], weights.shape[2:]), *columns)
    kernels = to.tensor(node.inputs[1])
    if columns:
        kernels = to.add_const(weights[..., None], f"{node.inputs[1]}:rows")
    inputs = [to.tensor(node.inputs[0]), kernels]
    if bias:
        inputs.append(to.tensor(node.inputs[2]))
    to.simple("TPU_CONV", node, inputs, {"groups": groups, **window.fields()})


def _conv_of_rows(to: Lowering, node: Node, weights: Array, h: Axis, w: Axis) -> None:
    """A convolution along w whose channels are the rows of the kernel, too."""
    x = to.between("TPU_UNFOLD", node, [to.tensor(node.inputs[0])], unfold_param(1, Axis(1), h))
    rows = to.add_const(unfolded_weights(weights[:, :, None], rows=True), f"{node.inputs[1]}:rows")
    inputs = [x, rows]
    if to.known(node, 2) is not None:
        inputs.append(to.tensor(node.inputs[2]))
    to.simple("TPU_CONV", node, inputs, {"groups": 1, **plane_window(Axis(1), w).fields()})


def pool_param(window: Window, *, average: bool, count_pads: bool) -> dict[str, int]:
    """The parameters of TPU_POOL for windows (not for a whole plane)."""
    param = {"mode": int(average), "whole": 0, **window.fields(), "count_include_pad": int(count_pads)}
    return param | {"extra_bottom": window.extra[0], "extra_right": window.extra[1]}


@converts("MaxPool", "AveragePool")
def pool(to: Lowering, node: Node) -> None:
    """Two pools in turn for volumes, [N, C, D, H, W]. Unsupported where indices of maxima are outputs."""
    to.need_float(node.inputs[0])
    if len([name for name in node.outputs if name]) > 1:
        raise Unsupported("indices of the maxima")
    shape = to.shape(node.inputs[0])
    if len(shape) == 5:
        _pool_of_volumes(to, node)
        return
    if len(shape) not in (3, 4):
        raise Unsupported(f"{len(shape) - 2} spatial dimensions; layers have one, two or three")
    columns = [Axis(1)] * (4 - len(shape))
    window = plane_window(*axes_of(node, shape[2:], tuple(node.attributes["kernel_shape"])), *columns)
    pads = bool(node.attributes.get("count_include_pad", 0))
    param = pool_param(window, average=node.op == "AveragePool", count_pads=pads)
    to.simple("TPU_POOL", node, [to.tensor(node.inputs[0])], param)


def _pool_of_volumes(to: Lowering, node: Node) -> None:
    """Over h and w, then over d: the largest, the sum and the number of elements part that way. Volumes that
    are there as planes stay planes."""
    n, c, d, h, w = to.shape(node.inputs[0])
    lengths = to.shape(node.outputs[0])
    axes = axes_of(node, (d, h, w), tuple(node.attributes["kernel_shape"]))
    average, pads = node.op == "AveragePool", bool(node.attributes.get("count_include_pad", 0))
    param = pool_param(plane_window(*axes[1:]), average=average, count_pads=pads)
    if axes[0] == Axis(1):
        to.plane_by_plane("TPU_POOL", node, [to.planes(node.inputs[0])], param)
        return
    planes = Planes(d, lengths[2], axes[0].kernel, axes[0].stride, axes[0].dilation, axes[0].before)
    if to.in_planes(node.inputs[0]) and planes.pooled:
        pooled = to.planes(node.inputs[0])
        if axes[1:] != [Axis(1)] * 2:
            pooled = to.between("TPU_POOL", node, [pooled], param)
        along = {"mode": int(average), "planes": d, "kernel": planes.kernel, "stride": planes.stride}
        along |= {"dilation": planes.dilation, "pad_front": planes.before, "pad_back": axes[0].after}
        along |= {"extra_back": axes[0].extra, "count_include_pad": int(pads)}
        to.plane_by_plane("TPU_POOL_PLANES", node, [pooled], along)
        return
    flat = to.between("TPU_RESHAPE", node, [to.tensor(node.inputs[0])], reshape_param(n, c * d, h, w))
    pooled = to.between("TPU_POOL", node, [flat], param)
    rows = to.between("TPU_RESHAPE", node, [pooled], reshape_param(n, c, d, lengths[3] * lengths[4]))
    param = pool_param(plane_window(axes[0], Axis(1)), average=average, count_pads=pads)
    to.simple("TPU_RESHAPE", node, [to.between("TPU_POOL", node, [rows], param)], reshape_param(*lengths))


def _conv_of_volumes(to: Lowering, node: Node, weights: Array, groups: int) -> None:
    """In groups of channels one layer; else a convolution of planes, whose channels are those of all planes
    that the window sees."""
    n, c, d, h, w = to.shape(node.inputs[0])
    _, out_c, length, out_h, out_w = to.shape(node.outputs[0])
    along, *axes = axes_of(node, (d, h, w), weights.shape[2:])
    volumes = _volumes((n, c, d, h, w), weights, groups, (along, *axes))
    if groups > 1 and along != Axis(1) and volumes.one_layer:
        inputs = [to.planes(node.inputs[0]), *(to.tensor(name) for name in node.inputs[1:] if name)]
        to.plane_by_plane("TPU_CONV3D", node, inputs, volumes.param)
        return
    if (groups > 1 and along != Axis(1)) or c * along.kernel > CHANNELS_MAX:
        _conv_by_planes(to, node, weights, groups)
        return
    bias = to.known(node, 2) is not None
    made = n * length, out_c, out_h, out_w
    computed = node.inputs[0] not in to.graph.inputs
    problem = Problem((n * d, c, h, w), made, d, along, axes[0], axes[1], bias, computed)
    rows = groups == 1 and rows_fold(problem)
    x = to.planes(node.inputs[0])
    if rows or along != Axis(1):
        x = to.between("TPU_UNFOLD", node, [x], unfold_param(d, along, axes[0] if rows else Axis(1)))
    inputs = [x, to.add_const(unfolded_weights(weights, rows), f"{node.inputs[1]}:planes")]
    if bias:
        inputs.append(to.tensor(node.inputs[2]))
    window = plane_window(Axis(1) if rows else axes[0], axes[1])
    to.plane_by_plane("TPU_CONV", node, inputs, {"groups": groups, **window.fields()})


def _volumes(shape: tuple[int, ...], weights: Array, groups: int, axes: Sequence[Axis]) -> Volumes:
    def three(values: Iterable[int]) -> Three:
        d, h, w = values
        return d, h, w

    return Volumes(
        shape,
        weights.shape,
        groups,
        three(axis.stride for axis in axes),
        three(axis.dilation for axis in axes),
        three(axis.before for axis in axes),
        three(axis.after for axis in axes),
    )


def _conv_by_planes(to: Lowering, node: Node, weights: Array, groups: int) -> None:
    """A convolution for each step of the kernel along d, added up: for groups of channels that no layer takes
    as they are, and for more channels than there can be."""
    n, c, d, h, w = to.shape(node.inputs[0])
    length = to.shape(node.outputs[0])[2]
    along, *axes = axes_of(node, (d, h, w), weights.shape[2:])
    x = to.between("TPU_RESHAPE", node, [to.planes(node.inputs[0])], reshape_param(n, d, c, h, w))
    if along.before or along.after:
        ends = {"before": [0, along.before, *[0] * 6], "after": [0, along.after, *[0] * 6]}
        x = to.between("TPU_PAD", node, [x], {"mode": 0, "value": 0.0, "bits": 0, **ends})
    param = {"groups": groups, **plane_window(*axes).fields()}
    total = ""
    for step in range(along.kernel):
        first = step * along.dilation
        last = first + (length - 1) * along.stride + 1
        cut: dict[str, object] = {"count": 1, "axes": [1, *[0] * 7], "starts": [first, *[0] * 7]}
        cut |= {"ends": [last, *[0] * 7], "steps": [along.stride, *[1] * 7]}
        part = to.between("TPU_SLICE", node, [x], cut)
        inputs = [
            to.between("TPU_RESHAPE", node, [part], reshape_param(n * length, c, h, w)),
            to.add_const(weights[:, :, step], f"{node.inputs[1]}:{step}"),
        ]
        if step == 0 and to.known(node, 2) is not None:
            inputs.append(to.tensor(node.inputs[2]))
        if along.kernel == 1:
            to.plane_by_plane("TPU_CONV", node, inputs, param)
            return
        made = to.between("TPU_CONV", node, inputs, param)
        if step == along.kernel - 1:
            to.plane_by_plane("TPU_BINARY", node, [total, made], {"binary_op": 0})
        else:
            total = to.between("TPU_BINARY", node, [total, made], {"binary_op": 0}) if total else made


@converts("GlobalMaxPool", "GlobalAveragePool")
def global_pool(to: Lowering, node: Node) -> None:
    """One number for each plane of [N, C, W] or [N, C, H, W], or for each volume of [N, C, D, H, W]."""
    to.need_float(node.inputs[0])
    shape = to.shape(node.inputs[0])
    if len(shape) not in (3, 4, 5):
        raise Unsupported("only one, two or three spatial dimensions")
    average = node.op == "GlobalAveragePool"
    if len(shape) < 5:
        to.simple("TPU_POOL", node, [to.tensor(node.inputs[0])], whole(average))
        return
    n, c, d, h, w = shape
    flat = to.between("TPU_RESHAPE", node, [to.tensor(node.inputs[0])], reshape_param(n, c, d * h, w))
    made = to.between("TPU_POOL", node, [flat], whole(average))
    to.simple("TPU_RESHAPE", node, [made], reshape_param(n, c, 1, 1, 1))


def whole(average: bool, of: int = WHOLE_PLANE) -> dict[str, int]:
    """The parameters of TPU_POOL for whole planes, or each whole column or row."""
    return {"mode": int(average), "whole": of, **ONE_TAP.fields()}


@converts("LRN")
def lrn(to: Lowering, node: Node) -> None:
    """Across channels, with ONNX's defaults for alpha, beta and bias."""
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
    rank = weights.ndim - 2
    if rank not in (1, 2, 3):
        raise Unsupported(f"{rank} spatial dimensions; layers have one, two or three")
    extents, lengths = (to.shape(name)[2:] for name in (node.inputs[0], node.outputs[0]))
    plain = Node(node.op, node.domain, node.name, node.inputs, node.outputs, _without_pads(node))
    axes = axes_of(plain, extents, weights.shape[2:])
    more = [int(v) for v in node.attributes.get("output_padding", [0] * rank)]
    before, after = _transposed_pads(node, axes, extents, lengths, more)
    if min(*before, *after) < 0:
        raise Unsupported("an output that is larger than the windows reach")
    groups = int(node.attributes.get("group", 1))
    param = {"groups": groups, **plane_window(*[Axis(1), *axes][-2:]).fields()}
    for names, values in (
        (("pad_top", "pad_left"), before),
        (("pad_bottom", "pad_right"), after),
        (("output_pad_h", "output_pad_w"), more),
    ):
        param |= dict(zip(names, (0, *values)[-2:], strict=True))
    if rank == 3:
        _transposed_volumes(to, node, weights, replace(axes[0], before=before[0]), param)
        return
    inputs = [
        planes(to, node, node.inputs[0]),
        _kernels(to, node),
    ]
    if to.known(node, 2) is not None:
        inputs.append(to.tensor(node.inputs[2]))
    result(to, node, "TPU_DECONV", inputs, param)


def _transposed_volumes(to: Lowering, node: Node, weights: Array, along: Axis, param: dict[str, int]) -> None:
    """A transposed convolution of planes, whose channels are those of all planes that make the planes of all
    phases of the stride along d, which are channels of the result. along: d, `before` are planes left out."""
    n, c, d = to.shape(node.inputs[0])[:3]
    _, out_c, length, out_h, out_w = to.shape(node.outputs[0])
    if param["groups"] > 1 or along.dilation > 1:
        raise Unsupported("a transposed convolution of volumes with groups, or dilated along d")
    depth = phases.Axis(d, length, along.kernel, along.stride, along.before)
    if min(depth.pads) < 0 or c * depth.taps > CHANNELS_MAX:
        raise Unsupported(
            "a transposed convolution of volumes that leaves out whole planes, or of many channels"
        )
    x = to.planes(node.inputs[0])
    if depth.taps > 1 or any(depth.pads):
        planes_of = Axis(depth.taps, before=depth.pads[0], after=depth.pads[1])
        x = to.between("TPU_UNFOLD", node, [x], unfold_param(d, planes_of, Axis(1)))
    inputs = [x, to.add_const(phases.of_planes(weights, depth), f"{node.inputs[1]}:planes")]
    bias = to.known(node, 2)
    if bias is not None:
        inputs.append(to.add_const(np.tile(bias, depth.stride), f"{node.inputs[2]}:planes"))
    made = to.between("TPU_DECONV", node, inputs, param)
    squares = -(-length // depth.stride)
    if squares * depth.stride == length:
        to.plane_by_plane("TPU_RESHAPE", node, [made], reshape_param(n * length, out_c, out_h, out_w))
        return
    every = reshape_param(n, squares * depth.stride, out_c, out_h, out_w)
    cut: dict[str, object] = {"count": 1, "axes": [1, *[0] * 7], "starts": [0] * 8}
    cut |= {"ends": [length, *[0] * 7], "steps": [1] * 8}
    kept = to.between("TPU_SLICE", node, [to.between("TPU_RESHAPE", node, [made], every)], cut)
    to.plane_by_plane("TPU_RESHAPE", node, [kept], reshape_param(n * length, out_c, out_h, out_w))


def _without_pads(node: Node) -> dict[str, object]:
    return {k: v for k, v in node.attributes.items() if k not in ("pads", "auto_pad", "output_padding")}


def _transposed_pads(
    node: Node, axes: list[Axis], extents: tuple[int, ...], lengths: tuple[int, ...], more: list[int]
) -> tuple[list[int], list[int]]:
    """Elements cut off at both ends of each axis, from the output's extents (ONNX, ConvTranspose)."""
    rank = len(extents)
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID") and "output_shape" not in node.attributes:
        pads = [int(v) for v in node.attributes.get("pads", [0] * 2 * rank)]
        return pads[:rank], pads[rank:]
    before, after = [], []
    for axis, extent, length, extra in zip(axes, extents, lengths, more, strict=True):
        reach = (axis.kernel - 1) * axis.dilation + 1
        total = axis.stride * (extent - 1) + extra + reach - length
        small, large = total // 2, total - total // 2
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
    return before, after
