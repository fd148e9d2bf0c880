"""One built-in layer with a window, run by the Graph API, and what numpy says of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.toolkit import Toolkit

Array = NDArray[np.float32]
Double = NDArray[np.float64]
Pads = tuple[int, int, int, int]  # top, left, bottom, right
MODES = ((1, False), (0, False), (0, True))  # opt, dynamic


def sample(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def run(
    toolkit: Toolkit,
    op: str,
    x: Array,
    param: Mapping[str, Any],
    consts: Sequence[NDArray[Any]] = (),
    *,
    opt: int = 0,
    dynamic: bool = False,
    compiled: Sequence[int] | None = None,
    around: bool = False,
) -> tuple[Array, str]:
    """One layer: its output and the compile log. compiled: the shape compiled for, if not x's. around:
    between two element-wise layers (times 2, plus 1)."""
    graph = Graph(name="net", toolkit=toolkit)
    first = graph.add_input("x", x.shape if compiled is None else compiled)
    if around:
        first = graph.add_const_binary_layer(first, 2.0, "twice", BINARY_MUL)
    names = [graph.add_const(f"const{i}", c) for i, c in enumerate(consts)]
    graph.add_tpu_layer(op, [first, *names], param, ["y"])
    if around:
        graph.add_const_binary_layer("y", 1.0, "last", BINARY_ADD)
    lines: list[str] = []
    graph.compile(dynamic=dynamic, opt=opt, log=lines.append)
    (y,) = graph.run({"x": x})
    return y.astype(np.float32, copy=False), "\n".join(lines)


def close(got: Array, want: Double) -> None:
    assert got.shape == want.shape
    largest = float(np.abs(want).max())
    assert float(np.abs(got - want).max()) <= 1e-4 * max(largest, 1e-30)


def windows(
    x: NDArray[Any],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Pads,
    fill: float,
) -> Double:
    """[n, c, rows, columns, kernel rows, kernel columns] in float64."""
    padded = np.pad(
        x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill
    )
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, extents, (2, 3))
    result: Double = seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    return result


def window_param(
    kernel: Sequence[int], stride: Sequence[int], pads: Pads, dilation: Sequence[int] | None = None
) -> dict[str, int]:
    param = {"kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": stride[0], "stride_w": stride[1]}
    if dilation is not None:
        param |= {"dilation_h": dilation[0], "dilation_w": dilation[1]}
    return param | dict(zip(("pad_top", "pad_left", "pad_bottom", "pad_right"), pads, strict=True))


def convolution(
    x: NDArray[Any],
    w: Array,
    b: Array | None,
    groups: int,
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Pads,
) -> Double:
    seen = windows(x, w.shape[2:], stride, dilation, pads, 0)
    n, c = seen.shape[:2]
    apart = seen.reshape(n, groups, c // groups, *seen.shape[2:])
    weights = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    y: Double = np.einsum("ngcyxhw,gochw->ngoyx", apart, weights, optimize=True)
    y = y.reshape(n, -1, *y.shape[3:])
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def pool(
    x: NDArray[Any],
    mode: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Pads,
    extra: Sequence[int],
    include: int,
) -> Double:
    around = pads[0], pads[1], pads[2] + extra[0], pads[3] + extra[1]
    if mode == 0:
        largest: Double = windows(x, kernel, stride, dilation, around, -np.inf).max((4, 5))
        return largest
    counted = np.ones((1, 1, *x.shape[2:]))
    if include:
        counted = np.pad(counted, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=1)
        around_counted = 0, 0, extra[0], extra[1]
    else:
        around_counted = around
    count = windows(counted, kernel, stride, dilation, around_counted, 0).sum((4, 5))
    mean: Double = windows(x, kernel, stride, dilation, around, 0).sum((4, 5)) / count
    return mean
