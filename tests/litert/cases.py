"""Random TFLite models of one operation each, with attributes of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.support.tflite_models import Net
from user_layers.spelling.foreign import Array

Case = Callable[[np.random.Generator], Net]
CASES: dict[str, Case] = {}


def _made(make: Callable[[np.random.Generator, str], Net], kind: str, rng: np.random.Generator) -> Net:
    return make(rng, kind)


def _case(*kinds: str) -> Callable[[Callable[[np.random.Generator, str], Net]], None]:
    def register(make: Callable[[np.random.Generator, str], Net]) -> None:
        for kind in kinds:
            CASES[kind] = partial(_made, make, kind)

    return register


def _shape(rng: np.random.Generator, low: int = 1, high: int = 4) -> list[int]:
    return [int(n) for n in rng.integers(1, 6, rng.integers(low, high + 1))]


def _floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.uniform(-2, 2, shape).astype(np.float32)


def _less(rng: np.random.Generator, shape: list[int]) -> list[int]:
    """A shape that is broadcast to another."""
    some = [n if rng.random() < 0.7 else 1 for n in shape]
    return some[int(rng.integers(0, len(shape))) :] if rng.random() < 0.4 else some


def _done(net: Net, *outputs: int) -> Net:
    net.outputs = list(outputs)
    return net


def _activation(rng: np.random.Generator) -> int:
    return int(rng.choice([0, 0, 1, 2, 3]))


def _windows(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "stride_h": int(rng.integers(1, 4)),
        "stride_w": int(rng.integers(1, 4)),
        "padding": int(rng.integers(0, 2)),
        "fused_activation_function": _activation(rng),
    }


@_case(
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU", "RELU6"),
    *("RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH", "ZEROS_LIKE"),
)
def _unary(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    return _done(net, net.op(kind, [net.input(_shape(rng))], ()))


@_case("LOG", "SQRT", "RSQRT")
def _positive(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    x = net.op("SQUARE", [net.input(_shape(rng))], ())
    return _done(net, net.op(kind, [net.op("ADD", [x, net.const(np.array([0.5], np.float32))], ())], ()))


@_case("LEAKY_RELU", "GELU", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")
def _attributed(rng: np.random.Generator, kind: str) -> Net:
    told: Any = {
        "LEAKY_RELU": {"alpha": 0.3},
        "GELU": {"approximate": bool(rng.integers(2))},
        "SOFTMAX": {"beta": float(rng.choice([1.0, 0.5]))},
        "LOG_SOFTMAX": {},
        "L2_NORMALIZATION": {"fused_activation_function": 0},
    }
    net = Net()
    return _done(net, net.op(kind, [net.input(_shape(rng, 2))], (), **told[kind]))


@_case("PRELU")
def _prelu(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    shape = _shape(rng, 4, 4)
    slope = net.const(_floats(rng, *[1 if rng.random() < 0.5 else n for n in shape[1:]]))
    return _done(net, net.op(kind, [net.input(shape), slope], ()))


@_case(
    "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "DIV", "FLOOR_MOD", "FLOOR_DIV", "POW"
)
def _binary(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    shape = _shape(rng)
    x = net.input(shape)
    if kind == "POW":
        x = net.op("ADD", [net.op("SQUARE", [x], ()), net.const(np.array([0.5], np.float32))], ())
    second = _less(rng, shape)
    y = net.const(_floats(rng, *second)) if rng.random() < 0.6 else net.input(second)
    if kind in ("DIV", "FLOOR_MOD", "FLOOR_DIV"):
        y = net.op("ADD", [net.op("SQUARE", [y], ()), net.const(np.array([0.3], np.float32))], ())
    values = [x, y] if rng.random() < 0.5 or kind in ("DIV", "FLOOR_MOD", "FLOOR_DIV", "POW") else [y, x]
    told: Any = (
        {"fused_activation_function": _activation(rng)} if kind in ("ADD", "SUB", "MUL", "DIV") else {}
    )
    return _done(net, net.op(kind, values, (), **told))


@_case("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
def _compare(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    shape = _shape(rng)
    x = net.op("ROUND", [net.input(shape)], ())
    y = net.op("ROUND", [net.input(_less(rng, shape))], ())
    return _done(net, net.op(kind, [x, y], (), dtype="bool"))


@_case("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "REDUCE_ANY", "REDUCE_ALL", "SELECT", "SELECT_V2")
def _logical(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    shape = _shape(rng, 2)
    a, b = (
        net.op("GREATER", [net.input(shape), net.const(np.array([limit], np.float32))], (), dtype="bool")
        for limit in (0, 1)
    )
    if kind.startswith("SELECT"):
        if kind == "SELECT" and rng.random() < 0.5:
            a = net.op(
                "GREATER", [net.input(shape[:1]), net.const(np.array([0], np.float32))], (), dtype="bool"
            )
        return _done(net, net.op(kind, [a, net.input(shape), net.input(shape)], ()))
    if kind.startswith("REDUCE"):
        axes = net.const([int(rng.integers(len(shape)))], "int32")
        return _done(net, net.op(kind, [a, axes], (), dtype="bool", keep_dims=bool(rng.integers(2))))
    return _done(net, net.op(kind, [a] if kind == "LOGICAL_NOT" else [a, b], (), dtype="bool"))


@_case("ADD_N")
def _add_n(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    return _done(net, net.op(kind, [net.input(shape) for _ in range(3)], ()))


@_case("CONV_2D", "DEPTHWISE_CONV_2D")
def _conv(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    told: Any = _windows(rng)
    size = [int(n) for n in rng.integers(1, 4, 2)]
    told |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    if rng.random() < 0.4:
        told |= {
            "stride_h": 1,
            "stride_w": 1,
            "dilation_h_factor": int(rng.integers(1, 4)),
            "dilation_w_factor": int(rng.integers(1, 4)),
        }
    n, h, w, c = (int(rng.integers(1, 3)), *(int(i) for i in rng.integers(8, 13, 2)), int(rng.integers(1, 5)))
    x = net.input((n, h, w, c))
    if kind == "CONV_2D":
        filters = int(rng.integers(1, 6))
        groups = int(rng.choice([g for g in (1, 2) if c % g == 0]))
        filters *= groups
        weights = net.const(_floats(rng, filters, *size, c // groups))
    else:
        told["depth_multiplier"] = int(rng.integers(1, 3))
        if told["depth_multiplier"] > 1 or True:
            told["stride_w"] = told["stride_h"]
        filters = c * told["depth_multiplier"]
        weights = net.const(_floats(rng, 1, *size, filters))
    values = [x, weights, net.const(_floats(rng, filters))]
    return _done(net, net.op(kind, values, (), **told))


@_case("TRANSPOSE_CONV")
def _transpose_conv(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    stride = [int(n) for n in rng.integers(1, 4, 2)]
    size = [int(n) for n in rng.integers(1, 5, 2)]
    same = int(rng.integers(0, 2)) == 0
    n, h, w, c, filters = (
        int(i) for i in (*rng.integers(1, 3, 1), *rng.integers(2, 6, 2), *rng.integers(1, 5, 2))
    )
    out = [e * s if same else (e - 1) * s + k for e, s, k in zip((h, w), stride, size, strict=True)]
    if not same:
        out = [o + max(s - k, 0) for o, s, k in zip(out, stride, size, strict=True)]
    values = [
        net.const([n, *out, filters], "int32"),
        net.const(_floats(rng, filters, *size, c)),
        net.input((n, h, w, c)),
    ]
    if rng.random() < 0.5:
        values.append(net.const(_floats(rng, filters)))
    told: Any = {"stride_h": stride[0], "stride_w": stride[1], "padding": 0 if same else 1}
    return _done(net, net.op(kind, values, (), **told))


@_case("CONV_3D")
def _conv_3d(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    c, filters = (int(n) for n in rng.integers(1, 4, 2))
    x = net.input((1, *(int(n) for n in rng.integers(4, 7, 3)), c))
    weights = net.const(_floats(rng, *(int(n) for n in rng.integers(1, 4, 3)), c, filters))
    told: Any = {f"stride_{axis}": int(rng.integers(1, 3)) for axis in "dhw"}
    told |= {f"dilation_{axis}_factor": 1 for axis in "dhw"} | {"padding": int(rng.integers(0, 2))}
    return _done(net, net.op(kind, [x, weights, net.const(_floats(rng, filters))], (), **told))


@_case("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def _pool(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    told: Any = _windows(rng) | {
        "filter_height": int(rng.integers(1, 5)),
        "filter_width": int(rng.integers(1, 5)),
    }
    x = net.input(
        (int(rng.integers(1, 3)), *(int(i) for i in rng.integers(4, 9, 2)), int(rng.integers(1, 5)))
    )
    return _done(net, net.op(kind, [x], (), **told))


@_case("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    how = int(rng.integers(3))
    x = net.input((1, *(int(i) for i in rng.integers(2, 7, 2)), int(rng.integers(1, 4))))
    size = net.const(rng.integers(1, 12, 2), "int32")
    return _done(net, net.op(kind, [x, size], (), align_corners=how == 1, half_pixel_centers=how == 2))


@_case("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def _blocks(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    b, c, h, w = (int(n) for n in rng.integers(1, 4, 4))
    x = net.input((2, h, w, c * b * b) if kind == "DEPTH_TO_SPACE" else (2, h * b, w * b, c))
    return _done(net, net.op(kind, [x], (), block_size=b))


@_case("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def _batches(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    b0, b1, h, w, c = (int(n) for n in rng.integers(1, 4, 5))
    blocks = net.const([b0, b1], "int32")
    if kind == "BATCH_TO_SPACE_ND":
        x = net.input((2 * b0 * b1, h + 1, w + 1, c))
        crops = net.const([[0, min(1, b0 - 1)], [min(1, b1 - 1), 0]], "int32")
        return _done(net, net.op(kind, [x, blocks, crops], ()))
    x = net.input((2, h * b0 - min(1, b0 - 1), w * b1, c))
    return _done(net, net.op(kind, [x, blocks, net.const([[0, min(1, b0 - 1)], [b1, 0]], "int32")], ()))


@_case("LOCAL_RESPONSE_NORMALIZATION")
def _lrn(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    told: Any = {"radius": int(rng.integers(1, 4)), "bias": 1.5, "alpha": 0.4, "beta": 0.75}
    return _done(net, net.op(kind, [net.input((2, 3, 4, int(rng.integers(1, 9))))], (), **told))


@_case("FULLY_CONNECTED")
def _fully_connected(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    rows = _shape(rng, 1, 3)
    depth, outputs = (int(n) for n in rng.integers(1, 9, 2))
    values = [net.input((*rows, depth)), net.const(_floats(rng, outputs, depth))]
    if rng.random() < 0.7:
        values.append(net.const(_floats(rng, outputs)))
    else:
        values.append(-1)
    told: Any = {"fused_activation_function": _activation(rng), "keep_num_dims": bool(rng.integers(2))}
    return _done(net, net.op(kind, values, (), **told))


@_case("BATCH_MATMUL")
def _batch_matmul(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    batch = _shape(rng, 1, 2)
    n, k, m = (int(i) for i in rng.integers(1, 6, 3))
    x, y = bool(rng.integers(2)), bool(rng.integers(2))
    left = net.input((*batch, *((k, n) if x else (n, k))))
    right = (*batch, *((m, k) if y else (k, m)))
    second = net.const(_floats(rng, *right)) if rng.random() < 0.5 else net.input(right)
    return _done(net, net.op(kind, [left, second], (), adj_x=x, adj_y=y))


@_case("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
def _reduce(rng: np.random.Generator, kind: str) -> Net:
    net = Net()
    shape = _shape(rng)
    axes = rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False)
    if rng.random() < 0.3:
        axes = axes - len(shape)
    values = [_pooled(net, rng, shape), net.const(axes, "int32")]
    return _done(net, net.op(kind, values, (), keep_dims=bool(rng.integers(2))))


def _pooled(net: Net, rng: np.random.Generator, shape: list[int]) -> int:
    """An input, or what an operation with channels first makes of one."""
    x = net.input(shape)
    if len(shape) != 4 or rng.random() < 0.4:
        return x
    told: Any = {"filter_height": 1, "filter_width": 1, "stride_h": 1, "stride_w": 1, "padding": 1}
    return net.op("MAX_POOL_2D", [x], (), **told)


@_case("ARG_MAX", "ARG_MIN")
def _arg(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng, 2)
    dtype, code = ("int64", 4) if rng.random() < 0.5 else ("int32", 2)
    axis = net.const(int(rng.integers(-len(shape), len(shape))), "int32")
    return _done(net, net.op(kind, [_pooled(net, rng, shape), axis], (), dtype=dtype, output_type=code))


@_case("TOPK_V2")
def _topk(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    count = net.const(int(rng.integers(1, shape[-1] + 1)), "int32")
    best = net.op(kind, [net.input(shape), count], (), ())
    net.tensors[best + 1].dtype = "int32"
    return _done(net, best, best + 1)


@_case("CUMSUM")
def _cumsum(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    axis = net.const(int(rng.integers(-len(shape), len(shape))), "int32")
    told: Any = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
    return _done(net, net.op(kind, [_pooled(net, rng, shape), axis], (), **told))


@_case("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE")
def _shapes(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    if kind == "SQUEEZE":
        shape[0] = 1
    x = _pooled(net, rng, shape)
    if kind == "RESHAPE":
        target = net.const([-1, shape[-1]], "int32")
        return _done(net, net.op(kind, [x, target], (), new_shape=[-1, shape[-1]]))
    if kind == "SQUEEZE":
        return _done(net, net.op(kind, [x], (), squeeze_dims=[0]))
    if kind == "EXPAND_DIMS":
        return _done(net, net.op(kind, [x, net.const(int(rng.integers(len(shape) + 1)), "int32")], ()))
    y = net.op(kind, [x, net.const(rng.permutation(len(shape)), "int32")], ())
    return _done(net, net.op("RELU", [y], ()), y)


@_case("CONCATENATION", "PACK")
def _join(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    other = list(shape)
    if kind == "CONCATENATION":
        other[axis] = int(rng.integers(1, 4))
    parts = [_pooled(net, rng, shape), net.const(_floats(rng, *other)), net.input(shape)]
    if kind == "PACK":
        return _done(net, net.op(kind, parts, (), axis=axis, values_count=3))
    return _done(net, net.op(kind, parts, (), axis=axis, fused_activation_function=0))


@_case("SPLIT", "SPLIT_V", "UNPACK")
def _part(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    count = int(rng.integers(1, 4))
    if kind == "UNPACK":
        shape[axis] = count
        first = net.op(kind, [_pooled(net, rng, shape)], *[()] * count, axis=axis, num=count)
    elif kind == "SPLIT":
        shape[axis] = count * int(rng.integers(1, 3))
        values = [net.const(axis, "int32"), _pooled(net, rng, shape)]
        first = net.op(kind, values, *[()] * count, num_splits=count)
    else:
        sizes = rng.integers(1, 4, count)
        shape[axis] = int(sizes.sum())
        values = [_pooled(net, rng, shape), net.const(sizes, "int32"), net.const(axis, "int32")]
        first = net.op(kind, values, *[()] * count, num_splits=count)
    return _done(net, *range(first, first + count))


@_case("SLICE", "PAD", "PADV2", "MIRROR_PAD", "TILE", "REVERSE_V2")
def _edges(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    x = _pooled(net, rng, shape)
    if kind == "SLICE":
        begin = [int(rng.integers(n)) for n in shape]
        size = [
            int(rng.integers(1, n - b + 1)) if rng.random() < 0.8 else -1
            for n, b in zip(shape, begin, strict=True)
        ]
        return _done(net, net.op(kind, [x, net.const(begin, "int32"), net.const(size, "int32")], ()))
    if kind == "TILE":
        return _done(net, net.op(kind, [x, net.const(rng.integers(1, 3, len(shape)), "int32")], ()))
    if kind == "REVERSE_V2":
        return _done(net, net.op(kind, [x, net.const([int(rng.integers(len(shape)))], "int32")], ()))
    if kind == "MIRROR_PAD":
        mode = int(rng.integers(2))
        pads = [[int(rng.integers(n + mode)), int(rng.integers(n + mode))] for n in shape]
        return _done(net, net.op(kind, [x, net.const(pads, "int32")], (), mode=mode))
    values = [x, net.const(rng.integers(0, 3, (len(shape), 2)), "int32")]
    return _done(
        net, net.op(kind, values + ([net.const(np.array([1.5], np.float32))] if kind == "PADV2" else []), ())
    )


@_case("STRIDED_SLICE")
def _strided_slice(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), [int(n) for n in rng.integers(2, 6, rng.integers(1, 5))]
    rank = len(shape)
    begin, end, step = [], [], []
    masks: Any = {f"{what}_mask": 0 for what in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    for i, n in enumerate(shape):
        if rng.random() < 0.25:
            masks["shrink_axis_mask"] |= 1 << i
            place = int(rng.integers(-n, n))
            begin.append(place)
            end.append(place + 1)
            step.append(1)
            continue
        stride = int(rng.choice([1, 1, 2, -1, -2]))
        low, high = sorted(int(p) for p in rng.choice(n + 1, 2, replace=False))
        if stride < 0:
            low, high = high - 1, low - 1
            if high < 0:
                masks["end_mask"] |= 1 << i
                high = 0
        begin.append(low)
        end.append(high)
        step.append(stride)
        for what in ("begin_mask", "end_mask"):
            if rng.random() < 0.2:
                masks[what] |= 1 << i
    if rank > 1 and rng.random() < 0.3:
        masks = dict.fromkeys(masks, 0) | {"ellipsis_mask": 1}
        begin, end, step = [0, 0], [0, 1], [1, 1]
    elif rng.random() < 0.2 and rank < 4:
        masks = dict.fromkeys(masks, 0) | {"new_axis_mask": 1}
        begin, end, step = [0, 0], [0, 1], [1, 1]
    values = [_pooled(net, rng, shape), *(net.const(v, "int32") for v in (begin, end, step))]
    return _done(net, net.op(kind, values, (), **masks))


@_case("GATHER", "GATHER_ND", "EMBEDDING_LOOKUP", "ONE_HOT")
def _gathers(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    if kind == "GATHER":
        axis = int(rng.integers(len(shape)))
        indices = net.const(rng.integers(0, shape[axis], _shape(rng, 1, 2)), "int32")
        return _done(net, net.op(kind, [_pooled(net, rng, shape), indices], (), axis=axis, batch_dims=0))
    if kind == "GATHER_ND":
        places = np.stack([rng.integers(0, n, 3) for n in shape[: rng.integers(1, len(shape) + 1)]], -1)
        return _done(net, net.op(kind, [net.input(shape), net.const(places, "int32")], ()))
    if kind == "EMBEDDING_LOOKUP":
        shape = _shape(rng, 2, 4)
        indices = net.const(rng.integers(0, shape[0], 4), "int32")
        return _done(net, net.op(kind, [indices, net.input(shape)], ()))
    indices = net.op("CAST", [net.input(shape)], (), dtype="int32", in_data_type=0, out_data_type=2)
    values = [indices, net.const(3, "int32"), net.const(np.float32(2)), net.const(np.float32(-1))]
    return _done(net, net.op(kind, values, (), axis=-1))


@_case("BROADCAST_TO", "FILL", "SHAPE", "RANK", "RANGE", "CAST")
def _others(rng: np.random.Generator, kind: str) -> Net:
    net, shape = Net(), _shape(rng)
    if kind == "BROADCAST_TO":
        return _done(net, net.op(kind, [net.input(_less(rng, shape)), net.const(shape, "int32")], ()))
    if kind == "FILL":
        return _done(net, net.op(kind, [net.const(shape, "int32"), net.input(())], ()))
    x = net.input(shape)
    if kind == "CAST":
        return _done(net, net.op(kind, [x], (), dtype="int32", in_data_type=0, out_data_type=2))
    y = net.op("RELU", [x], ())
    if kind == "RANGE":
        values = [net.const(n, "int32") for n in (2, 9, 3)]
        return _done(net, y, net.op(kind, values, (), dtype="int32"))
    told: Any = {"out_type": 2} if kind == "SHAPE" else {}
    return _done(net, y, net.op(kind, [x], (), dtype="int32", **told))
