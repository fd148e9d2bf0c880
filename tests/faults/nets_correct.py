"""Layers and nets without a mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.faults.kernel_case import Array, random
from tests.faults.net_case import DYNAMIC, GLOBAL, LOCAL, Net, layer
from tests.support.window_layers import window_param
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL

_MAP = random(1, 20, 6, 7)
_TALL = random(1, 2, 500, 190)  # 371 KiB of a lane: groups are cut into tiles
_VECTOR = random(1, 20, 1, 1, low=1)
_SMALLER = [(2, 20, 9, 8)]  # what a net that runs with _MAP is compiled for


def _doubled(x: Array) -> Any:
    return 2 * x


def _rows(x: Array) -> Any:
    y = x.copy()
    y[:, :, 1:] += x[:, :, :-1]
    y[:, :, :-1] += x[:, :, 1:]
    return y


def _half_raised(x: Array) -> Any:
    return np.concatenate([x[: len(x) // 2] + 1, x[len(x) // 2 :]])


def _largest(x: Array) -> Any:
    h, w = x.shape[2] // 2, x.shape[3] // 2
    y: Array = x[:, :, : 2 * h, : 2 * w].reshape(*x.shape[:2], h, 2, w, 2).max((3, 5))
    return y


def _to_bytes(x: Array) -> Any:
    return np.trunc(np.clip(x, -128, 127)).astype(np.int8)


_LAYERS = (
    layer("C_SHARES", GLOBAL, random(4, 20, 6, 7), expected=_half_raised),
    layer("C_SHARES", DYNAMIC, random(2, 20, 6, 7), compiled=[(4, 20, 6, 7)], expected=_half_raised),
    layer("C_IN_PLACE", GLOBAL, _MAP, expected=_doubled),
    layer("C_IN_PLACE", LOCAL, _MAP, expected=_doubled),
    layer("C_IN_PLACE", DYNAMIC, _MAP, expected=_doubled, compiled=_SMALLER),
    layer("C_PADDED_TILE", LOCAL, random(2, 40, 5, 7), expected=_doubled),
    layer("C_BUFFERS", GLOBAL, _MAP, expected=_doubled),
    layer("C_BUFFERS", LOCAL, _MAP, expected=_doubled),
    layer("C_BUFFERS", DYNAMIC, _MAP, expected=_doubled, compiled=_SMALLER),
    layer("C_ROWS", GLOBAL, random(2, 70, 6, 7), expected=_rows, tolerance=1e-6),
    layer("C_ROWS", LOCAL, _TALL, expected=_rows, tolerance=1e-6),
    layer("C_ROWS", DYNAMIC, _MAP, expected=_rows, tolerance=1e-6, compiled=_SMALLER),
    layer("C_PER_CHANNEL", GLOBAL, _MAP, consts=[_VECTOR], expected=np.add, runs=2),
    layer("C_PER_CHANNEL", LOCAL, _MAP, consts=[_VECTOR], expected=np.add, runs=2),
    layer("C_PER_CHANNEL", DYNAMIC, _MAP, consts=[_VECTOR], expected=np.add, compiled=_SMALLER),
    layer("C_TWO_OUTPUTS", GLOBAL, _MAP, outputs=2, expected=lambda x: (2 * x, 3 * x)),
    layer("C_TWO_OUTPUTS", LOCAL, _MAP, outputs=2, expected=lambda x: (2 * x, 3 * x)),
    layer("C_OUTPUT_AS_SCRATCH", GLOBAL, _MAP, expected=np.exp, tolerance=1e-5),
    layer("C_OUTPUT_AS_SCRATCH", LOCAL, _MAP, expected=np.exp, tolerance=1e-5),
    layer("C_POOL", GLOBAL, random(1, 20, 7, 9), expected=_largest),
    layer("C_POOL", LOCAL, random(1, 20, 7, 9), expected=_largest),
    layer("C_POOL", DYNAMIC, random(1, 20, 7, 9), compiled=[(1, 20, 12, 12)], expected=_largest),
    layer("C_TURN", GLOBAL, random(2, 5, 6, 7), expected=lambda x: x.transpose(0, 1, 3, 2)),
    layer("C_TURN", DYNAMIC, random(2, 5, 6, 7), expected=lambda x: x.transpose(0, 1, 3, 2)),
    layer("C_POINTER", DYNAMIC, _MAP, expected=lambda x: x - x.mean(), tolerance=1e-5),
    layer("C_PING_PONG", GLOBAL, random(5, 20, 6, 7), expected=np.negative),
    layer("C_PING_PONG", DYNAMIC, random(5, 20, 6, 7), expected=np.negative),
    layer("C_TO_BYTES", GLOBAL, random(5, 20, 6, 7, low=-150, high=150), expected=_to_bytes),
    layer("C_INSIDE", GLOBAL, _MAP, expected=lambda x: x[:, :, 1:-1, 1:-1]),
    layer("C_JOIN", GLOBAL, _MAP, random(1, 7, 6, 7), expected=lambda x, y: np.concatenate([x, y], 1)),
    layer("C_FRAME", GLOBAL, _MAP, expected=lambda x: np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])),
)


def _convolution(graph: Graph, x: str, out: int, name: str, stride: int = 1) -> str:
    channels = graph.shape(x)[1]
    weights = [
        graph.add_const(f"w_{name}", random(out, channels, 3, 3, low=-0.2, high=0.2)),
        graph.add_const(f"b_{name}", random(out)),
    ]
    param = window_param((3, 3), (stride, stride), (1, 1, 1, 1), (1, 1)) | {"groups": 1}
    (y,) = graph.add_tpu_layer("TPU_CONV", [x, *weights], param, [name])
    return y


def _residual(graph: Graph) -> None:
    y = _convolution(graph, _convolution(graph, "x", 24, "first"), 5, "second")
    graph.add_tpu_layer("TPU_BINARY", [y, "x"], {"binary_op": BINARY_ADD}, ["sum"])


def _branches(graph: Graph) -> None:
    parts = [_convolution(graph, "x", 70, "left"), _convolution(graph, "x", 9, "right")]
    (joined,) = graph.add_tpu_layer("TPU_CONCAT", parts, {"axis": 1}, ["joined"])
    pool = window_param((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)) | {"mode": 1}
    graph.add_tpu_layer("TPU_POOL", [joined], pool, ["pooled"])


def _strided(graph: Graph) -> None:
    y = _convolution(graph, _convolution(graph, "x", 12, "half", 2), 7, "quarter", 2)
    graph.add_tpu_layer("TPU_SOFTMAX", [y], {"axis": 1}, ["likely"])


def _own_layers(graph: Graph) -> None:
    twice = graph.add_const_binary_layer("x", 0.5, "half", BINARY_MUL)
    (rows,) = graph.add_tpu_layer("TPU_C_ROWS", [twice], None, ["rows"])
    (again,) = graph.add_tpu_layer("TPU_C_ROWS", [rows], None, ["again"])
    (scratch,) = graph.add_tpu_layer("TPU_C_BUFFERS", [again], None, ["scratch"])
    graph.add_tpu_layer("TPU_BINARY", [scratch, rows], {"binary_op": BINARY_ADD}, ["sum"])


def _own_expected(x: Array) -> Any:
    rows = _rows(x / 2)
    return 2 * _rows(rows) + rows


def _product(graph: Graph) -> None:
    weights = graph.add_const("w", random(50, 35))
    (y,) = graph.add_tpu_layer("TPU_MATMUL", ["x", weights], None, ["y"])
    graph.add_tpu_layer("TPU_SOFTMAX", [y], {"axis": 1}, ["likely"])


def _product_expected(x: Array) -> Any:
    y = np.exp(x @ random(50, 35))
    return y / y.sum(1, keepdims=True)


def _moved(graph: Graph) -> None:
    order = {"dims": 4, "order": [0, 2, 1, 3]}
    (turned,) = graph.add_tpu_layer("TPU_TRANSPOSE", ["x"], order, ["turned"])
    graph.add_const_binary_layer(turned, 1.0, "y", BINARY_ADD)


def _net(name: str, x: Array, build: Any, mode: str, **more: Any) -> Net:
    return Net(f"{name}.{mode}", "", {"x": x}, build, mode, **more)


_NETS = (
    *(_net("residual", random(1, 5, 30, 31), _residual, mode) for mode in (GLOBAL, LOCAL, DYNAMIC)),
    *(_net("branches", random(1, 5, 15, 17), _branches, mode) for mode in (GLOBAL, LOCAL, DYNAMIC)),
    *(_net("strided", random(2, 3, 33, 35), _strided, mode) for mode in (GLOBAL, LOCAL, DYNAMIC)),
    *(
        _net("own_layers", random(1, 20, 26, 27), _own_layers, mode, expected=_own_expected, tolerance=1e-5)
        for mode in (GLOBAL, LOCAL, DYNAMIC)
    ),
    _net("own_layers.tall", _TALL, _own_layers, LOCAL, expected=_own_expected, tolerance=1e-5),
    *(
        _net("product", random(9, 50), _product, mode, expected=_product_expected, tolerance=1e-4)
        for mode in (GLOBAL, DYNAMIC)
    ),
    _net("moved", random(2, 5, 6, 7), _moved, GLOBAL, expected=lambda x: x.transpose(0, 2, 1, 3) + 1),
    _net("smaller", random(1, 5, 11, 13), _residual, DYNAMIC, compiled={"x": (2, 5, 30, 31)}),
)

CORRECT: tuple[Net, ...] = (*_LAYERS, *_NETS)
