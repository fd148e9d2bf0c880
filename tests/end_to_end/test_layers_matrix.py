"""Matrix products, reductions, softmax, normalizations and arguments of maxima, beside numpy in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.report.model import total
from user_layers.toolkit import Toolkit

Array = NDArray[Any]
WAYS = ("static", "local", "dynamic")


def sample(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(np.float32)


def run(
    toolkit: Toolkit,
    op: str,
    inputs: Sequence[Array],
    param: Mapping[str, Any],
    *,
    consts: Sequence[Array] = (),
    outputs: int = 1,
    way: str = "static",
    maxima: Sequence[Sequence[int]] | None = None,
) -> list[Array]:
    """One layer's outputs. maxima: the shapes that a dynamic net is compiled for, if not the inputs' own."""
    graph = Graph(name="net", toolkit=toolkit)
    names, feed = [], {}
    for i, x in enumerate(inputs):
        shape = x.shape if maxima is None else maxima[i]
        names.append(graph.add_input(f"in{i}", shape, x.dtype))
        feed[f"in{i}"] = x
    names += [graph.add_const(f"const{i}", c) for i, c in enumerate(consts)]
    outs = [f"out{i}" for i in range(outputs)]
    graph.add_tpu_layer(op, names, param, outs)
    for name in outs:
        graph.add_output(name)
    graph.compile(dynamic=way == "dynamic", opt=1 if way == "local" else 0)
    return graph.run(feed)


def near(got: Array, want: Array, limit: float = 1e-5) -> None:
    """The error is at most `limit` of the largest value."""
    assert got.shape == want.shape
    assert np.isfinite(got).all()
    assert np.abs(got - want).max() <= limit * max(float(np.abs(want).max()), 1e-30)


def refused(toolkit: Toolkit, op: str, inputs: Sequence[Array], param: Mapping[str, Any]) -> None:
    with pytest.raises(TpulayerError, match=op.removeprefix("TPU_").lower()) as caught:
        run(toolkit, op, inputs, param)
    assert "shape" in str(caught.value)


# ---- TPU_MATMUL ----


def product(a: Array, b: Array, param: Mapping[str, Any], bias: Array | None) -> Array:
    left, right = a.astype(np.float64), b.astype(np.float64)
    if param.get("trans_a") and a.ndim > 1:
        left = left.swapaxes(-1, -2)
    if param.get("trans_b") and b.ndim > 1:
        right = right.swapaxes(-1, -2)
    made = np.atleast_1d(left @ right) * (param.get("alpha") or 1.0)
    return np.asarray(made if bias is None else made + bias)


MATRICES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3), (3, 4), {}),
    ((3, 2, 50, 64), (64, 50), {}),  # one right matrix: the batches are rows
    ((3, 2, 4, 5, 20), (3, 1, 1, 20, 9), {}),  # one for several batches
    ((2, 3, 4, 5, 20), (3, 1, 20, 9), {}),
    ((3, 1, 4, 5, 20), (3, 2, 1, 20, 9), {"alpha": 2.0}),
    ((3, 1, 9, 70), (2, 70, 33), {"alpha": 0.5}),
    ((5,), (5,), {}),
    ((5,), (3, 5, 4), {}),
    ((3, 4, 5), (5,), {"trans_b": 1}),
    ((64, 70), (64, 80), {"trans_a": 1}),
    ((70, 65), (81, 65), {"trans_b": 1}),
    ((2, 70, 2200), (2, 90, 70), {"trans_a": 1, "trans_b": 1, "alpha": -2.0}),
    ((1, 2300), (2300, 2100), {}),  # cut over n and k
    ((40, 4501), (4501, 1030), {}),  # the same as a convolution, with a last single summand
    ((1030, 33), (33, 70), {"alpha": 3.0}),  # cut over m
    ((41, 7, 9), (41, 9, 5), {}),  # many batches in one share
    ((300, 1, 9), (300, 9, 65), {}),  # the same by the matrix product
    ((700, 1500), (1500, 65), {}),  # cut over m and k: sums go on in another command
    ((2, 2100), (2081, 2100), {"trans_b": 1}),  # a constant in blocks of columns, the last narrow
    ((3, 70, 2), (70, 95), {"trans_a": 1}),  # one such matrix for several batches
    ((7,), (7, 40), {}),
    ((7, 4500), (4500, 300), {}),  # several rows of a left matrix that stays in local memory
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("a", "b", "param"), MATRICES)
def test_products(
    toolkit: Toolkit, a: tuple[int, ...], b: tuple[int, ...], param: dict[str, Any], way: str
) -> None:
    x, y = sample(a), sample(b, 1)
    (got,) = run(toolkit, "TPU_MATMUL", [x], param, consts=[y], way=way)
    near(got, product(x, y, param, None))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("m", "n"), [(1, 100), (3, 100), (50, 40)])
def test_constants_are_turned_when_the_net_is_compiled(
    toolkit: Toolkit, turned: tuple[int, int], m: int, n: int, way: str
) -> None:
    """Both operands are constants beside a third, which is computed: what is added."""
    x, y = sample((70, m) if turned[0] else (m, 70)), sample((n, 70) if turned[1] else (70, n), 1)
    c, param = sample((n,), 2), {"trans_a": turned[0], "trans_b": turned[1]}
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_const("x", x)
    graph.add_const("y", y)
    graph.add_input("c", c.shape)
    graph.add_tpu_layer("TPU_MATMUL", ["x", "y", "c"], param, ["z"])
    graph.compile(dynamic=way == "dynamic")
    near(graph.run({"c": c})[0], product(x, y, param, c))


def test_batches_of_one_right_matrix_are_rows_of_one_product(toolkit: Toolkit) -> None:
    commands = []
    for a in ((3, 8, 2, 20), (3, 16, 20)):
        graph = Graph(name="net", toolkit=toolkit)
        names = [graph.add_input("a", a), graph.add_input("b", (3, 1, 20, 9) if len(a) == 4 else (3, 20, 9))]
        graph.add_tpu_layer("TPU_MATMUL", names, {}, ["c"])
        work = total(graph.compile(opt=0, report=True).report[0].recorded)
        commands.append(work.bd_commands + work.gdma_commands)
    assert commands[0] == commands[1]


@examples(15)
@given(
    batch=st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["both", "left", "right"])), max_size=3),
    sizes=st.tuples(*[st.sampled_from([1, 2, 31, 33, 64, 130])] * 3),
    turned=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    alpha=st.sampled_from([0.0, 1.0, 0.25]),
    bias=st.booleans(),
    dynamic=st.booleans(),
)
def test_products_of_batches(
    toolkit: Toolkit,
    batch: list[tuple[int, str]],
    sizes: tuple[int, int, int],
    turned: tuple[int, int],
    alpha: float,
    bias: bool,
    dynamic: bool,
) -> None:
    m, k, n = sizes
    a = [1 if which == "right" else extent for extent, which in batch]
    b = [1 if which == "left" else extent for extent, which in batch]
    x = sample([*a, *((k, m) if turned[0] else (m, k))])
    y = sample([*b, *((n, k) if turned[1] else (k, n))], 1)
    c = sample([n], 2) if bias else None
    param = {"trans_a": turned[0], "trans_b": turned[1], "alpha": alpha}
    added = [] if c is None else [c]
    (got,) = run(toolkit, "TPU_MATMUL", [x, y], param, consts=added, way="dynamic" if dynamic else "static")
    near(got, product(x, y, param, c))


def test_a_product_of_a_dynamic_net_with_a_smaller_shape(toolkit: Toolkit) -> None:
    x, y = sample((2, 9, 70)), sample((70, 50), 1)
    (got,) = run(toolkit, "TPU_MATMUL", [x], {}, consts=[y], way="dynamic", maxima=[(5, 33, 70)])
    near(got, product(x, y, {}, None))


@pytest.mark.parametrize(
    ("shapes", "param"),
    [
        ([(3, 4), (5, 6)], {}),
        ([(2, 3, 4), (3, 4, 5)], {}),
        ([(3, 4), (4, 5)], {"trans_a": 2}),
        ([(3, 4), (4, 5), (4,)], {}),
        ([(3, 4)], {}),
    ],
)
def test_matrices_that_do_not_fit(
    toolkit: Toolkit, shapes: list[tuple[int, ...]], param: dict[str, Any]
) -> None:
    refused(toolkit, "TPU_MATMUL", [sample(s) for s in shapes], param)


# ---- TPU_SOFTMAX ----


def softmax(x: Array, param: Mapping[str, int]) -> Array:
    values = x.astype(np.float64)
    axis = param["axis"] % x.ndim
    if param.get("flatten"):
        values = values.reshape(*x.shape[:axis], -1)
    values = values - values.max(axis, keepdims=True)
    sums = np.exp(values).sum(axis, keepdims=True)
    made = values - np.log(sums) if param.get("log") else np.exp(values) / sums
    return np.asarray(made.reshape(x.shape))


SOFTMAXES: list[tuple[tuple[int, ...], int, int]] = [
    ((1, 1000), 1, 0),
    ((5,), -1, 0),
    ((3, 1), 1, 0),
    ((100, 1, 5000), 1, 0),
    ((6500, 3), 1, 0),  # more rows than an instruction has channels
    ((3, 100, 197), 2, 0),
    ((2, 21, 33, 50), 1, 0),  # inner elements on the lanes
    ((2, 3, 4, 5, 6), 2, 1),
    ((4000,), 0, 0),  # a long row of its own is dealt over the lanes
    ((2, 100_000), 1, 0),
    ((20_000, 70), 0, 0),
    ((9, 18_720), 1, 0),  # as many as one pass holds, and one more; not dealt over the lanes
    ((9, 18_721), 1, 0),
]


@pytest.mark.parametrize("log", [0, 1])
@pytest.mark.parametrize(("shape", "axis", "flatten"), SOFTMAXES)
def test_softmax(toolkit: Toolkit, shape: tuple[int, ...], axis: int, flatten: int, log: int) -> None:
    x = sample(shape) * np.float32(5)
    param = {"axis": axis, "flatten": flatten, "log": log}
    (got,) = run(toolkit, "TPU_SOFTMAX", [x], param)
    want = softmax(x, param)
    near(got, want)
    if not log:  # also small values are exact
        assert (np.abs(got - want) <= 1e-5 * want).all()


@pytest.mark.parametrize("shape", [(64, 249), (1, 63_744)])  # in one pass, and in several
def test_softmax_divides_to_the_last_bit(toolkit: Toolkit, shape: tuple[int, int]) -> None:
    """The chip's reciprocal of these sums alone is off by 3e-7: one step of Newton's follows."""
    (got,) = run(toolkit, "TPU_SOFTMAX", [np.full(shape, 2, np.float32)], {"axis": 1})
    assert np.abs(got.astype(np.float64) * shape[1] - 1).max() < 1.5e-7


def test_softmax_is_stable(toolkit: Toolkit) -> None:
    x = np.array([[1e30, 1e30, -1e30], [-3e38, -3e38, -3e38], [500, 400, -np.inf]], np.float32)
    for log in (0, 1):
        (got,) = run(toolkit, "TPU_SOFTMAX", [x], {"axis": 1, "log": log})
        want = softmax(np.maximum(x, np.float32(-3e38)), {"axis": 1, "log": log})
        if log:
            assert got[2, 2] == -np.inf
            got[2, 2] = want[2, 2]
        assert np.allclose(got, want, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("log", [0, 1])
@pytest.mark.parametrize("length", [3, 30_000])
def test_softmax_of_nan(toolkit: Toolkit, length: int, log: int) -> None:
    x = sample((2, length))
    x[1, 2] = np.nan
    (got,) = run(toolkit, "TPU_SOFTMAX", [x], {"axis": 1, "log": log})
    assert np.isnan(got[1]).all()
    near(got[:1], softmax(x[:1], {"axis": 1, "log": log}))


@examples(12)
@given(
    shape=st.lists(st.sampled_from([1, 2, 7, 33, 64, 65]), min_size=1, max_size=4),
    axis=st.integers(0, 3),
    flatten=st.integers(0, 1),
    log=st.integers(0, 1),
    dynamic=st.booleans(),
)
def test_softmax_of_any_shape(
    toolkit: Toolkit, shape: list[int], axis: int, flatten: int, log: int, dynamic: bool
) -> None:
    x = sample(shape) * np.float32(3)
    param = {"axis": axis % len(shape), "flatten": flatten, "log": log}
    maxima = [[extent + 3 for extent in shape]] if dynamic else None
    way = "dynamic" if dynamic else "static"
    (got,) = run(toolkit, "TPU_SOFTMAX", [x], param, way=way, maxima=maxima)
    near(got, softmax(x, param))


def test_softmax_of_wrong_parameters(toolkit: Toolkit) -> None:
    refused(toolkit, "TPU_SOFTMAX", [sample((2, 3))], {"axis": 2})
    refused(toolkit, "TPU_SOFTMAX", [sample((2, 3))], {"axis": 0, "log": 2})
    refused(toolkit, "TPU_SOFTMAX", [np.ones((2, 3), np.int32)], {"axis": 0})


# ---- TPU_REDUCE ----

REDUCTIONS = ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp")


def reduction(x: Array, kind: str, axes: Sequence[int], keep: int) -> Array:
    values, axis = x.astype(np.float64), tuple(axes) or None
    if kind in ("l1", "l2", "sum_square"):
        values = np.abs(values) if kind == "l1" else values**2
    if kind == "log_sum_exp":
        values = np.exp(values)
    plain = kind if kind in ("mean", "max", "min", "prod") else "sum"
    made = getattr(np, plain)(values, axis=axis, keepdims=bool(keep))
    if kind == "l2":
        made = np.sqrt(made)
    return np.atleast_1d(np.log(made) if kind.startswith("log") else made)


def reduces(toolkit: Toolkit, x: Array, kind: str, axes: Sequence[int], keep: int, **how: Any) -> None:
    if kind in ("prod", "log_sum"):  # neither overflow nor logarithms of negative numbers
        x = np.exp(np.float32(0.2) * np.tanh(x))
    param = {"kind": REDUCTIONS.index(kind), "keep_dims": keep, "axes_num": len(axes), "axes": list(axes)}
    (got,) = run(toolkit, "TPU_REDUCE", [x], param, **how)
    want = reduction(x, kind, axes, keep)
    if kind in ("sum", "mean"):  # sums of random signs may be small: the terms are the measure
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= 1e-6 * np.abs(reduction(np.abs(x), kind, axes, keep)).max()
    else:
        near(got, want, 1e-4 if kind == "prod" else 1e-5)


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 64, 30, 31), (2, 3)),
        ((100_000,), (0,)),  # dealt over the lanes
        ((3, 5000, 5), (1,)),
        ((2, 3, 4, 5, 6), (0, -3, 4)),  # three runs of dimensions
        ((4, 1, 3), (1,)),  # every number by itself
        ((9000, 130), (0,)),
        ((3000, 1100), (0,)),  # inner elements on the lanes, rows cut
        ((40, 300, 200), (1,)),  # outer elements on the lanes, rows cut
        ((6500, 9), (1,)),  # more rows than an instruction has channels
        ((3, 4, 5), ()),
    ],
)
def test_reductions(toolkit: Toolkit, shape: tuple[int, ...], axes: tuple[int, ...], kind: str) -> None:
    reduces(toolkit, sample(shape), kind, axes, len(shape) % 2)


@examples(15)
@given(
    shape=st.lists(st.sampled_from([1, 2, 7, 33, 64, 65]), min_size=1, max_size=4),
    which=st.integers(0, 15),
    kind=st.sampled_from(REDUCTIONS),
    keep=st.integers(0, 1),
    dynamic=st.booleans(),
)
def test_reductions_of_any_shape(
    toolkit: Toolkit, shape: list[int], which: int, kind: str, keep: int, dynamic: bool
) -> None:
    axes = [d for d in range(len(shape)) if which >> d & 1]
    maxima = [[extent + 3 for extent in shape]] if dynamic else None
    way = "dynamic" if dynamic else "static"
    reduces(toolkit, sample(shape), kind, axes, keep, way=way, maxima=maxima)


def test_reductions_of_wrong_parameters(toolkit: Toolkit) -> None:
    x = [sample((2, 3))]
    refused(toolkit, "TPU_REDUCE", x, {"kind": 10})
    refused(toolkit, "TPU_REDUCE", x, {"axes_num": 1, "axes": [2]})
    refused(toolkit, "TPU_REDUCE", x, {"axes_num": 2, "axes": [1, -1]})


def test_norms_of_exceptions(toolkit: Toolkit) -> None:
    x = np.array([[0, 0], [np.inf, -1], [np.nan, 1], [1e-15, 0], [1e15, 0]], np.float32)
    (got,) = run(toolkit, "TPU_REDUCE", [x], {"kind": 6, "axes_num": 1, "axes": [1]})
    assert np.allclose(got, reduction(x, "l2", [1], 0), rtol=1e-6, atol=0, equal_nan=True)


def test_logarithms_of_exceptions(toolkit: Toolkit) -> None:
    x = np.array([[0, 0], [1, -2], [np.inf, 1], [np.nan, 1], [3e38, 0], [2e-38, 0], [1, 1e-7]], np.float32)
    (got,) = run(toolkit, "TPU_REDUCE", [x], {"kind": 8, "axes_num": 1, "axes": [1]})
    with np.errstate(all="ignore"):
        want = np.log(x.astype(np.float64).sum(1))
    assert np.allclose(got, want, rtol=1e-6, atol=1e-7, equal_nan=True)


# ---- TPU_SCALE_SHIFT ----


@examples(15)
@given(
    shape=st.lists(st.sampled_from([1, 2, 7, 64, 65, 130]), min_size=1, max_size=4),
    axis=st.integers(-1, 2),
    shift=st.booleans(),
    relu=st.integers(0, 1),
    way=st.sampled_from(WAYS),
)
def test_scales_of_channels(
    toolkit: Toolkit, shape: list[int], axis: int, shift: bool, relu: int, way: str
) -> None:
    axis = axis if axis < len(shape) else -1
    x, scale, added = sample(shape), sample([shape[axis]], 1), sample([shape[axis]], 2)
    form = [1] * len(shape)
    form[axis] = shape[axis]
    consts = [scale.reshape(form), added.reshape(form)][: 1 + shift]
    (got,) = run(toolkit, "TPU_SCALE_SHIFT", [x], {"axis": axis, "relu": relu}, consts=consts, way=way)
    want = x * scale.astype(np.float64).reshape(form) + (added.reshape(form) if shift else 0)
    near(got, np.maximum(want, 0) if relu else want, 1e-6)


def test_scales_in_a_local_group(toolkit: Toolkit) -> None:
    x, scale, shift = sample((2, 130, 90, 90)), sample((1, 130, 1, 1), 1), sample((1, 130, 1, 1), 2)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    names = [graph.add_const("scale", scale), graph.add_const("shift", shift)]
    graph.add_tpu_layer("TPU_SCALE_SHIFT", ["x", *names], {"axis": 1, "relu": 1}, ["a"])
    graph.add_tpu_layer("TPU_SCALE_SHIFT", ["a", names[0]], {"axis": 1}, ["y"])
    lines: list[str] = []
    graph.compile(log=lines.append)
    (got,) = graph.run({"x": x})
    assert any("group" in line for line in lines)
    near(got, np.maximum(x * scale + shift, 0) * scale, 1e-6)


def test_scales_that_do_not_fit(toolkit: Toolkit) -> None:
    x = sample((2, 3, 4, 5))
    refused(toolkit, "TPU_SCALE_SHIFT", [x, sample((4,))], {"axis": 1})
    refused(toolkit, "TPU_SCALE_SHIFT", [x, sample((3,)), sample((1,))], {"axis": 1})
    refused(toolkit, "TPU_SCALE_SHIFT", [x, sample((3,))], {"axis": 4})


# ---- local versions: rows of products, softmax and normalisations, in slices ----


@examples(25)
@given(st.data())
def test_rows_in_local_memory(toolkit: Toolkit, data: st.DataObject) -> None:
    """A product, a normalisation, a softmax and another product, in groups and in slices."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    rank, k, n, last = draw(3, 4), draw(1, 120), draw(1, 140), draw(1, 90)
    lead = [draw(1, 6), draw(1, 140), draw(1, 12)][: rank - 1]
    x, w, v = sample((*lead, k)), sample((k, n), 1), sample((n, last), 2)
    bias, scale = sample((n,), 3), sample((n,), 4)
    graph = Graph(name="rows", toolkit=toolkit)
    names = [graph.add_input("x", x.shape)]
    names += [graph.add_const(f"c{i}", c) for i, c in enumerate((w, bias, scale, v))]
    product_of = {"trans_a": 0, "trans_b": 0}
    graph.add_tpu_layer("TPU_MATMUL", [names[0], *names[1:3]], {**product_of, "alpha": 0.25}, ["a"])
    graph.add_tpu_layer("TPU_NORM", ["a", names[3]], {"axis": -1, "epsilon": 1e-3}, ["b"])
    graph.add_tpu_layer("TPU_SOFTMAX", ["b"], {"axis": -1}, ["c"])
    graph.add_tpu_layer("TPU_MATMUL", ["c", names[4]], {**product_of, "alpha": 1}, ["y"])
    graph.compile(opt=data.draw(st.sampled_from([1, 2])))
    (got,) = graph.run({"x": x})
    a = product(x, w, {"alpha": 0.25}, bias).astype(np.float32)
    b = normalized(a, {"axis": -1, "epsilon": 1e-3}, scale, None)
    powers = np.exp(b - b.max(axis=-1, keepdims=True))
    near(got, (powers / powers.sum(axis=-1, keepdims=True)) @ v.astype(np.float64), 2e-5)


@pytest.mark.parametrize(
    ("shape", "n"),
    [
        ((1, 8, 1200, 128), 64),
        ((2, 130, 9, 64), 33),
        ((1, 3, 2, 4600), 70),
        ((1, 70, 64), 3000),
        ((1, 8, 1200, 127), 33),
        ((2, 130, 33), 64),
    ],
)
def test_products_in_slices(toolkit: Toolkit, shape: tuple[int, ...], n: int) -> None:
    """Rows that do not fit at once or begin anywhere in a line; many summands, many columns."""
    x, w = sample(shape), sample((shape[-1], n), 1)
    (got,) = run(toolkit, "TPU_MATMUL", [x], {}, consts=[w, sample((n,), 2)], way="local")
    near(got, product(x, w, {}, sample((n,), 2)))


@examples(10)
@given(st.data())
def test_products_of_two_computed_matrices_in_groups(toolkit: Toolkit, data: st.DataObject) -> None:
    """Of three dimensions; a dynamic net runs with its own and with smaller shapes."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    sizes = draw(1, 5), draw(2, 150), draw(1, 150), draw(1, 200)
    dynamic, alpha = data.draw(st.booleans()), data.draw(st.sampled_from([1, 0.25]))
    bias = sample((sizes[3],), 3) if data.draw(st.booleans()) else None
    graph = Graph(name="product", toolkit=toolkit)
    graph.add_input("x", sizes[:3])
    graph.add_input("r", (sizes[0], *sizes[2:]))
    graph.add_const_binary_layer("x", 2.0, "a", 0)
    graph.add_const_binary_layer("r", 3.0, "b", 0)
    names = ["a", "b"] if bias is None else ["a", "b", graph.add_const("c", bias)]
    graph.add_tpu_layer("TPU_MATMUL", names, {"alpha": alpha}, ["y"])
    graph.add_tpu_layer("TPU_SOFTMAX", ["y"], {"axis": -1}, ["z"])
    graph.add_output("y")
    graph.add_output("z")
    log: list[str] = []
    graph.compile(opt=1, dynamic=dynamic, log=log.append)
    assert any(line.startswith("MATMUL") and ", local, group" in line for line in log)
    smaller = tuple(draw(1, size) for size in (*sizes[:3], sizes[3] if bias is None else 1))
    for n, m, k, columns in (sizes, (*smaller[:3], smaller[3] if bias is None else sizes[3]))[: 1 + dynamic]:
        x, r = sample((n, m, k), 1), sample((n, k, columns), 2)
        y, z = graph.run({"x": x, "r": r})
        near(y, product(x + np.float32(2), r + np.float32(3), {"alpha": alpha}, bias))
        powers = np.exp(y - y.max(axis=-1, keepdims=True))
        near(z, powers / powers.sum(axis=-1, keepdims=True))


# ---- TPU_NORM ----


def normalized(x: Array, param: Mapping[str, Any], scale: Array | None, shift: Array | None) -> Array:
    values = x.astype(np.float64)
    groups = param.get("groups", 0)
    form: Sequence[int]
    if groups == -2:
        made = normalized(np.moveaxis(x, 1, -1), {**param, "groups": 0, "axis": -1}, scale, shift)
        return np.moveaxis(made, -1, 1)
    if groups:
        n, c = x.shape[:2]
        rows = values.reshape(n * (groups if groups > 0 else c), -1)
        form = (1, c, *[1] * (x.ndim - 2))
    else:
        form = x.shape[param["axis"] % x.ndim :]
        rows = values.reshape(-1, int(np.prod(form)))
    if not param.get("rms"):
        rows = rows - rows.mean(1, keepdims=True)
    if param.get("rms") == 2:
        rows = rows / np.maximum(np.sqrt((rows**2).sum(1, keepdims=True)), param["epsilon"])
    else:
        rows = rows / np.sqrt((rows**2).mean(1, keepdims=True) + param["epsilon"])
    made = rows.reshape(x.shape)
    if scale is not None:
        made = made * scale.reshape(form)
    return np.asarray(made if shift is None else made + shift.reshape(form))


NORMS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 197, 768), {"axis": -1}),
    ((2, 5, 3, 7), {"axis": 2}),
    ((3, 70), {"axis": 0, "rms": 1}),
    ((9000, 5), {"axis": 1, "rms": 1}),
    ((2, 70, 30, 31), {"groups": -1}),
    ((2, 32, 20, 21), {"groups": 8}),
    ((1, 4, 300, 200), {"groups": 2}),  # longer than a lane
    ((1, 2, 70, 70), {"groups": -1}),  # a few long rows are dealt over the lanes
    ((10, 3, 10_000), {"axis": 1}),
    ((2, 2, 9000), {"axis": 1, "rms": 1}),
    ((2, 5, 3, 42), {"axis": 3}),
    ((1, 70, 30, 31), {"groups": -2}),
    ((2, 96, 2500), {"groups": -2}),  # more positions than a picture is wide
    ((3, 9, 7, 8), {"groups": -2, "rms": 1}),
    ((2, 200), {"groups": -2}),
    ((1, 300, 110, 111), {"groups": -2}),  # in several tiles
    ((5, 70, 40, 60), {"axis": -1, "rms": 1}),
    ((2, 130, 9, 7), {"groups": 1}),
    ((3, 70, 35), {"groups": 1, "rms": 1}),
    ((2, 192, 7, 6), {"groups": 3}),  # groups of lanes, and of slots of them
    ((2, 90, 7, 3), {"groups": 9, "rms": 1}),
    ((2, 70, 6, 5), {"axis": 1}),
    ((2, 20, 33), {"axis": 1, "rms": 1}),
    ((2, 70, 33), {"axis": -1, "rms": 2}),
    ((2, 5, 7, 196), {"axis": 3, "rms": 2}),
    ((2, 70, 9, 7), {"groups": -2, "rms": 2}),
    ((1, 200, 60, 61), {"groups": -2, "rms": 2}),
]


@pytest.mark.parametrize(("operands", "way"), [(0, "static"), (1, "local"), (2, "static"), (2, "local")])
@pytest.mark.parametrize(("shape", "param"), NORMS)
def test_normalizations(
    toolkit: Toolkit, shape: tuple[int, ...], param: dict[str, Any], operands: int, way: str
) -> None:
    x = sample(shape) * np.float32(3) + np.float32(10)
    param = {**param, "epsilon": 1e-3}
    size = shape[1] if param.get("groups") else int(np.prod(shape[param["axis"] % len(shape) :]))
    consts = [sample([size], 1), sample([size], 2)][:operands]
    scale, shift = (*consts, None, None)[:2]
    (got,) = run(toolkit, "TPU_NORM", [x], param, consts=consts, way=way)
    near(got, normalized(x, param, scale, shift))


def test_normalizations_of_smaller_shapes(toolkit: Toolkit) -> None:
    x, scale = sample((3, 20, 64)), sample((64,), 1)
    how: dict[str, Any] = {"way": "dynamic", "consts": [scale], "maxima": [(4, 50, 64)]}
    param = {"axis": 2, "epsilon": 1e-5}
    (got,) = run(toolkit, "TPU_NORM", [x], param, **how)
    near(got, normalized(x, param, scale, None))


@pytest.mark.parametrize("way", ["static", "local"])
def test_rows_that_are_shorter_than_epsilon(toolkit: Toolkit, way: str) -> None:
    x = sample((2, 6, 5)) * np.array([1, 1e-6, 1e-13, 1e-25, 0, 1e15], np.float32).reshape(6, 1)
    param = {"axis": 2, "rms": 2, "epsilon": 1e-12}
    (got,) = run(toolkit, "TPU_NORM", [x], param, way=way)
    near(got, normalized(x, param, None, None))
    small = normalized(x, param, None, None)[:, 2:4]
    assert np.abs(got[:, 2:4] / small - 1).max() <= 1e-5
    (got,) = run(toolkit, "TPU_NORM", [np.moveaxis(x, 2, 1)], {"groups": -2, **param}, way=way)
    near(got, np.moveaxis(normalized(x, param, None, None), 2, 1))


def test_a_normalization_with_a_large_mean(toolkit: Toolkit) -> None:
    x = sample((4, 500)) + np.float32(1000)
    param = {"axis": 1, "epsilon": 1e-5}
    (got,) = run(toolkit, "TPU_NORM", [x], param)
    near(got, normalized(x, param, None, None), 1e-4)


def test_normalizations_of_wrong_parameters(toolkit: Toolkit) -> None:
    x = sample((2, 6, 5))
    refused(toolkit, "TPU_NORM", [x], {"groups": 4})
    refused(toolkit, "TPU_NORM", [x], {"groups": -3})
    refused(toolkit, "TPU_NORM", [sample((1, 4096, 2))], {"groups": -2})
    refused(toolkit, "TPU_NORM", [x], {"axis": 3})
    refused(toolkit, "TPU_NORM", [x], {"axis": 2, "epsilon": -1.0})
    refused(toolkit, "TPU_NORM", [x, sample((6,))], {"axis": 2})
    refused(toolkit, "TPU_NORM", [x, sample((5,))], {"groups": 2})
    refused(toolkit, "TPU_NORM", [x], {"axis": 1, "rms": 2})
    refused(toolkit, "TPU_NORM", [x], {"groups": 1, "rms": 2})
    refused(toolkit, "TPU_NORM", [x], {"axis": 2, "rms": 3})
    refused(toolkit, "TPU_NORM", [sample((1, 22_000))], {"axis": 1, "rms": 2})


# ---- TPU_ARG ----


def arg(x: Array, param: Mapping[str, int]) -> Array:
    axis = param["axis"] % x.ndim
    values = -x if param.get("smallest") else x
    if param.get("select_last"):
        found = x.shape[axis] - 1 - np.flip(values, axis).argmax(axis)
    else:
        found = values.argmax(axis)
    return np.atleast_1d(np.expand_dims(found, axis) if param.get("keep_dims") else found)


def same_args(toolkit: Toolkit, x: Array, param: Mapping[str, int], **how: Any) -> None:
    (got,) = run(toolkit, "TPU_ARG", [x], param, **how)
    assert got.dtype == np.int32
    assert np.array_equal(got, arg(x, param))


@pytest.mark.parametrize("smallest", [0, 1])
@pytest.mark.parametrize("select_last", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3, 1000), 1),
        ((2, 21, 33, 50), 1),
        ((100_000,), 0),
        ((30_000, 70), 0),
        ((6500, 3), -1),
        ((2, 14_000, 3), 1),
        ((4, 1, 3), 1),
    ],
)
def test_arguments(
    toolkit: Toolkit, shape: tuple[int, ...], axis: int, select_last: int, smallest: int
) -> None:
    x = np.round(sample(shape) * 2)  # many equal ones
    same_args(toolkit, x, {"axis": axis, "select_last": select_last, "smallest": smallest})


@examples(12)
@given(
    shape=st.lists(st.sampled_from([1, 2, 7, 33, 64, 65]), min_size=1, max_size=4),
    axis=st.integers(0, 3),
    flags=st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    dynamic=st.booleans(),
)
def test_arguments_of_any_shape(
    toolkit: Toolkit, shape: list[int], axis: int, flags: tuple[int, int, int], dynamic: bool
) -> None:
    names = ("keep_dims", "select_last", "smallest")
    param = {"axis": axis % len(shape), **dict(zip(names, flags, strict=True))}
    maxima = [[extent + 3 for extent in shape]] if dynamic else None
    same_args(toolkit, sample(shape), param, way="dynamic" if dynamic else "static", maxima=maxima)


def test_arguments_among_exceptions(toolkit: Toolkit) -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, np.inf], [-0.0, 0.0], [-3e38, -np.inf]], np.float32)
    same_args(toolkit, x, {"axis": 1})
    same_args(toolkit, x, {"axis": 1, "smallest": 1, "select_last": 1})
    (got,) = run(toolkit, "TPU_ARG", [np.full((2, 3), np.nan, np.float32)], {"axis": 1})
    assert ((got >= 0) & (got < 3)).all()


def test_arguments_of_wrong_parameters(toolkit: Toolkit) -> None:
    refused(toolkit, "TPU_ARG", [sample((2, 3))], {"axis": 2})
    refused(toolkit, "TPU_ARG", [sample((2, 3))], {"axis": 1, "smallest": 2})


# ---- TPU_TOPK ----


@pytest.mark.parametrize("smallest", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((3, 1000), 1, 5), ((4, 50, 6), 1, 50), ((8400,), 0, 300), ((2, 7, 3, 5), -3, 1)]
)
def test_top_k(toolkit: Toolkit, shape: tuple[int, ...], axis: int, k: int, smallest: int) -> None:
    x = np.round(sample(shape) * 20)
    order = np.argsort(x if smallest else -x, axis=axis, kind="stable").take(np.arange(k), axis)
    for way, maxima in (("static", None), ("dynamic", [[extent + 3 for extent in shape]])):
        param = {"axis": axis, "k": k, "smallest": smallest}
        values, indices = run(toolkit, "TPU_TOPK", [x], param, outputs=2, way=way, maxima=maxima)
        assert indices.dtype == np.int32
        assert np.array_equal(indices, order)
        assert np.array_equal(values, np.take_along_axis(x, order, axis))


def test_top_k_of_wrong_parameters(toolkit: Toolkit) -> None:
    for param in ({"axis": 1, "k": 4}, {"axis": 1}, {"axis": 2, "k": 1}):
        with pytest.raises(TpulayerError, match="topk"):
            run(toolkit, "TPU_TOPK", [sample((2, 3))], param, outputs=2)
