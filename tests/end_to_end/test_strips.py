"""Pictures of one batch as strips of rows in the four slots of a word: the same results, bit by bit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.quantised import DTYPE, MODES, Array, check, integers, net, ran
from tpulayer import Graph
from user_layers.compiler.strips import in_strips
from user_layers.toolkit import Toolkit

SCALE = 0.05
CONV: dict[str, Any] = {
    **dict.fromkeys(
        ("groups", "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1
    ),
    **dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right", "relu"), 0),
    "rshift": 6,
    "scale": SCALE,
}
POOL: dict[str, Any] = {
    **dict.fromkeys(("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1),
    **dict.fromkeys(("mode", "whole", "pad_top", "pad_bottom", "pad_left", "pad_right"), 0),
    **dict.fromkeys(("extra_bottom", "extra_right", "count_include_pad"), 0),
    "multiplier": 57,
    "rshift": 9,
    "scale": SCALE,
}


def one_layer(op: str, values: dict[str, Any]) -> Any:
    return lambda graph: (graph.add_tpu_layer(op, ["x"], values, ["y"]), graph.add_output("y"))


def cut(x: Array, rows: int) -> Array:
    """[1, C, H, W] -> [4, C, rows, W]."""
    padded = np.pad(x, ((0, 0), (0, 0), (0, 4 * rows - x.shape[2]), (0, 0)))
    found: Array = padded.reshape(x.shape[1], 4, rows, x.shape[3]).transpose(1, 0, 2, 3)
    return found


@pytest.mark.parametrize(("height", "rows"), [(8, 2), (7, 2), (5, 2), (4, 3), (2, 1), (9, 5)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_cut_and_joined(toolkit: Toolkit, height: int, rows: int, dtype: str) -> None:
    x = integers((1, 70, height, 9), dtype)
    strips = cut(x, rows)
    check(toolkit, one_layer("TPU_STRIPS_CUT", {"rows": rows}), {"x": x}, [SCALE], [strips])
    behind = np.where(cut(np.ones_like(x), rows) > 0, strips, 77).astype(dtype)  # anything
    check(toolkit, one_layer("TPU_STRIPS_JOIN", {"height": height}), {"x": behind}, [SCALE], [x])


@pytest.mark.parametrize(("height", "rows"), [(8, 2), (197, 50)])
def test_rows_of_pixels(toolkit: Toolkit, height: int, rows: int) -> None:
    """Tensors of three dimensions are pictures of one column."""
    x = integers((1, 70, height), "int8")
    strips = cut(x[..., None], rows)[..., 0]
    check(toolkit, one_layer("TPU_STRIPS_CUT", {"rows": rows}), {"x": x}, [SCALE], [strips])
    check(toolkit, one_layer("TPU_STRIPS_JOIN", {"height": height}), {"x": strips}, [SCALE], [x])


def test_one_number_for_all(toolkit: Toolkit) -> None:
    x = integers((1, 70, 3, 5), "int8")
    wanted = np.repeat(x, 4, 0)
    check(toolkit, one_layer("TPU_STRIPS_CUT", {"rows": 3, "repeat": 1}), {"x": x}, [SCALE], [wanted])


@pytest.mark.parametrize("fill", [0, 0x80, 255])
@pytest.mark.parametrize(
    ("height", "rows", "top", "bottom"),
    [(8, 2, 1, 1), (7, 2, 2, 0), (5, 2, 0, 2), (1, 1, 1, 1), (9, 4, 3, 4), (16, 4, 0, 0), (13, 4, 0, 0)],
)
def test_neighbours(toolkit: Toolkit, height: int, rows: int, top: int, bottom: int, fill: int) -> None:
    picture = integers((1, 70, height, 9), "uint8")
    x = cut(picture, rows)
    x = np.where(cut(np.ones_like(picture), rows) > 0, x, 77).astype(np.uint8)
    around = ((0, 0), (0, 0), (top, 5 * rows), (0, 0))
    padded = np.pad(picture, around, constant_values=fill)
    wanted = np.concatenate([padded[:, :, k * rows : (k + 1) * rows + top + bottom] for k in range(4)])
    values = {"height": height, "top": top, "bottom": bottom, "fill": fill}
    check(toolkit, one_layer("TPU_STRIPS_HALO", values), {"x": x}, [SCALE], [wanted])


def test_large_ones(toolkit: Toolkit) -> None:
    """More than local memory holds at once, channels and columns in tiles."""
    x = integers((1, 130, 1000, 37), "uint8")
    check(toolkit, one_layer("TPU_STRIPS_CUT", {"rows": 250}), {"x": x}, [SCALE], [cut(x, 250)], MODES[:1])
    check(
        toolkit, one_layer("TPU_STRIPS_JOIN", {"height": 1000}), {"x": cut(x, 250)}, [SCALE], [x], MODES[:1]
    )


@pytest.mark.parametrize(
    ("op", "shape", "values"),
    [
        ("TPU_STRIPS_CUT", (2, 3, 8, 4), {"rows": 2}),
        ("TPU_STRIPS_CUT", (1, 3, 9, 4), {"rows": 2}),
        ("TPU_STRIPS_CUT", (1, 3, 9, 4), {"rows": 3, "repeat": 1}),
        ("TPU_STRIPS_JOIN", (4, 3, 2, 4), {"height": 9}),
        ("TPU_STRIPS_JOIN", (1, 3, 2, 4), {"height": 2}),
        ("TPU_STRIPS_HALO", (4, 3, 2, 4), {"height": 8, "top": 3}),
        ("TPU_STRIPS_HALO", (4, 3, 2, 4), {"height": 9, "top": 1}),
        ("TPU_STRIPS_HALO", (4, 3, 2, 4), {"height": 8, "fill": 256}),
    ],
)
def test_refused(toolkit: Toolkit, op: str, shape: tuple[int, ...], values: dict[str, int]) -> None:
    x = integers(shape, "int8")
    with pytest.raises(Exception, match=op):
        ran(toolkit, one_layer(op, values), {"x": x}, [SCALE])


class Random:
    """A net of layers that strips pass through and of some that they do not, on a picture."""

    def __init__(self, graph: Graph, seed: int, depth: int) -> None:
        self._graph, self._r = graph, np.random.default_rng(seed)
        self._names = iter(f"t{i}" for i in range(99))
        known = [("x", 12)]
        for _ in range(depth):
            name, channels = known[self._r.integers(max(0, len(known) - 3), len(known))]
            known.append(self._layer(name, channels, known))
        for name, _ in known[-2:]:
            graph.add_output(name)

    def _add(self, op: str, inputs: list[str], values: dict[str, Any]) -> str:
        (name,) = self._graph.add_tpu_layer(op, inputs, values, [next(self._names)])
        return name

    def _layer(self, x: str, channels: int, known: list[tuple[str, int]]) -> tuple[str, int]:
        kind = self._r.choice(
            ["conv", "conv", "conv", "deep", "pool", "average", "sum", "table", "join", "up"]
        )
        shape, dtype = self._graph.shape(x), self._graph.resolve([x]).tensors[x].dtype.numpy_name
        kernel = int(self._r.integers(1, min(5, shape[2]) + 1))
        stride = int(self._r.integers(1, 3)) if shape[2] > 8 else 1
        window = {"kernel_h": kernel, "kernel_w": min(kernel, shape[3]), "stride_h": stride, "stride_w": 1}
        pads = {
            k: int(self._r.integers(0, kernel)) for k in ("pad_top", "pad_bottom", "pad_left", "pad_right")
        }
        if kind in ("conv", "deep"):
            out = channels if kind == "deep" else int(self._r.integers(1, 40))
            groups = channels if kind == "deep" else 1
            weights = self._r.integers(-30, 31, (out, channels // groups, kernel, window["kernel_w"]))
            name = self._graph.add_const(next(self._names), weights.astype(np.int8))
            values: dict[str, Any] = {
                **CONV,
                **window,
                **pads,
                "groups": groups,
                "relu": int(self._r.integers(2)),
            }
            return self._add("TPU_CONV_INT8", [x, name], values), out
        if kind in ("pool", "average"):
            average = kind == "average"
            values = {
                **POOL,
                **window,
                **{k: min(v, kernel // 2) for k, v in pads.items()},
                "mode": int(average),
            }
            values |= {"dtype": DTYPE[dtype], "count_include_pad": int(average)}
            return self._add("TPU_POOL_INT8", [x], values), channels
        if kind == "sum":
            others = [n for n, c in known if c == channels and self._graph.shape(n) == shape]
            values = {"binary_op": 0, "multiplier_a": 3, "multiplier_b": 2, "rshift": 2, "scale": SCALE}
            values["dtype"] = DTYPE["int8"]
            return self._add(
                "TPU_ELTWISE_INT8", [x, others[int(self._r.integers(len(others)))]], values
            ), channels
        if kind == "up" and shape[2] < 20:
            return self._add("TPU_UPSAMPLE", [x], {"scale_h": 2, "scale_w": 1}), channels
        if kind == "join":
            return self._add("TPU_CONCAT", [x, x], {"axis": 1}), 2 * channels
        table = self._graph.add_const(next(self._names), self._r.integers(-128, 128, 256).astype(np.int8))
        looked: dict[str, Any] = {"dtype": DTYPE["int8"], "scale": SCALE}
        return self._add("TPU_LOOKUP", [x, table], looked), channels


@given(st.integers(0, 2**31), st.integers(5, 33), st.integers(3, 9))
@examples(12)
def test_nets(toolkit: Toolkit, seed: int, height: int, depth: int) -> None:
    """The strips' graph gives what the plain one does, layer by layer in DDR and in groups."""
    x = integers((1, 12, height, 11), "int8", seed)
    plain = net(toolkit, {"x": x}, [SCALE])
    Random(plain, seed, depth)
    strips = in_strips(plain, plain.resolve())
    plain.compile(opt=0)
    wanted = plain.run({"x": x})
    if strips is None:
        assert not any(node.op.op == "TPU_CONV_INT8" and height >= 4 for node in plain.nodes) or depth < 9
        return
    for opt in (0, 2):
        strips.compile(opt=opt)
        for a, b in zip(wanted, strips.run({"x": x}), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_faster_way_is_taken(toolkit: Toolkit) -> None:
    """Without a command, at opt 2 alone; the log says so."""
    x = integers((1, 64, 32, 32), "int8")
    weights = np.random.default_rng(0).integers(-9, 10, (64, 64, 3, 3)).astype(np.int8)
    found = {}
    for opt in (1, 2):
        graph = net(toolkit, {"x": x}, [SCALE])
        graph.add_const("w", weights)
        pads = dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 1)
        for before, after in (("x", "a"), ("a", "b"), ("b", "y")):
            values = {**CONV, "kernel_h": 3, "kernel_w": 3, **pads, "rshift": 9}
            graph.add_tpu_layer("TPU_CONV_INT8", [before, "w"], values, [after])
        graph.add_output("y")
        log: list[str] = []
        graph.compile(opt=opt, log=log.append)
        found[opt] = graph.run({"x": x})[0]
        told = [line for line in log if line.startswith("strips of rows in the four slots of words: ")]
        assert len(told) == (opt == 2)
    faster, slower = (float(part.replace(",", "")) for part in re.findall(r"[\d,]+\d", told[0]))
    assert faster < 0.6 * slower
    np.testing.assert_array_equal(found[1], found[2])


def test_lines_longer_than_the_layers_take(toolkit: Toolkit) -> None:
    x = integers((1, 8, 8200), "int8")
    graph = net(toolkit, {"x": x}, [SCALE])
    graph.add_const("w", np.random.default_rng(0).integers(-9, 10, (8, 8, 3, 1)).astype(np.int8))
    values = {**CONV, "kernel_h": 3, "kernel_w": 1, "pad_top": 1, "pad_bottom": 1, "rshift": 4}
    graph.add_tpu_layer("TPU_CONV_INT8", ["x", "w"], values, ["a"])
    pool = {**POOL, "kernel_h": 2, "stride_h": 2, "kernel_w": 1, "stride_w": 1, "dtype": DTYPE["int8"]}
    graph.add_tpu_layer("TPU_POOL_INT8", ["a"], pool, ["b"])
    graph.add_tpu_layer("TPU_CONV_INT8", ["b", "w"], values, ["y"])
    graph.add_output("y")
    found = []
    for opt in (0, 2):
        graph.compile(opt=opt)
        found.append(graph.run({"x": x})[0])
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("tokens", [16, 13])
@pytest.mark.parametrize("shape", [(1, 0, 8), (0, 8), (1, 0, 1), (0, 1)])
def test_constants_of_each_token(toolkit: Toolkit, tokens: int, shape: tuple[int, ...]) -> None:
    """What is multiplied and added to each token in fp32 (rotary embedding) is cut as the tokens are; 0 in a
    shape are the tokens."""
    x = integers((1, tokens, 8), "int8")
    random = np.random.default_rng(tokens)
    graph = net(toolkit, {"x": x}, [SCALE])
    graph.add_const("w", random.integers(-60, 61, (8, 8, 1, 1)).astype(np.int8))
    name = "x"

    def add(op: str, more: list[str], values: dict[str, Any]) -> None:
        nonlocal name
        (name,) = graph.add_tpu_layer(op, [name, *more], values, [f"t{len(graph.nodes)}"])

    for _ in range(2):
        add("TPU_TURN", [], {"height": 0, "width": 0})
        add("TPU_CONV_INT8", ["w"], CONV)
        add("TPU_TURN", [], {"height": 0, "width": 0})
        add("TPU_DEQUANTIZE", [], {})
        for op in (2, 0):
            own = random.standard_normal([n or tokens for n in shape]).astype(np.float32)
            add("TPU_BINARY", [graph.add_const(f"c{len(graph.nodes)}", own)], {"binary_op": op})
        add("TPU_QUANTIZE", [], {"dtype": DTYPE["int8"], "scale": SCALE})
    graph.add_output(name)
    strips = in_strips(graph, graph.resolve())
    assert strips is not None
    found = strips.resolve()
    binaries = [node for node in found.nodes if node.op.op == "TPU_BINARY"]
    assert len(binaries) == 4 and all(found.tensors[node.outputs[0]].shape[0] == 4 for node in binaries)
    graph.compile(opt=0)
    (wanted,) = graph.run({"x": x})
    for opt in (0, 2):
        strips.compile(opt=opt)
        np.testing.assert_array_equal(strips.run({"x": x})[0], wanted)
