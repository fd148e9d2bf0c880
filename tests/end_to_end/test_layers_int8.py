"""Layers that compute with 8-bit integers in 4N: bit for bit what wide integers in numpy give, on DDR data,
in groups and dynamically."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.quantised import DTYPE, MODES, Array, check, floats, half_up, integers, net, saturated
from tests.support.workspaces import built_workspace
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_DIV, BINARY_MAX, BINARY_MIN, BINARY_MUL, BINARY_SUB
from user_layers.toolkit import Toolkit

TYPES = st.sampled_from(["int8", "uint8"])
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 140), st.integers(1, 11), st.integers(1, 11))
SHIFTS = st.one_of(st.integers(0, 9), st.integers(10, 31))


def some_modes(data: st.DataObject) -> list[dict[str, Any]]:
    """On DDR data, and one of the others."""
    return [MODES[0], data.draw(st.sampled_from(MODES[1:]))]


# ---- TPU_REQUANTIZE ----


def requantised(x: Array, p: dict[str, Any], dtype: str) -> Array:
    return saturated(half_up(x.astype(np.int64) * p["multiplier"], p["rshift"]), dtype)


@examples(12)
@given(
    shape=SHAPES, source=TYPES, target=TYPES, multiplier=st.integers(1, 127), rshift=SHIFTS, data=st.data()
)
def test_requantize(
    toolkit: Toolkit, shape: Any, source: str, target: str, multiplier: int, rshift: int, data: st.DataObject
) -> None:
    x = integers(shape, source, rshift)
    p = {"multiplier": multiplier, "rshift": rshift, "dtype": DTYPE[target], "scale": 0.5}
    check(
        toolkit,
        lambda graph: graph.add_tpu_layer("TPU_REQUANTIZE", ["x"], p, ["y"]),
        {"x": x},
        [0.25],
        [requantised(x, p, target)],
        some_modes(data),
    )


@pytest.mark.parametrize("n", [3, 9])
@pytest.mark.parametrize("source", ["int8", "uint8"])
@pytest.mark.parametrize("target", ["int8", "uint8"])
def test_requantize_every_number(toolkit: Toolkit, source: str, target: str, n: int) -> None:
    """All 256, between conversions, so in a group: halves go up, what is too large saturates."""
    every = np.arange(256, dtype=np.uint8).view(source).reshape(1, 4, 8, 8)
    x = np.concatenate([np.roll(every, i, 1) for i in range(n)])
    p = {"multiplier": 91, "rshift": 6, "dtype": DTYPE[target], "scale": 0.5}

    def build(graph: Graph) -> None:
        graph.add_const_binary_layer("x", 1.0, "a", BINARY_MUL)
        quantise = {"dtype": DTYPE[source], "scale": 0.25}
        graph.add_tpu_layer("TPU_QUANTIZE", ["a"], quantise, ["b"])
        graph.add_tpu_layer("TPU_REQUANTIZE", ["b"], p, ["c"])
        graph.add_const_binary_layer("c", 2.0, "y", BINARY_MUL)

    want = floats(requantised(x, p, target), 0.5) * np.float32(2)
    check(toolkit, build, {"x": x}, [0.25], [want])


# ---- TPU_ELTWISE_INT8 ----


def eltwise(a: Array, b: Array, p: dict[str, Any], dtype: str) -> Array:
    """As the layer's first comment has it."""
    x, y = a.astype(np.int64), b.astype(np.int64)
    op, rshift = p["binary_op"], p.get("rshift", 0)
    if op in (BINARY_MAX, BINARY_MIN):
        found = np.maximum(x, y) if op == BINARY_MAX else np.minimum(x, y)
    elif op == BINARY_MUL:
        found = half_up(x * y, rshift)
    else:
        sign = 1 if op == BINARY_ADD else -1
        found = half_up(x * p["multiplier_a"] + sign * y * p["multiplier_b"], rshift)
        found = saturated(found, "int16").astype(np.int64)
    return saturated(np.maximum(found, 0) if p.get("relu") else found, dtype)


def broadcast_of(shape: tuple[int, ...], data: st.DataObject) -> tuple[int, ...]:
    """The shape with some extents of 1, but for batches."""
    return shape[0], *(extent if data.draw(st.booleans()) else 1 for extent in shape[1:])


@examples(30)
@given(
    shape=SHAPES,
    a_type=TYPES,
    b_type=TYPES,
    target=TYPES,
    op=st.sampled_from([BINARY_ADD, BINARY_SUB, BINARY_MUL]),
    multipliers=st.one_of(st.just((1, 1)), st.tuples(st.integers(1, 127), st.integers(1, 127))),
    rshift=SHIFTS,
    relu=st.integers(0, 1),
    data=st.data(),
)
def test_eltwise(
    toolkit: Toolkit,
    shape: Any,
    a_type: str,
    b_type: str,
    target: str,
    op: int,
    multipliers: tuple[int, int],
    rshift: int,
    relu: int,
    data: st.DataObject,
) -> None:
    """Every mix of types; operands of one shape, broadcast ones, constants."""
    kind = data.draw(st.sampled_from(["same", "a", "b", "constant"]))
    a = integers(broadcast_of(shape, data) if kind == "a" else shape, a_type, rshift)
    b_shape = {"b": broadcast_of(shape, data), "constant": (1, *broadcast_of(shape, data)[1:])}.get(
        kind, shape
    )
    b = integers(b_shape, b_type, 1 + rshift)
    p: dict[str, Any] = {
        "binary_op": op,
        "multiplier_a": multipliers[0],
        "multiplier_b": multipliers[1],
        "rshift": rshift,
        "relu": relu,
        "dtype": DTYPE[target],
        "scale": 0.5,
    }
    inputs = {"a": a} if kind == "constant" else {"a": a, "b": b}

    def build(graph: Graph) -> None:
        if kind == "constant":
            graph.add_const("b", b)
        graph.add_tpu_layer("TPU_ELTWISE_INT8", ["a", "b"], p, ["y"])

    check(toolkit, build, inputs, [0.25, 0.125][: len(inputs)], [eltwise(a, b, p, target)], some_modes(data))


@examples(10)
@given(
    shape=SHAPES,
    dtype=TYPES,
    op=st.sampled_from([BINARY_MAX, BINARY_MIN]),
    relu=st.integers(0, 1),
    data=st.data(),
)
def test_extrema(toolkit: Toolkit, shape: Any, dtype: str, op: int, relu: int, data: st.DataObject) -> None:
    a, b = integers(shape, dtype, 1), integers(broadcast_of(shape, data), dtype, 2)
    p = {"binary_op": op, "relu": relu, "dtype": DTYPE[dtype], "scale": 0.25}
    check(
        toolkit,
        lambda graph: graph.add_tpu_layer("TPU_ELTWISE_INT8", ["a", "b"], p, ["y"]),
        {"a": a, "b": b},
        [0.25, 0.25],
        [eltwise(a, b, p, dtype)],
        some_modes(data),
    )


@pytest.mark.parametrize("op", [BINARY_ADD, BINARY_SUB, BINARY_MUL])
@pytest.mark.parametrize("target", ["int8", "uint8"])
@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")], ids=str)
def test_every_pair(toolkit: Toolkit, types: tuple[str, str], target: str, op: int) -> None:
    """All 65536 pairs, with and without the short way."""
    every = np.arange(256, dtype=np.uint8)
    a = np.broadcast_to(every, (256, 256)).reshape(4, 64, 16, 16).view(types[0])
    b = np.broadcast_to(every[:, None], (256, 256)).reshape(4, 64, 16, 16).view(types[1])
    common = {"binary_op": op, "dtype": DTYPE[target], "scale": 0.5}
    one = {**common, "multiplier_a": 1, "multiplier_b": 1, "rshift": 1}
    two = {**common, "multiplier_a": 127, "multiplier_b": 126, "rshift": 7, "relu": 1}

    def build(graph: Graph) -> None:
        graph.add_tpu_layer("TPU_ELTWISE_INT8", ["a", "b"], one, ["y"])
        graph.add_tpu_layer("TPU_ELTWISE_INT8", ["a", "b"], two, ["z"])

    wants = [eltwise(a, b, one, target), eltwise(a, b, two, target)]
    check(toolkit, build, {"a": a.copy(), "b": b.copy()}, [0.25, 0.25], wants, MODES[:2])


# ---- TPU_PRELU_INT8 ----


@examples(10)
@given(shape=SHAPES, rshift=SHIFTS, kind=st.sampled_from(["one", "channels", "rows", "all"]), data=st.data())
def test_prelu(toolkit: Toolkit, shape: Any, rshift: int, kind: str, data: st.DataObject) -> None:
    """One slope, one for each channel, others; those below 0 too."""
    _, c, h, w = shape
    slopes = {"one": (1,), "channels": (1, c, 1, 1), "rows": (h, 1), "all": (1, c, h, w)}[kind]
    x, slope = integers(shape, "int8", rshift), integers(slopes, "int8", 1 + rshift)

    def build(graph: Graph) -> None:
        graph.add_const("slope", slope)
        graph.add_tpu_layer("TPU_PRELU_INT8", ["x", "slope"], {"rshift": rshift}, ["y"])

    below = saturated(half_up(x.astype(np.int64) * slope, rshift), "int8")
    check(toolkit, build, {"x": x}, [0.25], [np.where(x > 0, x, below)], some_modes(data))


# ---- TPU_LOOKUP ----


@examples(10)
@given(shape=SHAPES, source=TYPES, target=TYPES, seed=st.integers(0, 99), data=st.data())
def test_lookup(
    toolkit: Toolkit, shape: Any, source: str, target: str, seed: int, data: st.DataObject
) -> None:
    x, table = integers(shape, source, seed), integers((256,), target, 1 + seed)

    def build(graph: Graph) -> None:
        graph.add_const("table", table)
        p = {"dtype": DTYPE[target], "scale": 0.5}
        graph.add_tpu_layer("TPU_LOOKUP", ["x", "table"], p, ["y"])

    check(toolkit, build, {"x": x}, [0.25], [table[x.view(np.uint8)]], some_modes(data))


# ---- together ----


CHANNELS = 70


def block(graph: Graph, table: Array) -> None:
    """Between conversions, everything that can lie in one group."""
    graph.add_const_binary_layer("x", 0.5, "a", BINARY_MUL)
    graph.set_scale("a", 0.05)
    graph.add_tpu_layer(
        "TPU_REQUANTIZE",
        ["a"],
        {"multiplier": 100, "rshift": 6, "dtype": DTYPE["uint8"], "scale": 0.03},
        ["b"],
    )
    graph.add_const("table", table)
    graph.add_tpu_layer("TPU_LOOKUP", ["b", "table"], {"dtype": DTYPE["int8"], "scale": 0.04}, ["c"])
    add = {
        "binary_op": BINARY_ADD,
        "multiplier_a": 3,
        "multiplier_b": 90,
        "rshift": 6,
        "dtype": DTYPE["int8"],
    }
    graph.add_tpu_layer("TPU_ELTWISE_INT8", ["b", "c"], {**add, "scale": 0.07}, ["d"])
    graph.add_tpu_layer("TPU_PAD", ["d"], {"before": (0, 0, 1, 1), "after": (0, 0, 1, 0), "bits": -3}, ["e"])
    graph.add_tpu_layer("TPU_UPSAMPLE", ["e"], {"scale_h": 2, "scale_w": 1}, ["u"])
    graph.add_const("slope", np.arange(1, 1 + CHANNELS, dtype=np.int8).reshape(1, -1, 1, 1))
    graph.add_tpu_layer("TPU_PRELU_INT8", ["u", "slope"], {"rshift": 6}, ["f"])
    graph.add_const_binary_layer("f", 3.0, "y", BINARY_MUL)


def block_want(x: Array, table: Array) -> Array:
    steps = x * np.float32(0.5) * (np.float32(1) / np.float32(0.05))
    a = np.clip(np.rint(steps), -128, 127).astype(np.int8)
    b = requantised(a, {"multiplier": 100, "rshift": 6}, "uint8")
    p = {"binary_op": BINARY_ADD, "multiplier_a": 3, "multiplier_b": 90, "rshift": 6}
    d = eltwise(b, table[b], p, "int8")
    u = np.pad(d, ((0, 0), (0, 0), (1, 1), (1, 0)), constant_values=-3).repeat(2, 2).astype(np.int64)
    slope = np.arange(1, 1 + CHANNELS).reshape(1, -1, 1, 1)
    f = np.where(u > 0, u, saturated(half_up(u * slope, 6), "int8"))
    found: Array = floats(f, 0.07) * np.float32(3)
    return found


@pytest.mark.parametrize("n", [1, 4, 6])
def test_a_net(toolkit: Toolkit, n: int) -> None:
    """Of any number of batches, in groups of all layers, cut and not."""
    table = integers((256,), "int8", 5)
    x = np.random.default_rng(n).normal(0, 6, (n, CHANNELS, 9, 7)).astype(np.float32)
    for options in MODES:
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape)
        block(graph, table)
        graph.compile(**options)
        (y,) = graph.run({"x": x})
        np.testing.assert_array_equal(y, block_want(x, table), err_msg=str(options))


def test_large_tiles_are_cut(toolkit: Toolkit) -> None:
    table = integers((256,), "int8", 5)
    x = np.random.default_rng(1).normal(0, 6, (6, CHANNELS, 90, 80)).astype(np.float32)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    block(graph, table)
    for opt in (0, 1):
        graph.compile(opt=opt)
        np.testing.assert_array_equal(graph.run({"x": x})[0], block_want(x, table))


def test_fewer_batches_than_compiled(toolkit: Toolkit) -> None:
    """A dynamic net, and its groups."""
    table = integers((256,), "int8", 5)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (9, CHANNELS, 9, 7))
    block(graph, table)
    graph.compile(dynamic=True)
    for n in (9, 8, 5, 4, 2, 1):
        x = np.random.default_rng(n).normal(0, 6, (n, CHANNELS, 9, 7)).astype(np.float32)
        np.testing.assert_array_equal(graph.run({"x": x})[0], block_want(x, table))


def test_the_controller_does_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    """On the images for the controller, static and dynamic."""
    table = integers((256,), "int8", 5)
    x = np.random.default_rng(3).normal(0, 6, (5, CHANNELS, 9, 3)).astype(np.float32)
    with Toolkit(built_workspace(tmp_path_factory), firmware="arm") as controller:
        for dynamic in (False, True):
            graph = Graph(name="net", toolkit=controller)
            graph.add_input("x", x.shape)
            block(graph, table)
            graph.compile(dynamic=dynamic)
            np.testing.assert_array_equal(graph.run({"x": x})[0], block_want(x, table))


# ---- refusals ----


def refused(
    toolkit: Toolkit, op: str, param: dict[str, Any], *inputs: Array, scales: tuple[float, ...] = ()
) -> str:
    graph = net(toolkit, {f"x{i}": x for i, x in enumerate(inputs)}, scales or [0.25] * len(inputs))
    graph.add_tpu_layer(op, [f"x{i}" for i in range(len(inputs))], param, ["y"])
    with pytest.raises(TpulayerError, match=f"{op}.*shape function") as caught:
        graph.compile()
    return str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [{"multiplier": 0}, {"multiplier": 128}, {"rshift": -1}, {"rshift": 32}, {"dtype": 0}, {"scale": 0.0}],
    ids=str,
)
def test_requantize_refuses(toolkit: Toolkit, wrong: dict[str, Any]) -> None:
    good = {"multiplier": 3, "rshift": 1, "dtype": DTYPE["int8"], "scale": 0.5}
    text = refused(toolkit, "TPU_REQUANTIZE", {**good, **wrong}, integers((2, 3), "int8"))
    assert "BM_LAYER_PARAM_INVALID" in text


def test_eltwise_refuses(toolkit: Toolkit) -> None:
    op = "TPU_ELTWISE_INT8"
    good = {
        "binary_op": BINARY_ADD,
        "multiplier_a": 1,
        "multiplier_b": 1,
        "dtype": DTYPE["int8"],
        "scale": 0.25,
    }
    x = integers((2, 3, 4, 5), "int8")
    for wrong in ({"binary_op": BINARY_DIV}, {"multiplier_b": 0}, {"relu": 2}, {"rshift": 40}, {"dtype": 4}):
        assert "BM_LAYER_PARAM_INVALID" in refused(toolkit, op, {**good, **wrong}, x, x)
    assert "BM_LAYER_PARAM_INVALID" in refused(toolkit, op, good, x, integers((2, 2, 4, 5), "int8"))
    for other in (integers((1, 3, 4, 5), "int8"), integers((3, 4, 5), "int8")):  # batches do not repeat
        assert "BM_LAYER_NOT_SUPPORTED" in refused(toolkit, op, good, x, other)
    greater = {**good, "binary_op": BINARY_MAX}
    assert "BM_LAYER_NOT_SUPPORTED" in refused(toolkit, op, greater, x, x.view(np.uint8))
    assert "BM_LAYER_NOT_SUPPORTED" in refused(toolkit, op, greater, x, x, scales=(0.25, 0.5))
    assert "BM_LAYER_NOT_SUPPORTED" in refused(toolkit, op, {**greater, "scale": 0.5}, x, x)


def test_prelu_refuses(toolkit: Toolkit) -> None:
    x, one = integers((2, 3, 4, 5), "int8"), np.array([3], np.int8)
    for wrong, slope, rshift in (
        (x, one, 32),
        (x.view(np.uint8), one, 4),
        (x, one.view(np.uint8), 4),
        (x, integers((2, 1, 1, 1), "int8"), 4),
        (x, integers((4, 3, 4, 5), "int8"), 4),
        (x[..., :1], integers((1, 1, 1, 5), "int8"), 4),
    ):
        graph = net(toolkit, {"x": wrong}, [0.25])
        graph.add_const("slope", slope)
        graph.add_tpu_layer("TPU_PRELU_INT8", ["x", "slope"], {"rshift": rshift}, ["y"])
        with pytest.raises(TpulayerError, match=r"TPU_PRELU_INT8.*shape function.*BM_LAYER_"):
            graph.compile()


def test_lookup_refuses(toolkit: Toolkit) -> None:
    """Tables of other sizes and types, and those that are no constants."""
    p = {"dtype": DTYPE["int8"], "scale": 0.5}
    x = integers((2, 3, 4, 5), "int8")
    for table in (np.zeros(255, np.int8), np.zeros(256, np.float32)):
        graph = net(toolkit, {"x": x}, [0.25])
        graph.add_const("table", table)
        graph.add_tpu_layer("TPU_LOOKUP", ["x", "table"], p, ["y"])
        with pytest.raises(TpulayerError, match=r"TPU_LOOKUP.*shape function"):
            graph.compile()
    assert "BM_LAYER_NOT_SUPPORTED" in refused(toolkit, "TPU_LOOKUP", p, x, integers((256,), "int8"))
