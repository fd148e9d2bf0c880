"""Random layers of Caffe, all types, as hypothesis strategies: fields, bottoms, blobs, number of tops.

Fields are those of the layer's parameters as the prototxt has them; what is not there has the default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import assume
from hypothesis import strategies as st

Array = npt.NDArray[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Case:
    """One layer. told: its fields. bottoms, blobs: float32."""

    kind: str
    told: dict[str, Any]
    bottoms: list[Array]
    blobs: list[Array] = field(default_factory=list)
    tops: int = 1


CASES: dict[str, Callable[[Draw, str], Case]] = {}


def _of(*kinds: str) -> Callable[[Callable[[Draw, str], Case]], Callable[[Draw, str], Case]]:
    def register(function: Callable[[Draw, str], Case]) -> Callable[[Draw, str], Case]:
        CASES.update(dict.fromkeys(kinds, function))
        return function

    return register


def cases(kind: str) -> st.SearchStrategy[Case]:
    """Layers of one type."""
    return st.composite(lambda draw: CASES[kind](draw, kind))()


def _whole(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def _maybe(draw: Draw, told: dict[str, Any], **fields: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Some of the fields, each there or left out."""
    for name, strategy in fields.items():
        if draw(st.booleans()):
            told[name] = draw(strategy)
    return told


def _shape(draw: Draw, low: int = 1, high: int = 4, most: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.lists(_whole(1, most), min_size=low, max_size=high)))


def _random(draw: Draw, *shape: int, low: float = -2, high: float = 2) -> Array:
    rng = np.random.default_rng(draw(_whole(0, 999)))
    return rng.uniform(low, high, shape).astype(np.float32)


def _axis(draw: Draw, rank: int) -> int:
    """Counted from either end."""
    return int(draw(_whole(-rank, rank - 1)))


_NUMBERS = st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.0, 0.1])


@_of("AbsVal", "BNLL", "Mish", "Sigmoid", "TanH", "ReLU6")
def _plain(draw: Draw, kind: str) -> Case:
    return Case(kind, {}, [_random(draw, *_shape(draw, 1, 5), low=-9, high=9)])


@_of("ReLU", "ELU", "Swish", "Threshold", "Clip", "Dropout")
def _with_numbers(draw: Draw, kind: str) -> Case:
    names = {
        "ReLU": "negative_slope",
        "ELU": "alpha",
        "Swish": "beta",
        "Threshold": "threshold",
        "Dropout": "dropout_ratio",
    }
    told = {} if kind == "Clip" else _maybe(draw, {}, **{names[kind]: st.sampled_from([0.5, 0.1, 0.25])})
    if kind == "Clip":
        told = {"min": -1.0, "max": draw(st.sampled_from([-0.5, 1.5]))}
    return Case(kind, told, [_random(draw, *_shape(draw), low=-4, high=4)])


@_of("Power")
def _power(draw: Draw, kind: str) -> Case:
    powers = st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.75, 1.5])
    told = _maybe(draw, {}, power=powers, scale=st.sampled_from([0.0, 1.0, 2.0, 0.5]), shift=_NUMBERS)
    assume(told.get("shift", 0) > 0 or (told.get("shift", 0) == 0 and told.get("scale", 1) > 0))
    return Case(kind, told, [_random(draw, *_shape(draw), low=0.1)])


@_of("Exp", "Log")
def _exp(draw: Draw, kind: str) -> Case:
    told = _maybe(
        draw,
        {},
        base=st.sampled_from([-1.0, 2.0, 10.0, 0.5]),
        scale=st.sampled_from([1.0, 0.5, 2.0]),
        shift=st.sampled_from([0.0, 0.25, 1.0]),
    )
    return Case(kind, told, [_random(draw, *_shape(draw), low=0.1)])


@_of("PReLU")
def _prelu(draw: Draw, kind: str) -> Case:
    shape, told = _shape(draw, 2), _maybe(draw, {}, channel_shared=st.booleans())
    return Case(
        kind, told, [_random(draw, *shape)], [_random(draw, 1 if told.get("channel_shared") else shape[1])]
    )


@_of("Split")
def _split(draw: Draw, kind: str) -> Case:
    return Case(kind, {}, [_random(draw, *_shape(draw))], tops=draw(_whole(1, 3)))


@_of("Eltwise")
def _eltwise(draw: Draw, kind: str) -> Case:
    shape, count = _shape(draw), draw(_whole(2, 4))
    told = _maybe(draw, {}, operation=st.sampled_from(["PROD", "SUM", "MAX"]))
    if told.get("operation", "SUM") == "SUM" and draw(st.booleans()):
        told["coeff"] = tuple(draw(st.lists(_NUMBERS, min_size=count, max_size=count)))
    return Case(kind, told, [_random(draw, *shape) for _ in range(count)])


@_of("Axpy")
def _axpy(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 4)
    factors = shape[:2] if draw(st.booleans()) else (*shape[:2], 1, 1)
    return Case(kind, {}, [_random(draw, *s) for s in (factors, shape, shape)])


@_of("Scale", "Bias")
def _scale(draw: Draw, kind: str) -> Case:
    shape, told = _shape(draw, 2), {}
    first = 1
    if draw(st.booleans()):
        told["axis"] = _axis(draw, len(shape))
        first = told["axis"] % len(shape)
    count = draw(_whole(0, len(shape) - first))
    covered = shape[first : first + count]
    bias = kind == "Scale" and draw(st.booleans())
    if bias:
        told["bias_term"] = True
    bottoms, blobs = [_random(draw, *shape)], [_random(draw, *covered)]
    if count and draw(st.booleans()):
        bottoms += blobs
        blobs = []
    elif count != 1:
        told["num_axes"] = -1 if first + count == len(shape) and count and draw(st.booleans()) else count
    return Case(kind, told, bottoms, [*blobs, *([_random(draw, *covered)] if bias else [])])


@_of("BatchNorm")
def _batch_norm(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 2, 5)
    told = _maybe(draw, {}, use_global_stats=st.booleans(), eps=st.sampled_from([1e-5, 1e-3]))
    if told.get("use_global_stats") is False:
        shape = (3, shape[1], *shape[2:])  # the variance of one element is 0, and eps then counts for much
    factor = np.array([draw(st.sampled_from([0.0, 1.0, 999.98]))], np.float32)
    blobs = [_random(draw, shape[1]), _random(draw, shape[1], low=0.1), factor]
    return Case(kind, told, [_random(draw, *shape)], [blob * (factor or 1) for blob in blobs[:2]] + [factor])


# ---- windows ----


def _sizes(draw: Draw, told: dict[str, Any], name: str, values: list[int], *, repeated: bool) -> None:
    """The same numbers as one field, as one for each axis, or as NAME_h and NAME_w."""
    base = "kernel_size" if name == "kernel" else name
    forms = ["each"] if repeated else []
    if len(set(values)) == 1:
        forms.append("once")
    if len(values) == 2:
        forms.append("pair")
    form = draw(st.sampled_from(forms))
    if form == "pair":
        told |= {f"{name}_h": values[0], f"{name}_w": values[1]}
    else:
        told[base] = (tuple(values) if form == "each" else (values[0],)) if repeated else values[0]


@_of("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Deconvolution")
def _convolution(draw: Draw, kind: str) -> Case:
    count = draw(_whole(1, 3)) if kind == "Convolution" else 2
    told: dict[str, Any] = {}
    kernel = [draw(_whole(1, 3)) for _ in range(count)]
    stride = [draw(_whole(1, 3)) for _ in range(count)]
    pad = [draw(_whole(0, 2)) for _ in range(count)]
    dilation = [draw(_whole(1, 2)) for _ in range(count)]
    extents = [draw(_whole(1, 5)) for _ in range(count)]
    for n, k, s, p, d in zip(extents, kernel, stride, pad, dilation, strict=True):
        reach = d * (k - 1) + 1
        assume((s * (n - 1) + reach - 2 * p if kind == "Deconvolution" else n + 2 * p - reach + 1) > 0)
    group, multiple = draw(_whole(1, 3)), draw(_whole(1, 2))
    deep = "epth" in kind
    channels = group if deep else group * draw(_whole(1, 2))
    told["num_output"] = group * multiple
    if group > 1 and not (deep and draw(st.booleans())):
        told["group"] = group
    _sizes(draw, told, "kernel", kernel, repeated=True)
    if stride != [1] * count or draw(st.booleans()):
        _sizes(draw, told, "stride", stride, repeated=True)
    if pad != [0] * count or draw(st.booleans()):
        _sizes(draw, told, "pad", pad, repeated=True)
    if dilation != [1] * count:
        told["dilation"] = tuple(dilation)
    _maybe(draw, told, bias_term=st.booleans())
    sides = (channels, multiple) if kind == "Deconvolution" else (group * multiple, channels // group)
    before: tuple[int, ...] = (draw(_whole(1, 2)),)
    if kind == "Convolution" and draw(_whole(0, 3)) == 0:
        before = tuple(draw(st.lists(_whole(1, 2), min_size=0, max_size=2)))
        told["axis"] = len(before) if draw(st.booleans()) else -count - 1
    many = draw(_whole(1, 2)) if kind == "Convolution" else 1
    bottoms = [_random(draw, *before, channels, *extents) for _ in range(many)]
    blobs = [_random(draw, *sides, *kernel)]
    if told.get("bias_term", True):
        blobs.append(_random(draw, group * multiple))
    return Case(kind, told, bottoms, blobs, tops=many)


@_of("Pooling")
def _pooling(draw: Draw, kind: str) -> Case:
    extents = [draw(_whole(1, 7)) for _ in range(2)]
    x = [_random(draw, 1, draw(_whole(1, 2)), *extents)]
    told = _maybe(draw, {}, pool=st.sampled_from(["MAX", "AVE"]))
    tops = draw(_whole(1, 2)) if told.get("pool", "MAX") == "MAX" else 1
    if draw(_whole(0, 4)) == 0:
        return Case(kind, told | {"global_pooling": True}, x, tops=tops)
    kernel = [draw(_whole(1, 4)) for _ in range(2)]
    stride = [draw(_whole(1, 3)) for _ in range(2)]
    pad = [draw(_whole(0, k - 1)) for k in kernel]
    down = False
    if draw(st.booleans()):
        told |= draw(st.sampled_from([{"round_mode": "FLOOR"}, {"ceil_mode": False}, {"ceil_mode": True}]))
        down = told.get("ceil_mode") is not True
    for n, k, s, p in zip(extents, kernel, stride, pad, strict=True):
        room = (n + 2 * p - k) / s
        size = (math.floor(room) if down else math.ceil(room)) + 1
        assume(size > 0 and (any(pad) or (size - 1) * s < n))  # the last window has elements
    _sizes(draw, told, "kernel", kernel, repeated=False)
    _sizes(draw, told, "stride", stride, repeated=False)
    if any(pad) or draw(st.booleans()):
        _sizes(draw, told, "pad", pad, repeated=False)
    return Case(kind, told, x, tops=tops)


@_of("SPP")
def _pyramid(draw: Draw, kind: str) -> Case:
    levels = draw(_whole(1, 3))
    extents = [draw(st.sampled_from([4, 7, 8, 11])) for _ in range(2)]
    told = _maybe(draw, {"pyramid_height": levels}, pool=st.sampled_from(["MAX", "AVE"]))
    return Case(kind, told, [_random(draw, 2, 2, *extents)])


@_of("LRN")
def _lrn(draw: Draw, kind: str) -> Case:
    told = _maybe(
        draw,
        {},
        local_size=st.sampled_from([1, 3, 5]),
        alpha=st.sampled_from([1e-4, 0.5, 1.0]),
        beta=st.sampled_from([0.5, 0.75, 1.0]),
        norm_region=st.sampled_from(["ACROSS_CHANNELS", "WITHIN_CHANNEL"]),
        k=st.sampled_from([1.0, 2.0]),
    )
    return Case(kind, told, [_random(draw, *_shape(draw, 4, 4, most=6))])


@_of("ROIPooling")
def _roi_pooling(draw: Draw, kind: str) -> Case:
    told = _maybe(
        draw, {"pooled_h": draw(_whole(1, 3)), "pooled_w": draw(_whole(1, 3))}, spatial_scale=st.just(0.5)
    )
    count = draw(_whole(1, 3))
    corners = [[draw(_whole(0, 1)), *(draw(_whole(0, 13)) for _ in range(4))] for _ in range(count)]
    regions = np.array(corners, np.float32)
    if draw(st.booleans()):
        regions = regions[:, :, None, None]
    return Case(kind, told, [_random(draw, 2, 2, draw(_whole(2, 8)), draw(_whole(2, 8))), regions])


@_of("Upsample")
def _upsample(draw: Draw, kind: str) -> Case:
    told: dict[str, Any] = {"scale": draw(_whole(2, 4))}
    if draw(st.booleans()):
        return Case(kind, told, [_random(draw, *_shape(draw, 3, 4))])
    h, w = draw(_whole(1, 3)), draw(_whole(1, 3))
    if draw(st.booleans()):
        told = {"upsample_h": 3 * h + 1, "upsample_w": 2 * w}
    elif draw(st.booleans()):
        told = {"scale_h": 2, "scale_w": 3, "pad_out_h": True}
    size = [
        told.get(f"upsample_{axis}")
        or n * (told.get(f"scale_{axis}") or told["scale"]) - told.get(f"pad_out_{axis}", 0)
        for axis, n in zip("hw", (h, w), strict=True)
    ]
    assume(h * w <= math.prod(size))
    rng = np.random.default_rng(draw(_whole(0, 99)))
    masks = [rng.permutation(math.prod(size))[: h * w] for _ in range(4)]
    mask = np.array(masks, np.float32).reshape(2, 2, h, w)
    return Case(kind, told, [_random(draw, 2, 2, h, w), mask])


@_of("Interp")
def _interp(draw: Draw, kind: str) -> Case:
    told = _maybe(draw, {}, pad_beg=_whole(-2, 0), pad_end=_whole(-1, 0))
    x = [_random(draw, 1, 2, draw(_whole(4, 7)), draw(_whole(4, 7)))]
    form = draw(st.sampled_from(["size", "shrink", "zoom", "both", "second"]))
    if form == "size":
        told |= {"height": draw(_whole(1, 9)), "width": draw(_whole(1, 9))}
    if form in ("shrink", "both"):
        told["shrink_factor"] = draw(_whole(2, 3))
    if form in ("zoom", "both"):
        told["zoom_factor"] = draw(_whole(2, 3))
    if form == "second":
        x.append(_random(draw, 1, 1, draw(_whole(1, 9)), draw(_whole(1, 9))))
    return Case(kind, told, x)


# ---- products, reductions, normalizations ----


@_of("InnerProduct")
def _inner_product(draw: Draw, kind: str) -> Case:
    shape, outputs = _shape(draw, 1, 4), draw(_whole(1, 4))
    axis = _axis(draw, len(shape)) if len(shape) < 2 or draw(st.booleans()) else 1
    told = _maybe(draw, {"num_output": outputs}, transpose=st.booleans(), bias_term=st.booleans())
    if axis != 1:
        told["axis"] = axis
    length = math.prod(shape[axis % len(shape) :])
    sides = (length, outputs) if told.get("transpose") else (outputs, length)
    blobs = [_random(draw, *sides), *([_random(draw, outputs)] if told.get("bias_term", True) else [])]
    return Case(kind, told, [_random(draw, *shape)], blobs)


@_of("Softmax", "LogSoftmax")
def _softmax(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 2)
    axis = _axis(draw, len(shape))
    return Case(kind, {} if axis == 1 else {"axis": axis}, [_random(draw, *shape)])


@_of("ArgMax")
def _arg_max(draw: Draw, kind: str) -> Case:
    shape, told = _shape(draw, 1, 5), _maybe(draw, {}, out_max_val=st.booleans())
    if draw(st.booleans()):
        told["axis"] = _axis(draw, len(shape))
    most = shape[told["axis"]] if "axis" in told else math.prod(shape[1:])
    _maybe(draw, told, top_k=_whole(1, most))
    # Few numbers, so that some are equal.
    return Case(kind, told, [np.round(_random(draw, *shape))])


@_of("Reduction")
def _reduction(draw: Draw, kind: str) -> Case:
    shape = _shape(draw)
    kinds = st.sampled_from(["SUM", "ASUM", "SUMSQ", "MEAN"])
    told = _maybe(draw, {}, operation=kinds, coeff=st.sampled_from([0.5, 2.0]))
    if draw(st.booleans()):
        told["axis"] = _axis(draw, len(shape))
    return Case(kind, told, [_random(draw, *shape)])


@_of("Embed")
def _embed(draw: Draw, kind: str) -> Case:
    inputs, outputs = draw(_whole(1, 5)), draw(_whole(1, 4))
    told = _maybe(draw, {"input_dim": inputs, "num_output": outputs}, bias_term=st.booleans())
    x = np.floor(_random(draw, *_shape(draw, 1, 2), low=0, high=inputs - 0.01))
    blobs = [
        _random(draw, inputs, outputs),
        *([_random(draw, outputs)] if told.get("bias_term", True) else []),
    ]
    return Case(kind, told, [x], blobs)


@_of("BatchReindex")
def _batch_reindex(draw: Draw, kind: str) -> Case:
    shape = _shape(draw)
    return Case(
        kind,
        {},
        [_random(draw, *shape), np.floor(_random(draw, draw(_whole(1, 5)), low=0, high=shape[0] - 0.01))],
    )


@_of("MVN")
def _mvn(draw: Draw, kind: str) -> Case:
    told = _maybe(
        draw,
        {},
        normalize_variance=st.booleans(),
        across_channels=st.booleans(),
        eps=st.sampled_from([1e-9, 0.01]),
    )
    low = 2 if told.get("across_channels") else 3
    return Case(kind, told, [_random(draw, *(n + 1 for n in _shape(draw, low)))])


@_of("Normalize")
def _normalize(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 2)
    told = _maybe(
        draw,
        {},
        across_spatial=st.booleans(),
        channel_shared=st.booleans(),
        eps=st.sampled_from([1e-10, 0.1]),
    )
    return Case(
        kind,
        told,
        [_random(draw, *shape)],
        [_random(draw, 1 if told.get("channel_shared", True) else shape[1])],
    )


# ---- movement ----


@_of("Concat")
def _concat(draw: Draw, kind: str) -> Case:
    shape = list(_shape(draw, 2))
    told = draw(st.sampled_from([{}, {"concat_dim": 0}, {"axis": _axis(draw, len(shape))}]))
    axis = told.get("concat_dim", told.get("axis", 1))
    x = []
    for _ in range(draw(_whole(1, 3))):
        shape[axis] = draw(_whole(1, 3))
        x.append(_random(draw, *shape))
    return Case(kind, told, x)


@_of("Slice")
def _slice(draw: Draw, kind: str) -> Case:
    shape, tops = list(_shape(draw, 2)), draw(_whole(1, 3))
    told = draw(st.sampled_from([{}, {"slice_dim": 0}, {"axis": _axis(draw, len(shape))}]))
    axis = told.get("slice_dim", told.get("axis", 1))
    if draw(st.booleans()) or tops == 1:
        shape[axis] = tops * draw(_whole(1, 3))
    else:
        shape[axis] = draw(_whole(tops, 7))
        points = draw(st.lists(_whole(1, shape[axis] - 1), min_size=tops - 1, max_size=tops - 1, unique=True))
        told = {**told, "slice_point": tuple(sorted(points))}
    return Case(kind, told, [_random(draw, *shape)], tops=tops)


@_of("Flatten")
def _flatten(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 2)
    told = _maybe(
        draw, {}, axis=_whole(-len(shape), len(shape) - 1), end_axis=_whole(-len(shape), len(shape) - 1)
    )
    assume(told.get("axis", 1) % len(shape) <= told.get("end_axis", -1) % len(shape))
    return Case(kind, told, [_random(draw, *shape)])


@_of("Reshape")
def _reshape(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 1, 4, most=6)
    first = draw(_whole(0, len(shape)))
    last = draw(_whole(first, len(shape)))
    product = math.prod(shape[first:last])
    dims: list[int] = []
    for extent in shape[first:last]:
        small = draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0]))
        dims += draw(st.sampled_from([[extent], [small, extent // small], [extent, 1]]))
    for i, n in enumerate(dims):
        if first + i < len(shape) and shape[first + i] == n and draw(st.booleans()):
            dims[i] = 0
    if dims and draw(st.booleans()):
        dims[draw(_whole(0, len(dims) - 1))] = -1
    assert product
    told: dict[str, Any] = {"shape": {"dim": tuple(dims)}}
    if first:
        told["axis"] = first if draw(st.booleans()) else first - len(shape) - 1
    if last != len(shape) or draw(st.booleans()):
        told["num_axes"] = last - first
    return Case(kind, told, [_random(draw, *shape)])


@_of("Permute")
def _permute(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 1, 5)
    order = draw(st.permutations(range(len(shape))))[: draw(_whole(1, len(shape)))]
    return Case(kind, {"order": tuple(order)}, [_random(draw, *shape)])


@_of("Crop")
def _crop(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 3, 4, most=6)
    told = _maybe(draw, {}, axis=_whole(-len(shape), len(shape) - 1))
    first = told.get("axis", 2) % len(shape)
    wanted = [draw(_whole(1, n)) for n in shape]
    room = [n - m for n, m in zip(shape[first:], wanted[first:], strict=True)]
    form = draw(st.sampled_from(["none", "one", "each"]))
    if form == "one":
        told["offset"] = (draw(_whole(0, min(room))),)
    if form == "each":
        told["offset"] = tuple(draw(_whole(0, n)) for n in room)
    return Case(kind, told, [_random(draw, *shape), _random(draw, *wanted)])


@_of("Tile")
def _tile(draw: Draw, kind: str) -> Case:
    shape = _shape(draw, 2)
    axis = _axis(draw, len(shape))
    return Case(
        kind, {"tiles": draw(_whole(1, 3)), **({} if axis == 1 else {"axis": axis})}, [_random(draw, *shape)]
    )


@_of("Padding")
def _padding(draw: Draw, kind: str) -> Case:
    told = _maybe(draw, {}, **{f"pad_{side}": _whole(0, 2) for side in "lrtb"}, pad_value=_whole(-1, 2))
    return Case(kind, told, [_random(draw, *_shape(draw, 4))])


@_of("Reorg")
def _reorg(draw: Draw, kind: str) -> Case:
    stride = draw(_whole(1, 3))
    told = _maybe(draw, {"stride": stride}, reverse=st.booleans())
    n, c, h, w = _shape(draw, 4, 4, most=2)
    return Case(kind, told, [_random(draw, n, c * stride**2, h * stride, w * stride)])


@_of("ShuffleChannel")
def _shuffle_channel(draw: Draw, kind: str) -> Case:
    group, told = 1, {}
    if draw(_whole(0, 3)):
        told["group"] = group = draw(_whole(1, 4))
    n, c, *rest = _shape(draw, 2, 4)
    return Case(kind, told, [_random(draw, n, c * group, *rest)])


@_of("Parameter")
def _parameter(draw: Draw, kind: str) -> Case:
    shape = _shape(draw)
    return Case(kind, {"shape": {"dim": shape}}, [], [_random(draw, *shape)])


@_of("DummyData")
def _dummy_data(draw: Draw, kind: str) -> Case:
    tops = draw(_whole(1, 2))
    told: dict[str, Any] = {}
    if draw(st.booleans()):
        told["data_filler"] = tuple(
            {"type": "constant", "value": v} for v in (0.5, 2.0)[: draw(st.sampled_from([1, tops]))]
        )
    if draw(st.booleans()):
        told |= {
            name: (2, 3)[: draw(st.sampled_from([1, tops]))]
            for name in ("num", "channels", "height", "width")
        }
    else:
        told["shape"] = tuple(
            {"dim": dims} for dims in ((2, 3), (1, 2, 2))[: draw(st.sampled_from([1, tops]))]
        )
    return Case(kind, told, [], tops=tops)
