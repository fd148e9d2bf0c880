"""Random small ONNX models: branches, concatenations, windows, movements and element-wise operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from user_layers.onnx.model import Array

OPSET = 18
_MAX = 1 << 16  # elements of one tensor


@dataclass
class Maker:
    """A model in the making. tensors: name -> shape; flexible: no node fixed an extent of height or width."""

    rng: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    flexible: bool = True

    def pick(self, rank: int | None = None) -> str:
        """A tensor, rather a late one."""
        names = [n for n, s in self.tensors.items() if rank is None or len(s) == rank]
        late = names[-4:] if self.rng.random() < 0.75 else names
        return str(late[self.rng.integers(len(late))])

    def const(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def weights(self, *shape: int) -> str:
        fan = int(np.prod(shape[1:])) or 1
        return self.const((self.rng.standard_normal(shape) / fan**0.5).astype(np.float32))

    def node(self, op: str, inputs: list[str], shapes: list[tuple[int, ...]], **attributes: Any) -> list[str]:
        names = [f"t{len(self.nodes)}_{i}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        self.read.update(inputs)
        self.tensors.update(zip(names, shapes, strict=True))
        return names

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))


def _no(maker: Maker) -> None:
    raise LookupError


def unary(m: Maker) -> None:
    ops: list[tuple[str, dict[str, Any]]] = [
        ("Relu", {}),
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("Abs", {}),
        ("Neg", {}),
        ("Erf", {}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("Elu", {"alpha": 0.7}),
        ("HardSigmoid", {"alpha": 0.3}),
        ("HardSwish", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Selu", {}),
        ("Mish", {}),
        ("Celu", {}),
        ("Identity", {}),
        ("ThresholdedRelu", {"alpha": -9.0}),
    ]
    op, attributes = ops[m.rng.integers(len(ops))]
    x = m.pick()
    m.node(op, [x], [m.tensors[x]], **attributes)


def clip(m: Maker) -> None:
    x = m.pick()
    low = m.const(np.float32(-1)) if m.chance(0.7) else ""
    high = m.const(np.float32(m.between(0, 3))) if m.chance(0.7) else ""
    m.node("Clip", [x, low, high], [m.tensors[x]])


def binary(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    same = [n for n, s in m.tensors.items() if _broadcast(s, shape) is not None]
    y = same[m.rng.integers(len(same))]
    op = ("Add", "Sub", "Mul", "Max", "Min")[m.between(0, 4)]
    names = [x, y] if m.chance(0.5) else [y, x]
    found = _broadcast(m.tensors[y], shape)
    assert found is not None
    if np.prod(found) > _MAX:
        _no(m)
    if op == "Mul":
        (t,) = m.node("Tanh", [names[1]], [m.tensors[names[1]]])
        names[1] = t
    m.node(op, names, [found])


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None


def constant_binary(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    kind = m.between(0, 3)
    if kind == 0:
        value = np.float32(m.rng.standard_normal())
    elif kind == 1 and len(shape) > 1:
        value = m.rng.standard_normal((shape[1], *[1] * (len(shape) - 2))).astype(np.float32)
    elif kind == 2 and shape:
        value = m.rng.standard_normal(shape[-1:]).astype(np.float32)
        m.flexible = False
    else:
        value = m.rng.standard_normal([n if m.chance(0.5) else 1 for n in shape]).astype(np.float32)
        m.flexible = False
    op = ("Add", "Sub", "Mul", "Div", "Max")[m.between(0, 4)]
    if op == "Div":
        value = np.sign(value) + value
        if not np.all(value):
            _no(m)
    c = m.const(value)
    swap = op != "Div" and m.chance(0.5)
    m.node(op, [c, x] if swap else [x, c], [shape if len(shape) >= value.ndim else value.shape])


def conv(m: Maker) -> None:
    x = m.pick(4)
    n, c, h, w = m.tensors[x]
    groups = [g for g in (1, 1, 2, 3, c) if c % g == 0]
    g = int(groups[m.rng.integers(len(groups))])
    out = g * m.between(1, max(1, 24 // g))
    kernel = [m.between(1, 5), m.between(1, 5)]
    if m.chance(0.4):
        kernel = [3, 3]
    stride = [m.between(1, 3), m.between(1, 3)] if m.chance(0.4) else [1, 1]
    dilation = [m.between(1, 2), m.between(1, 2)] if m.chance(0.3) else [1, 1]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": stride,
        "dilations": dilation,
        "group": g,
    }
    if m.chance(0.3):
        if dilation != [1, 1]:
            _no(m)
        attributes["auto_pad"] = ("SAME_UPPER", "SAME_LOWER")[m.between(0, 1)]
        sizes = [-(-v // s) for v, s in zip((h, w), stride, strict=True)]
    else:
        pads = [m.between(0, r - 1) if m.chance(0.8) else 0 for r in reach + reach]
        attributes["pads"] = pads
        sizes = [
            (v + pads[i] + pads[i + 2] - reach[i]) // stride[i] + 1
            if v + pads[i] + pads[i + 2] >= reach[i]
            else 0
            for i, v in enumerate((h, w))
        ]
    if min(sizes) < 1 or n * out * sizes[0] * sizes[1] > _MAX:
        _no(m)
    inputs = [x, m.weights(out, c // g, *kernel)]
    if m.chance(0.7):
        inputs.append(m.weights(out))
    m.node("Conv", inputs, [(n, out, *sizes)], **attributes)


def conv_transpose(m: Maker) -> None:
    x = m.pick(4)
    n, c, h, w = m.tensors[x]
    groups = [g for g in (1, 1, 2, c) if c % g == 0]
    g = int(groups[m.rng.integers(len(groups))])
    per = m.between(1, 4)
    kernel = [m.between(1, 4), m.between(1, 4)]
    stride = [m.between(1, 3), m.between(1, 3)]
    pads = [m.between(0, k - 1) for k in kernel + kernel]
    more = [m.between(0, s - 1) for s in stride]
    sizes = [(v - 1) * stride[i] + kernel[i] - pads[i] - pads[i + 2] + more[i] for i, v in enumerate((h, w))]
    if min(sizes) < 1 or n * g * per * sizes[0] * sizes[1] > _MAX:
        _no(m)
    inputs = [x, m.const((m.rng.standard_normal((c, per, *kernel)) / (c * 3) ** 0.5).astype(np.float32))]
    if m.chance(0.5):
        inputs.append(m.weights(g * per))
    m.node(
        "ConvTranspose",
        inputs,
        [(n, g * per, *sizes)],
        kernel_shape=kernel,
        strides=stride,
        pads=pads,
        output_padding=more,
        group=g,
    )


def pool(m: Maker) -> None:
    x = m.pick(4)
    n, c, h, w = m.tensors[x]
    average = m.chance(0.5)
    kernel = [m.between(1, 4), m.between(1, 4)]
    stride = [m.between(1, 3), m.between(1, 3)]
    pads = [m.between(0, k // 2) for k in kernel + kernel]
    ceil = m.chance(0.3) and not average
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": stride}
    if m.chance(0.25):
        attributes["auto_pad"] = ("SAME_UPPER", "SAME_LOWER")[m.between(0, 1)]
        sizes = [-(-v // s) for v, s in zip((h, w), stride, strict=True)]
        if any((n - 1) * s + k < v for n, s, k, v in zip(sizes, stride, kernel, (h, w), strict=True)):
            _no(m)  # onnxruntime refuses negative pads
    else:
        attributes["pads"] = pads
        attributes["ceil_mode"] = int(ceil)
        spans = [v + pads[i] + pads[i + 2] - kernel[i] for i, v in enumerate((h, w))]
        if min(spans) < 0:
            _no(m)
        sizes = [(-(-s // stride[i]) if ceil else s // stride[i]) + 1 for i, s in enumerate(spans)]
        if ceil:
            for i, v in enumerate((h, w)):
                if (sizes[i] - 1) * stride[i] >= v + pads[i]:
                    _no(m)  # onnx counts a last window that begins behind the end
    if average:
        attributes["count_include_pad"] = m.between(0, 1)
    m.node("AveragePool" if average else "MaxPool", [x], [(n, c, *sizes)], **attributes)


def global_pool(m: Maker) -> None:
    x = m.pick(4)
    n, c, _, _ = m.tensors[x]
    m.node(("GlobalAveragePool", "GlobalMaxPool")[m.between(0, 1)], [x], [(n, c, 1, 1)])


def concat(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(0, len(shape) - 1)
    if m.chance(0.6) and len(shape) > 1:
        axis = 1
    fit = [
        n
        for n, s in m.tensors.items()
        if len(s) == len(shape)
        and all(a == b or i == axis for i, (a, b) in enumerate(zip(s, shape, strict=True)))
    ]
    names = [x] + [str(fit[m.rng.integers(len(fit))]) for _ in range(m.between(1, 3))]
    m.rng.shuffle(names)
    total = sum(m.tensors[n][axis] for n in names)
    out = (*shape[:axis], total, *shape[axis + 1 :])
    if np.prod(out) > _MAX:
        _no(m)
    if axis > 1:
        m.flexible = False
    m.node("Concat", names, [out], axis=axis - (len(shape) if m.chance(0.3) else 0))


def split(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(0, len(shape) - 1)
    if shape[axis] < 2:
        _no(m)
    first = m.between(1, shape[axis] - 1)
    pieces = [first, shape[axis] - first]
    if axis != 1:
        m.flexible = False
    m.node(
        "Split",
        [x, m.const(np.array(pieces, np.int64))],
        [(*shape[:axis], p, *shape[axis + 1 :]) for p in pieces],
        axis=axis,
    )


def cut(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(0, len(shape) - 1)
    extent = shape[axis]
    step = (1, 1, 2, -1, 3)[m.between(0, 4)]
    a, b = sorted((m.between(0, extent), m.between(0, extent)))
    if a == b:
        _no(m)
    bounds = (a, b) if step > 0 else (b - 1, a - 1 if a else -(1 << 40))
    length = len(range(*((a, b, step) if step > 0 else (b - 1, a - 1, step))))
    if axis != 1:
        m.flexible = False
    values = [m.const(np.array([v], np.int64)) for v in (bounds[0], bounds[1], axis, step)]
    m.node("Slice", [x, *values], [(*shape[:axis], length, *shape[axis + 1 :])])


def pad(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    mode = ("constant", "constant", "edge", "reflect")[m.between(0, 3)]
    sides = [m.between(0, 2) if i > 1 or m.chance(0.2) else 0 for i in range(len(shape))]
    more = [m.between(0, 2) if i > 1 or m.chance(0.2) else 0 for i in range(len(shape))]
    if mode == "reflect" and any(max(a, b) >= n for a, b, n in zip(sides, more, shape, strict=True)):
        _no(m)
    out = tuple(n + a + b for n, a, b in zip(shape, sides, more, strict=True))
    if np.prod(out) > _MAX:
        _no(m)
    inputs = [x, m.const(np.array(sides + more, np.int64))]
    if mode == "constant" and m.chance(0.5):
        inputs.append(m.const(np.float32(m.rng.standard_normal())))
    m.node("Pad", inputs, [out], mode=mode)


def transpose(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    order = [int(i) for i in m.rng.permutation(len(shape))]
    m.flexible = False
    m.node("Transpose", [x], [tuple(shape[i] for i in order)], perm=order)


def reshape(m: Maker) -> None:
    x = m.pick()
    size = int(np.prod(m.tensors[x]))
    shape = []
    for _ in range(m.between(0, 4)):
        divisors = [d for d in range(1, min(size, 64) + 1) if size % d == 0]
        shape.append(int(divisors[m.rng.integers(len(divisors))]))
        size //= shape[-1]
    shape.append(size)
    m.flexible = False
    m.node("Reshape", [x, m.const(np.array(shape, np.int64))], [tuple(shape)])


def flatten(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(0, len(shape))
    m.flexible = False
    m.node("Flatten", [x], [(int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))], axis=axis)


def squeeze(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    m.flexible = False
    if 1 in shape and len(shape) > 1 and m.chance(0.5):
        axis = shape.index(1)
        m.node("Squeeze", [x, m.const(np.array([axis], np.int64))], [(*shape[:axis], *shape[axis + 1 :])])
    elif len(shape) < 5:
        axis = m.between(0, len(shape))
        m.node("Unsqueeze", [x, m.const(np.array([axis], np.int64))], [(*shape[:axis], 1, *shape[axis:])])
    else:
        _no(m)


def expand(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    to = tuple(m.between(2, 4) if n == 1 else n for n in shape)
    if m.chance(0.5) and len(to) < 5:
        to = (2, *to)
    if np.prod(to) > _MAX:
        _no(m)
    m.flexible = False
    m.node("Expand", [x, m.const(np.array(to, np.int64))], [to])


def tile(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    times = [m.between(1, 3) if m.chance(0.4) else 1 for _ in shape]
    out = tuple(a * b for a, b in zip(shape, times, strict=True))
    if np.prod(out) > _MAX:
        _no(m)
    m.flexible = False
    m.node("Tile", [x, m.const(np.array(times, np.int64))], [out])


def gather(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(0, len(shape) - 1)
    extent = shape[axis]
    index_shape = [(), (3,), (2, 2), (1,)][m.between(0, 3)]
    if len(shape) - 1 + len(index_shape) > 5 or len(shape) - 1 + len(index_shape) < 1:
        _no(m)
    index = m.rng.integers(-extent, extent, index_shape)
    out = (*shape[:axis], *index_shape, *shape[axis + 1 :])
    if np.prod(out) > _MAX:
        _no(m)
    m.flexible = False
    m.node("Gather", [x, m.const(np.asarray(index, np.int64))], [out], axis=axis)


def softmax(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(-len(shape), len(shape) - 1)
    m.node(("Softmax", "LogSoftmax")[m.between(0, 1)], [x], [shape], axis=axis)


def reduce(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axes = sorted({m.between(0, len(shape) - 1) for _ in range(m.between(1, 3))})
    keep = m.chance(0.6) or len(axes) == len(shape)
    out = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    op = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceLogSumExp")[
        m.between(0, 6)
    ]
    if op == "ReduceSum" and np.prod([shape[i] for i in axes]) > 4096:
        _no(m)
    if not keep or ({0, 1} & set(axes) and len(shape) < 4):
        m.flexible = False
    m.node(op, [x, m.const(np.array(axes, np.int64))], [out], keepdims=int(keep))


def matmul(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    if len(shape) < 2:
        _no(m)
    k, n = shape[-1], m.between(1, 40)
    batch = shape[:-2] if m.chance(0.3) else ()
    if np.prod((*shape[:-1], n)) > _MAX or np.prod((*batch, k, n)) > _MAX:
        _no(m)
    w = m.const((m.rng.standard_normal((*batch, k, n)) / k**0.5).astype(np.float32))
    m.flexible = False
    m.node("MatMul", [x, w], [(*shape[:-1], n)])


def matmul_both(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    if len(shape) < 2 or np.prod((*shape[:-1], shape[-2])) > _MAX:
        _no(m)
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    (t,) = m.node("Transpose", [x], [(*shape[:-2], shape[-1], shape[-2])], perm=order)
    (s,) = m.node("Softmax", [t], [m.tensors[t]], axis=-2)
    m.flexible = False
    m.node("MatMul", [x, s], [(*shape[:-1], shape[-2])])


def gemm(m: Maker) -> None:
    x = m.pick(2)
    rows, k = m.tensors[x]
    trans_a, trans_b = m.chance(0.3), m.chance(0.5)
    if trans_a:
        rows, k = k, rows
    n = m.between(1, 40)
    if rows * n > _MAX or k * n > _MAX:
        _no(m)
    w = m.const((m.rng.standard_normal((n, k) if trans_b else (k, n)) / k**0.5).astype(np.float32))
    inputs = [x, w]
    if m.chance(0.7):
        shape = [(n,), (1, n), (rows, 1), (rows, n), ()][m.between(0, 4)]
        inputs.append(m.const(m.rng.standard_normal(shape).astype(np.float32)))
    m.flexible = False
    m.node(
        "Gemm",
        inputs,
        [(rows, n)],
        alpha=float(m.between(1, 3)) / 2,
        beta=float(m.between(1, 3)) / 2,
        transA=int(trans_a),
        transB=int(trans_b),
    )


def batch_norm(m: Maker) -> None:
    x = m.pick(4)
    shape = m.tensors[x]
    c = shape[1]
    values = [m.const((m.rng.random(c) + 0.5).astype(np.float32)) for _ in range(4)]
    m.node("BatchNormalization", [x, *values], [shape])


def instance_norm(m: Maker) -> None:
    x = m.pick(4)
    shape = m.tensors[x]
    if shape[2] * shape[3] < 4:
        _no(m)
    values = [m.const((m.rng.random(shape[1]) + 0.5).astype(np.float32)) for _ in range(2)]
    m.node("InstanceNormalization", [x, *values], [shape], epsilon=0.1)


def layer_norm(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(0, len(shape) - 1)
    if np.prod(shape[axis:]) < 4:
        _no(m)
    m.flexible = False
    values = [m.const((m.rng.random(shape[axis:]) + 0.5).astype(np.float32)) for _ in range(2)]
    m.node("LayerNormalization", [x, *values], [shape], axis=axis, epsilon=0.1)


def lrn(m: Maker) -> None:
    x = m.pick(4)
    m.node("LRN", [x], [m.tensors[x]], size=(3, 5)[m.between(0, 1)], alpha=0.01)


def prelu(m: Maker) -> None:
    x = m.pick(4)
    c = m.tensors[x][1]
    m.node("PRelu", [x, m.const(m.rng.random((c, 1, 1)).astype(np.float32))], [m.tensors[x]])


def shuffle(m: Maker) -> None:
    x = m.pick(4)
    n, c, h, w = m.tensors[x]
    if m.chance(0.5) and c % 4 == 0:
        m.node(
            "DepthToSpace",
            [x],
            [(n, c // 4, 2 * h, 2 * w)],
            blocksize=2,
            mode=("DCR", "CRD")[m.between(0, 1)],
        )
    elif h % 2 == 0 and w % 2 == 0:
        m.flexible = False
        m.node("SpaceToDepth", [x], [(n, c * 4, h // 2, w // 2)], blocksize=2)
    else:
        _no(m)


def resize(m: Maker) -> None:
    x = m.pick(4)
    n, c, h, w = m.tensors[x]
    to = (n, c, m.between(1, 2 * h), m.between(1, 2 * w))
    if np.prod(to) > _MAX:
        _no(m)
    mode = ("nearest", "linear")[m.between(0, 1)]
    way = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")[m.between(0, 3)]
    m.flexible = False
    if m.chance(0.5):
        inputs = [x, "", "", m.const(np.array(to, np.int64))]
    else:
        to = (n, c, 2 * h, 2 * w)
        if np.prod(to) > _MAX:
            _no(m)
        inputs = [x, "", m.const(np.array([1, 1, 2, 2], np.float32))]
    m.node("Resize", inputs, [to], mode=mode, coordinate_transformation_mode=way, nearest_mode="floor")


def where(m: Maker) -> None:
    """Comparisons of inputs alone: what is computed may differ in the last bit."""
    x = list(m.inputs)[m.rng.integers(len(m.inputs))]
    shape = m.tensors[x]
    op = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual")[m.between(0, 3)]
    (cond,) = m.node(op, [x, m.const(np.float32(0.25))], [shape])
    del m.tensors[cond]
    y = m.pick()
    out = _broadcast(shape, m.tensors[y])
    if out is None or np.prod(out) > _MAX:
        m.node("Cast", [cond], [shape], to=1)
    else:
        m.node("Where", [cond, y, m.const(np.float32(0.5))], [out])


def sharp(m: Maker) -> None:
    """What jumps, on inputs alone."""
    x = list(m.inputs)[m.rng.integers(len(m.inputs))]
    shape = m.tensors[x]
    kind = m.between(0, 2)
    if kind == 0:
        m.node(("Floor", "Ceil", "Round", "Sign")[m.between(0, 3)], [x], [shape])
    else:
        axis = m.between(0, len(shape) - 1)
        out = (*shape[:axis], 1, *shape[axis + 1 :])
        (i,) = m.node(("ArgMax", "ArgMin")[kind - 1], [x], [out], axis=axis)
        del m.tensors[i]
        m.node("Cast", [i], [out], to=1)


def topk(m: Maker) -> None:
    x = m.pick()
    shape = m.tensors[x]
    axis = m.between(0, len(shape) - 1)
    k = m.between(1, shape[axis])
    out = (*shape[:axis], k, *shape[axis + 1 :])
    m.flexible = False
    _, i = m.node(
        "TopK", [x, m.const(np.array([k], np.int64))], [out, out], axis=axis, largest=m.between(0, 1)
    )
    del m.tensors[i]


def sums(m: Maker) -> None:
    x = m.pick()
    same = [n for n, s in m.tensors.items() if s == m.tensors[x]]
    names = [x] + [str(same[m.rng.integers(len(same))]) for _ in range(m.between(0, 3))]
    m.node(("Sum", "Mean", "Max", "Min")[m.between(0, 3)], names, [m.tensors[x]])


_STEPS: list[tuple[int, Callable[[Maker], None]]] = [
    (5, unary), (1, clip), (4, binary), (3, constant_binary), (6, conv), (1, conv_transpose), (3, pool),
    (1, global_pool), (3, concat), (1, split), (1, cut), (1, pad), (1, transpose), (1, reshape), (1, flatten),
    (1, squeeze), (1, expand), (1, tile), (1, gather), (1, softmax), (1, reduce), (1, matmul),
    (1, matmul_both), (1, gemm), (2, batch_norm), (1, instance_norm), (1, layer_norm), (1, lrn), (1, prelu),
    (1, shuffle), (1, resize), (1, where), (1, sharp), (1, topk), (1, sums),
]  # fmt: skip


def random_model(seed: int) -> tuple[Any, bool]:
    """A model, and whether it works for any height and width."""
    rng = np.random.default_rng(seed)
    m = Maker(rng)
    h, w = m.between(1, 40), m.between(1, 40)
    for i in range(m.between(1, 2)):
        shape: tuple[int, ...] = (m.between(1, 3), m.between(1, 24), h, w)
        if i and m.chance(0.7):
            shape = m.tensors["x0"]
        m.inputs[f"x{i}"] = m.tensors[f"x{i}"] = shape
    weights = np.array([w for w, _ in _STEPS], float)
    size = m.between(2, 14)
    tries = 0
    while len(m.nodes) < size and tries < 200:
        tries += 1
        try:
            _STEPS[rng.choice(len(_STEPS), p=weights / weights.sum())][1](m)
        except (LookupError, ValueError):
            continue
    made = [name for name in m.tensors if name not in m.inputs]
    outputs = [name for name in made if name not in m.read] or made[-1:]
    if m.chance(0.2):
        outputs = list(dict.fromkeys([*outputs, made[m.rng.integers(len(made))]]))
    used = set().union(*[set(n.input) for n in m.nodes])
    infos = [helper.make_tensor_value_info(n, 1, s) for n, s in m.inputs.items() if n in used]
    graph = helper.make_graph(
        m.nodes,
        f"fuzz{seed}",
        infos,
        [helper.make_tensor_value_info(n, 1, m.tensors[n]) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in m.constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8), m.flexible
