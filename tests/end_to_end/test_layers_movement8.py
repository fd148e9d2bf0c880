"""Layers that only move data, on 8-bit tensors in 4N: words of four batches where batches stay what they are,
fp32 with conversions around them else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import CompileError
from tests.support.examples import examples
from tests.support.quantised import MODES, Array, check, floats, integers, net
from tpulayer import Graph
from user_layers.compiler.aliases import find_aliases
from user_layers.compiler.attributes import gather_attributes
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit

SCALE = 0.05


def ops(graph: Graph) -> list[str]:
    """The layers of the net, with the conversions that the graph put in."""
    return [node.op.short for node in infer_shapes(graph).nodes]


def cut(axis: int, start: int, end: int, step: int = 1) -> dict[str, Any]:
    return {"count": 1, "axes": (axis,), "starts": (start,), "ends": (end,), "steps": (step,)}


def pads(before: tuple[int, ...], after: tuple[int, ...], mode: int = 0) -> dict[str, Any]:
    return {"mode": mode, "before": before, "after": after, "bits": -7, "value": -7 * SCALE}


def padded(x: Array, before: tuple[int, ...], after: tuple[int, ...]) -> Array:
    """With the constant -7, as a byte."""
    fill = np.array(-7).astype(np.int8).view(x.dtype)
    return np.pad(x, list(zip(before, after, strict=True)), constant_values=fill)


# The layer, its parameters, and what numpy makes of x [n, 12, 6, 5]; all leave batches alone.
KEPT: dict[str, tuple[str, Any, Any]] = {
    "copy": ("TPU_COPY", None, lambda x: x),
    "channels": ("TPU_SLICE", cut(1, 3, 9), lambda x: x[:, 3:9]),
    "columns backwards": ("TPU_SLICE", cut(-1, 99, -99, -2), lambda x: x[..., ::-2]),
    "all batches": ("TPU_SLICE", cut(0, 0, 2**31 - 1), lambda x: x),
    "rows around": ("TPU_PAD", pads((0, 0, 2, 1), (0, 0, 1, 3)),
                    lambda x: padded(x, (0, 0, 2, 1), (0, 0, 1, 3))),
    "channels around": ("TPU_PAD", pads((0, 2, 0, 0), (0, 1, 0, 0)),
                    lambda x: padded(x, (0, 2, 0, 0), (0, 1, 0, 0))),
    "mirrored": ("TPU_PAD", pads((0, 0, 2, 3), (0, 0, 1, 2), 1),
                 lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), mode="reflect")),
    "transposed": ("TPU_TRANSPOSE", {"dims": 4, "order": (0, 3, 1, 2)}, lambda x: x.transpose(0, 3, 1, 2)),
    "flat": ("TPU_RESHAPE", {"dims": 2, "shape": (0, -1)}, lambda x: x.reshape(len(x), -1)),
    "found": ("TPU_RESHAPE", {"dims": 3, "shape": (-1, 30, 12)}, lambda x: x.reshape(-1, 30, 12)),
    "one more": ("TPU_EXPAND_DIMS", {"axis": 2}, lambda x: x[:, :, None]),
    "tiled": ("TPU_TILE", {"repeats": (1, 2, 1, 3)}, lambda x: np.tile(x, (1, 2, 1, 3))),
    "to space": ("TPU_DEPTH_TO_SPACE", {"block_h": 2, "block_w": 2, "crd": 1},
                 lambda x: x.reshape(-1, 3, 2, 2, 6, 5).transpose(0, 1, 4, 2, 5, 3).reshape(-1, 3, 12, 10)),
    "to depth": ("TPU_SPACE_TO_DEPTH", {"block": 1}, lambda x: x),
    "windows": ("TPU_UNFOLD", {"planes": 1, **dict.fromkeys(("kernel_d", "stride_d", "dilation_d"), 1),
                               "kernel_h": 3, "stride_h": 2, "dilation_h": 1, "pad_top": 1, "pad_bottom": 1},
                lambda x: np.concatenate([np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))[:, :, k : k + 5 : 2]
                                          for k in range(3)], 1)),
    "larger": ("TPU_UPSAMPLE", {"scale_h": 2, "scale_w": 3}, lambda x: x.repeat(2, 2).repeat(3, 3)),
}  # fmt: skip

# The same of layers that mix batches, which take and make fp32.
MIXED: dict[str, tuple[str, Any, Any]] = {
    "batches": ("TPU_SLICE", cut(0, 1, 3), lambda x: x[1:3]),
    "batches backwards": ("TPU_SLICE", cut(-4, 99, -99, -1), lambda x: x[::-1]),
    "batches around": ("TPU_PAD", pads((1, 0, 0, 0), (-1, 0, 0, 0)),
                    lambda x: padded(x, (1, 0, 0, 0), (0, 0, 0, 0))[:-1]),
    "transposed": ("TPU_TRANSPOSE", {"dims": 4, "order": (1, 0, 2, 3)}, lambda x: x.swapaxes(0, 1)),
    "flat": ("TPU_RESHAPE", {"dims": 2, "shape": (-1, 5)}, lambda x: x.reshape(-1, 5)),
    "one more": ("TPU_EXPAND_DIMS", {"axis": -5}, lambda x: x[None]),
    "tiled": ("TPU_TILE", {"repeats": (2, 1, 1, 1)}, lambda x: np.tile(x, (2, 1, 1, 1))),
    "expanded": ("TPU_EXPAND", {"dims": 5, "shape": (2, 1, 1, 1, 1)}, lambda x: np.stack([x, x])),
}  # fmt: skip


@pytest.mark.parametrize("n", [7])
@pytest.mark.parametrize("name", KEPT)
def test_words_move(toolkit: Toolkit, name: str, n: int) -> None:
    """No conversion, and the integers are numpy's; the format goes along. In the middle of a net too, where
    compilers may leave the layer out or put it into a group."""
    op, param, want = KEPT[name]
    x = integers((n, 12, 6, 5), "uint8" if n == 4 else "int8", n)

    def alone(graph: Graph) -> None:
        graph.add_tpu_layer(op, ["x"], param, ["y"])
        assert ops(graph) == [op.removeprefix("TPU_")]
        y = infer_shapes(graph).tensors["y"]
        assert y.format == infer_shapes(graph).tensors["x"].format

    def between(graph: Graph) -> None:
        graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], {"scale_h": 1, "scale_w": 1}, ["a"])
        graph.add_tpu_layer(op, ["a"], param, ["b"])
        graph.add_tpu_layer("TPU_COPY", ["b"], None, ["y"])

    check(toolkit, alone, {"x": x}, [SCALE], [want(x)])
    check(toolkit, between, {"x": x}, [SCALE], [want(x)])


@pytest.mark.parametrize("name", MIXED)
def test_batches_that_change_go_by_fp32(toolkit: Toolkit, name: str) -> None:
    op, param, want = MIXED[name]
    x = integers((5, 12, 6, 5), "int8")

    def build(graph: Graph) -> None:
        graph.add_tpu_layer(op, ["x"], param, ["y"])
        assert ops(graph) == ["DEQUANTIZE", op.removeprefix("TPU_")]

    wanted = floats(want(x), SCALE)
    if name == "batches around":  # the constant of fp32 is another one
        wanted[0] = np.float32(-7 * SCALE)
    check(toolkit, build, {"x": x}, [SCALE], [wanted])


@pytest.mark.parametrize("n", [1, 5])
def test_expand(toolkit: Toolkit, n: int) -> None:
    x = integers((n, 3, 1, 5), "int8")

    def build(graph: Graph) -> None:
        graph.add_tpu_layer("TPU_EXPAND", ["x"], {"dims": 3, "shape": (1, 4, 1)}, ["y"])
        assert ops(graph) == ["EXPAND"]

    check(toolkit, build, {"x": x}, [SCALE], [np.broadcast_to(x, (n, 3, 4, 5))])


@pytest.mark.parametrize("n", [1, 6])
@pytest.mark.parametrize(("axis", "kept"), [(1, True), (-1, True), (0, False)])
def test_gather(toolkit: Toolkit, n: int, axis: int, kept: bool) -> None:
    x = integers((n, 9, 6, 5), "uint8")
    places = np.array([0, 3, 2, 0] if kept else [0, 0], np.int32)

    def build(graph: Graph) -> None:
        graph.add_const("list", places)
        graph.add_tpu_layer("TPU_GATHER", ["x", "list"], {"axis": axis, "scalar": 0}, ["y"])
        assert ops(graph) == ["GATHER"] if kept else ["DEQUANTIZE", "GATHER"]

    want = x.take(places, axis)
    check(toolkit, build, {"x": x}, [SCALE], [want if kept else floats(want, SCALE)])


@pytest.mark.parametrize("n", [1, 6])
def test_rearrange(toolkit: Toolkit, n: int) -> None:
    """Rows of each batch of words: every second one, then zeros, then the first ones."""
    x = integers((n, 6, 10), "int8")
    boxes = [
        (0, 0, 1, 1, 1, 3, 0, 0, 0, 1, 0, 0, 0, 2),
        (3, -1, 1, 1, 1, 2, 0, 0, 0, 1, 0, 0, 0, 0),
        (5, 0, 1, 1, 1, 4, 0, 0, 0, 1, 0, 0, 0, 1),
    ]

    def build(graph: Graph) -> None:
        graph.add_const("boxes", np.array(boxes, np.int32))
        graph.add_tpu_layer("TPU_REARRANGE", ["x", "boxes"], {"rows": 9}, ["y"])
        assert ops(graph) == ["REARRANGE"]

    want = np.concatenate([x[:, ::2], np.zeros_like(x[:, :2]), x[:, :4]], 1)
    check(toolkit, build, {"x": x}, [SCALE], [want])


@pytest.mark.parametrize("n", [1, 6])
@pytest.mark.parametrize("channels", [(3, 5, 4), (64, 64, 10)])
def test_split_and_concat(toolkit: Toolkit, n: int, channels: tuple[int, ...]) -> None:
    """Back together in another order, behind layers of their own: in place where words allow it."""
    x = integers((n, sum(channels), 7, 6), "int8")
    parts = np.split(x, np.cumsum(channels)[:-1], 1)

    def build(graph: Graph) -> None:
        graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], {"scale_h": 1, "scale_w": 1}, ["a"])
        graph.add_tpu_layer("TPU_SPLIT", ["a"], {"axis": 1, "sizes": channels}, ["p0", "p1", "p2"])
        for i in range(3):
            graph.add_tpu_layer("TPU_UPSAMPLE", [f"p{i}"], {"scale_h": 1, "scale_w": 2}, [f"q{i}"])
        graph.add_tpu_layer("TPU_CONCAT", ["q1", "q0", "q2"], {"axis": 1}, ["b"])
        graph.add_tpu_layer("TPU_UPSAMPLE", ["b"], {"scale_h": 2, "scale_w": 1}, ["y"])

    want = np.concatenate([parts[1], parts[0], parts[2]], 1).repeat(2, 3).repeat(2, 2)
    check(toolkit, build, {"x": x}, [SCALE], [want])


@pytest.mark.parametrize(("n", "elided"), [(1, True), (4, True), (5, False)])
def test_bytes_of_pieces_and_concatenations(toolkit: Toolkit, n: int, elided: bool) -> None:
    """Up to four batches are one row of words: a slice of channels lies in its input, parts in a result."""
    x = integers((n, 8, 3, 5), "int8")
    graph = net(toolkit, {"x": x}, [SCALE])
    graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], {"scale_h": 1, "scale_w": 1}, ["a"])
    graph.add_tpu_layer("TPU_SLICE", ["a"], cut(1, 2, 7), ["b"])
    graph.add_tpu_layer("TPU_UPSAMPLE", ["b"], {"scale_h": 1, "scale_w": 1}, ["c"])
    graph.add_tpu_layer("TPU_UPSAMPLE", ["a"], {"scale_h": 1, "scale_w": 1}, ["d"])
    graph.add_tpu_layer("TPU_CONCAT", ["c", "d"], {"axis": 1}, ["e"])
    graph.add_tpu_layer("TPU_UPSAMPLE", ["e"], {"scale_h": 1, "scale_w": 1}, ["y"])
    aliases = find_aliases(gather_attributes(infer_shapes(graph), toolkit), dynamic=False)
    assert aliases.elided == (frozenset({1, 4}) if elided else frozenset())
    if elided:
        assert aliases.part == {"b": ("a", 2 * 15 * 4), "c": ("e", 0), "d": ("e", 5 * 15 * 4)}
    for options in MODES:
        graph.compile(**options)
        (y,) = graph.run({"x": x})
        np.testing.assert_array_equal(y, np.concatenate([x[:, 2:7], x], 1))


def test_concat_of_scales_goes_by_fp32(toolkit: Toolkit) -> None:
    a, b = integers((3, 4, 5, 2), "int8", 1), integers((3, 2, 5, 2), "int8", 2)

    def build(graph: Graph) -> None:
        graph.add_tpu_layer("TPU_CONCAT", ["a", "b"], {"axis": 1}, ["y"])
        assert ops(graph) == ["DEQUANTIZE", "DEQUANTIZE", "CONCAT"]

    want = np.concatenate([floats(a, 0.5), floats(b, 0.25)], 1)
    check(toolkit, build, {"a": a, "b": b}, [0.5, 0.25], [want])


def test_batches_without_a_scale_cannot_be_mixed(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (5, 4, 3, 3), "int8", store_mode="4N")
    graph.add_tpu_layer("TPU_COPY", ["x"], None, ["a"])
    graph.add_tpu_layer("TPU_TILE", ["a"], {"repeats": (2, 1, 1, 1)}, ["y"])
    with pytest.raises(CompileError, match="'a' is int8 4N: a tensor without a scale is not converted"):
        infer_shapes(graph)


def test_a_reshape_with_fewer_batches_than_compiled(toolkit: Toolkit) -> None:
    """By place it follows; by a number it would mix batches, and says so."""
    x = integers((3, 6, 2, 2), "int8")
    for shape, follows in (((0, -1), True), ((6, -1), False)):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", (6, 6, 2, 2), "int8", scale=SCALE)
        graph.add_tpu_layer("TPU_RESHAPE", ["x"], {"dims": 2, "shape": shape}, ["y"])
        graph.compile(dynamic=True)
        if follows:
            np.testing.assert_array_equal(graph.run({"x": x})[0], x.reshape(3, 24))
        else:
            with pytest.raises(Exception, match="BM_LAYER_NOT_SUPPORTED"):
                graph.run({"x": x})


@examples(10)
@given(
    n=st.integers(1, 9),
    c=st.integers(1, 130),
    h=st.integers(1, 12),
    w=st.integers(1, 12),
    data=st.data(),
)
def test_chains(toolkit: Toolkit, n: int, c: int, h: int, w: int, data: st.DataObject) -> None:
    """Several of them one behind the other, of any size."""
    x = integers((n, c, h, w), data.draw(st.sampled_from(["int8", "uint8"])), c)
    want = x
    steps: list[tuple[str, Any]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["slice", "pad", "transpose", "upsample", "tile"]))
        axis = data.draw(st.integers(1, 3))
        if kind == "slice":
            start = data.draw(st.integers(0, want.shape[axis] - 1))
            end = data.draw(st.integers(start + 1, want.shape[axis]))
            steps.append(("TPU_SLICE", cut(axis, start, end)))
            want = want.take(range(start, end), axis)
        elif kind == "pad":
            before = tuple(data.draw(st.integers(0, 3)) if d == axis else 0 for d in range(4))
            steps.append(("TPU_PAD", pads(before, (0, 0, 1, 0))))
            want = padded(want, before, (0, 0, 1, 0))
        elif kind == "transpose":
            order = (0, *data.draw(st.permutations([1, 2, 3])))
            steps.append(("TPU_TRANSPOSE", {"dims": 4, "order": order}))
            want = want.transpose(order)
        elif kind == "upsample":
            scale = data.draw(st.integers(1, 3))
            steps.append(("TPU_UPSAMPLE", {"scale_h": scale, "scale_w": 1}))
            want = want.repeat(scale, 2)
        else:
            steps.append(("TPU_TILE", {"repeats": (1, 1, 2, 1)}))
            want = np.tile(want, (1, 1, 2, 1))

    def build(graph: Graph) -> None:
        names = ["x", *(f"t{i}" for i in range(len(steps) - 1)), "y"]
        for (op, param), source, target in zip(steps, names, names[1:], strict=False):
            graph.add_tpu_layer(op, [source], param, [target])

    check(toolkit, build, {"x": x}, [SCALE], [want], [MODES[0], data.draw(st.sampled_from(MODES[1:]))])
