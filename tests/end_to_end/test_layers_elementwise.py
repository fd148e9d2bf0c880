"""Functions of one, two and three elements (TPU_UNARY, TPU_BINARY, TPU_WHERE), beside numpy in float64."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError
from tests.paths import ROOT
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.net import functions
from user_layers.toolkit import Toolkit

Array = NDArray[Any]
WAYS = ("global", "local", "dynamic")
SMALLEST = float(np.finfo(np.float32).tiny)


def codes(kind: str) -> dict[str, int]:
    """Names and numbers of the operations, as the C header has them."""
    text = (ROOT / f"sdk/layers/lib/bm_layer_{kind.lower()}_ops.h").read_text()
    found: dict[str, int] = {}
    number = -1
    for name, value in re.findall(rf"^    BM_{kind}_(\w+)(?: = (\d+))?,?(?: +/\*.*)?$", text, re.M):
        number = int(value) if value else number + 1
        found[name] = number
    found.pop("COUNT", None)
    return found


UNARY, BINARY = codes("UNARY"), codes("BINARY")


def run(
    toolkit: Toolkit,
    op: str,
    inputs: Sequence[Array],
    param: Mapping[str, Any],
    *,
    consts: Sequence[Array] = (),
    way: str = "global",
    maxima: Sequence[Sequence[int]] | None = None,
) -> Array:
    """One layer's output. maxima: the shapes that a dynamic net is compiled for, if not the inputs' own."""
    graph = Graph(name="net", toolkit=toolkit)
    names, feed = [], {}
    for i, x in enumerate(inputs):
        names.append(graph.add_input(f"in{i}", x.shape if maxima is None else maxima[i], x.dtype))
        feed[f"in{i}"] = x
    names += [graph.add_const(f"const{i}", c) for i, c in enumerate(consts)]
    graph.add_tpu_layer(op, names, param, ["out"])
    graph.compile(dynamic=way == "dynamic", opt=1 if way == "local" else 0)
    (out,) = graph.run(feed)
    return out


def unary(
    toolkit: Toolkit, name: str, x: Array, a: float = 0.0, b: float = 0.0, *, way: str = "global"
) -> Array:
    return run(toolkit, "TPU_UNARY", [x], {"unary_op": UNARY[name], "a": a, "b": b}, way=way)


def binary(toolkit: Toolkit, name: str, a: Array, b: Array, *, way: str = "global") -> Array:
    return run(toolkit, "TPU_BINARY", [a, b], {"binary_op": BINARY[name]}, way=way)


def compare(got: Array, want: Array, relative: float, lost: float = SMALLEST) -> None:
    """Equal but for `relative` of the result and `lost`, which makes small results zero; NaN and infinities
    where `want` (float64) has them once it is fp32."""
    assert got.shape == want.shape and got.dtype == np.float32
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        near = np.abs(got - want) <= relative * np.abs(want) + lost
    special = ~np.isfinite(rounded)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    bad = ~np.where(special, same, near)
    where = np.argwhere(bad)[:5]
    assert not bad.any(), [(got[tuple(i)], want[tuple(i)]) for i in where]


# ---- one input ----


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Array) -> Array:
    return np.expm1(np.minimum(x, 0))


_erf, _erfc = np.vectorize(math.erf), np.vectorize(math.erfc)
_TAIL = 2.0**-119
_SELU = (1.67326319217681884765625, 1.05070102214813232421875)

# name: function of float64, parameters a and b, relative error, absolute error
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float, float, float, float]] = {
    "RELU": (lambda x: np.maximum(x, 0), 0, 0, 0, 0),
    "LEAKY_RELU": (lambda x: np.where(x < 0, np.float32(0.01) * x, x), 0.01, 0, 1e-7, SMALLEST),
    "CLIP": (lambda x: np.clip(x, -1.5, 6), -1.5, 6, 0, 0),
    "SIGMOID": (lambda x: 1 / (1 + np.exp(-x)), 0, 0, 1e-6, SMALLEST),
    "TANH": (np.tanh, 0, 0, 1e-6, SMALLEST),
    "EXP": (np.exp, 0, 0, 1e-6, SMALLEST),
    "LOG": (np.log, 0, 0, 2e-7, 0),
    "SQRT": (np.sqrt, 0, 0, 2e-7, 0),
    "ABS": (np.abs, 0, 0, 0, 0),
    "NEG": (np.negative, 0, 0, 0, 0),
    "RECIPROCAL": (lambda x: 1 / x, 0, 0, 2e-7, SMALLEST),
    "ELU": (lambda x: np.where(x > 0, x, 1.25 * _elu(x)), 1.25, 0, 1e-6, SMALLEST),
    "SELU": (lambda x: _SELU[1] * np.where(x > 0, x, _SELU[0] * _elu(x)), *_SELU, 1e-6, SMALLEST),
    "CELU": (lambda x: np.where(x > 0, x, 0.75 * _elu(x / 0.75)), 0.75, 0, 1e-6, SMALLEST),
    "HARD_SIGMOID": (lambda x: np.clip(0.25 * x + 0.5, 0, 1), 0.25, 0.5, 1e-7, 1e-7),
    "HARD_SWISH": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 0, 0, 1e-6, 3e-7),
    "SOFTPLUS": (_softplus, 0, 0, 1e-6, _TAIL),
    "SOFTSIGN": (lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))), 0, 0, 1e-6, SMALLEST),
    "GELU": (lambda x: x * 0.5 * _erfc(-x / math.sqrt(2)), 0, 0, 2e-5, _TAIL),
    "GELU_TANH": (
        lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        *(0, 0, 2e-5, _TAIL),
    ),
    "ERF": (_erf, 0, 0, 1e-6, SMALLEST),
    "SQUARE": (np.square, 0, 0, 1e-7, SMALLEST),
    "SIGN": (np.sign, 0, 0, 0, 0),
    "FLOOR": (np.floor, 0, 0, 0, 0),
    "CEIL": (np.ceil, 0, 0, 0, 0),
    "ROUND": (np.rint, 0, 0, 0, 0),
    "THRESHOLDED_RELU": (lambda x: np.where(x > 0.5, x, 0), 0.5, 0, 0, 0),
    "NOT": (lambda x: 1 - x, 0, 0, 1e-7, 0),
    "IS_NAN": (np.isnan, 0, 0, 0, 0),
    "OR_ZERO": (lambda x: np.where(np.isnan(x), 0, x), 0, 0, 0, 0),
    "IS_INF": (np.isinf, 1, 1, 0, 0),
    "SWISH": (lambda x: x / (1 + np.exp(-1.75 * x)), 1.75, 0, 2e-5, _TAIL),
    "MISH": (lambda x: x * np.tanh(_softplus(x)), 0, 0, 2e-6, _TAIL),
    "SIN": (lambda x: np.sin(np.where(np.abs(x) > 3e6, np.nan, x)), 0, 0, 0, 2e-7),
    "COS": (lambda x: np.cos(np.where(np.abs(x) > 3e6, np.nan, x)), 0, 0, 0, 2e-7),
}


def _near(x: Array) -> Array:
    """Numbers next to x and -x."""
    return np.concatenate([side * x * (1 + 1e-7 * step) for side in (-1, 1) for step in range(-3, 4)])


_POWERS = np.ldexp(np.linspace(1, 2, 12, endpoint=False)[:, None], np.arange(-126, 128))  # every exponent


def all_numbers(seed: int) -> Array:
    """Any bits (but no denormals), every exponent, numbers around the functions' turning points, NaN."""
    rng = np.random.default_rng(seed)
    edges = [0, 0.5, 1, 1.5, 2.5, 4, 9, 0.6, 0.8, 0.35, 2**23 - 0.5, 2**23, 2**24 - 1, 3e38, 2e-38, np.inf]
    parts: list[Array] = [
        np.array(edges, np.float32),
        -np.array(edges, np.float32),
        np.array([np.nan], np.float32),
        rng.integers(0, 2**32, 12_000, dtype=np.uint64).astype(np.uint32).view(np.float32),
        rng.uniform(-110, 110, 8000),
        3 * rng.standard_normal(8000),
        1 + 1e-3 * rng.standard_normal(1000),
        rng.choice([-1, 1], 4000) * 10.0 ** rng.uniform(-8, 0, 4000),
        _POWERS.reshape(-1),
        -_POWERS.reshape(-1),
        math.log(2)
        / 2
        * _near(np.arange(-260, 260)),  # where the power of 2 changes that is taken out of e^x
        _near(np.array([87.336, 88.3, 88.722, 13.2, 15.9163437 / 2, 30, 44.4, 4, 20])),  # ends of ranges
    ]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        x = np.concatenate([part.astype(np.float32) for part in parts])
        x[(np.abs(x) < SMALLEST) & (x != 0)] = 0
    return x


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_all_numbers(toolkit: Toolkit, name: str) -> None:
    function, a, b, relative, lost = FUNCTIONS[name]
    x = all_numbers(UNARY[name])
    with np.errstate(all="ignore"):
        want = np.asarray(function(x.astype(np.float64)), np.float64)
    compare(unary(toolkit, name, x, a, b), want, relative, lost)


@pytest.mark.parametrize("name", UNARY)
def test_functions_in_local_memory_and_in_place(toolkit: Toolkit, name: str) -> None:
    """Between two layers that make their inputs' memory free, against the same in DDR."""
    _, a, b, _, _ = FUNCTIONS[name]
    x = np.random.default_rng(1).standard_normal((3, 70, 21, 37)).astype(np.float32) * 3
    results = []
    for opt in (0, 1):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape)
        graph.add_tpu_layer("TPU_UNARY", ["x"], {"unary_op": UNARY["NEG"]}, ["first"])
        graph.add_tpu_layer("TPU_UNARY", ["first"], {"unary_op": UNARY[name], "a": a, "b": b}, ["made"])
        graph.add_tpu_layer("TPU_UNARY", ["made"], {"unary_op": UNARY["NEG"]}, ["last"])
        lines: list[str] = []
        graph.compile(opt=opt, log=lines.append)
        assert all(("local, group 0" in line) == (opt == 1) for line in lines[:3]), lines
        results.append(graph.run({"x": x})[0])
    assert np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32))


@examples(12)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=8).filter(lambda s: math.prod(s) < 60_000),
    grow=st.sampled_from([1, 70, 1000]),
    name=st.sampled_from(["RELU", "SIGMOID", "LOG"]),
    way=st.sampled_from(WAYS),
)
def test_functions_of_any_shape(toolkit: Toolkit, shape: list[int], grow: int, name: str, way: str) -> None:
    shape[-1] *= grow
    function, a, b, relative, lost = FUNCTIONS[name]
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
    with np.errstate(invalid="ignore"):
        want = function(x.astype(np.float64))
    compare(unary(toolkit, name, x, a, b, way=way), want, relative, lost)


@pytest.mark.parametrize("name", ["TANH", "ERF", "SIGMOID"])
def test_what_tends_to_1_is_1_in_the_end_and_never_more(toolkit: Toolkit, name: str) -> None:
    x = np.concatenate([np.linspace(0, 20, 200_000), [20, 90, 1e30, np.inf]]).astype(np.float32)
    got = unary(toolkit, name, x)
    assert got.max() == 1 and (got[x >= 17.5] == 1).all()
    assert got[0] == (0.5 if name == "SIGMOID" else 0)
    if name != "SIGMOID":
        assert unary(toolkit, name, -x).min() == -1


@pytest.mark.parametrize("name", ["SIGMOID", "EXP", "TANH", "RECIPROCAL"])
def test_small_results_are_as_exact_as_others(toolkit: Toolkit, name: str) -> None:
    """Down to the smallest number, but for what rounding makes a denormal."""
    x = np.concatenate([np.linspace(-87.336, -60, 20_000), 10 ** np.linspace(-37.9, -20, 20_000)])
    x = (1 / x[x > 0] if name == "RECIPROCAL" else x).astype(np.float32)
    function, _, _, relative, _ = FUNCTIONS[name]
    want = function(x.astype(np.float64))
    normal = np.abs(want) > 1.0001 * SMALLEST
    compare(unary(toolkit, name, x)[normal], want[normal], relative, 0)


@pytest.mark.parametrize("name", ["GELU", "GELU_TANH"])
@pytest.mark.parametrize(("least", "relative"), [(1e-6, 2e-6), (1e-30, 2e-5)])
def test_errors_in_negative_tails(toolkit: Toolkit, name: str, least: float, relative: float) -> None:
    x = np.linspace(-13, 3, 50_000).astype(np.float32)
    want = FUNCTIONS[name][0](x.astype(np.float64))
    kept = np.abs(want) > least
    compare(unary(toolkit, name, x)[kept], want[kept], relative, 0)


@pytest.mark.parametrize("name", ["SIN", "COS"])
def test_angles_up_to_the_last(toolkit: Toolkit, name: str) -> None:
    """Many turns, and around all multiples of a quarter of one at which anything changes."""
    rng = np.random.default_rng(5)
    quarters = np.concatenate([np.arange(-9, 10), np.arange(4090, 4100), rng.integers(0, 1_909_000, 3000)])
    parts = [_near(math.pi / 2 * quarters), rng.uniform(-3e6, 3e6, 20_000), rng.uniform(-9000, 9000, 20_000)]
    x = np.concatenate([*parts, [3e6, -3e6]]).astype(np.float32)
    x = x[np.abs(x) <= 3e6]
    compare(unary(toolkit, name, x), FUNCTIONS[name][0](x.astype(np.float64)), 0, 2e-7)
    if name == "SIN":
        small = x[np.abs(x) < 1.57]
        compare(unary(toolkit, name, small), np.sin(small.astype(np.float64)), 2e-7, SMALLEST)
    assert np.abs(unary(toolkit, name, x)).max() <= 1


def test_swish_with_a_of_1_is_exact_in_its_tail(toolkit: Toolkit) -> None:
    x = np.linspace(-80, 20, 50_000).astype(np.float32)
    want = x / (1 + np.exp(-x.astype(np.float64)))
    compare(unary(toolkit, "SWISH", x, 1.0), want, 1e-6, 0)


def test_clip_between_infinities_and_crossed_limits(toolkit: Toolkit) -> None:
    x = np.array([-3e38, -1, 0, 2, 3e38, np.nan, np.inf], np.float32)
    assert np.array_equal(unary(toolkit, "CLIP", x, -math.inf, math.inf), x, equal_nan=True)
    want = np.where(np.isnan(x), x, np.float32(-1))
    assert np.array_equal(unary(toolkit, "CLIP", x, 1.0, -1.0), want, equal_nan=True)


@pytest.mark.parametrize(("negative", "positive"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_which_infinities_count(toolkit: Toolkit, negative: int, positive: int) -> None:
    x = np.array([-np.inf, np.inf, np.nan, 3e38, 0], np.float32)
    assert unary(toolkit, "IS_INF", x, negative, positive).tolist() == [negative, positive, 0, 0, 0]


def test_the_roots_of_squares_and_the_quotients_of_integers_are_exact(toolkit: Toolkit) -> None:
    whole = np.arange(1, 4096, dtype=np.float32)
    assert np.array_equal(unary(toolkit, "SQRT", whole * whole), whole)
    a = np.random.default_rng(0).integers(1, 4097, whole.size).astype(np.float32)
    assert np.array_equal(binary(toolkit, "DIV", whole * a, a), whole)
    assert np.array_equal(binary(toolkit, "DIV", whole * 3779, np.array([3779], np.float32)), whole)
    assert np.array_equal(binary(toolkit, "DIV", whole / 4, -whole), np.full_like(whole, -0.25))


# ---- two inputs ----

PAIRS: dict[str, tuple[Callable[[Array, Array], Array], float]] = {
    "ADD": (np.add, 1e-7),
    "SUB": (np.subtract, 1e-7),
    "MUL": (np.multiply, 1e-7),
    "DIV": (np.divide, 6.1e-8),
    "MAX": (np.maximum, 0),
    "MIN": (np.minimum, 0),
    "PRELU": (lambda a, b: np.where(a < 0, a * b, a), 1e-7),
    "EQUAL": (np.equal, 0),
    "GREATER": (np.greater, 0),
    "GREATER_OR_EQUAL": (np.greater_equal, 0),
    "LESS": (np.less, 0),
    "LESS_OR_EQUAL": (np.less_equal, 0),
    "POW": (np.power, 6e-5),
    "FMOD": (np.fmod, 2e-7),
    "MOD": (np.mod, 2e-7),
}
LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
}


def test_every_operation_of_the_headers_is_tested_and_known_to_the_importer() -> None:
    assert UNARY == functions.UNARY and BINARY == functions.BINARY
    assert FUNCTIONS.keys() == UNARY.keys()
    assert PAIRS.keys() | LOGIC.keys() == BINARY.keys()


@pytest.mark.parametrize("way", ["global", "local"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_special_numbers(toolkit: Toolkit, name: str, way: str) -> None:
    numbers = [0, 1, 2, 3, 7, 0.5, 1.2e-38, 2.4e-38, 1e-20, 1e20, 3e38, 16777215, np.inf]
    values = np.array([np.nan, *numbers, *(-v for v in numbers)], np.float32)
    a, b = (np.ascontiguousarray(v) for v in np.broadcast_arrays(values[:, None], values))
    function, relative = PAIRS[name]
    with np.errstate(all="ignore"):
        want = np.asarray(function(a.astype(np.float64), b.astype(np.float64)), np.float64)
    got = binary(toolkit, name, a, b, way=way)
    if name == "POW":  # as documented
        nan = (np.isinf(a) & (a < 0) & (np.rint(b) != b)) | ((a == -1) & np.isinf(b))
        assert np.isnan(got[nan]).all()
        got, want = got[~nan], want[~nan]
    if name in ("MOD", "FMOD"):
        fits = (np.abs(a) < 2**24) & (np.abs(b) < 2**24) & (a == np.rint(a)) & (b == np.rint(b))
        assert np.isnan(got[np.isnan(a) | np.isnan(b) | np.isinf(a) | (b == 0)]).all()
        got, want = got[fits], want[fits]
    compare(got, want, relative)


def broadcastable(draw: Any, count: int) -> list[tuple[int, ...]]:
    """Shapes that numpy broadcasts with one another."""
    dims = draw(st.integers(1, 8))
    extents = [draw(st.sampled_from([1, 2, 3, 5, 70])) for _ in range(dims)]
    while math.prod(extents) > 50_000:
        extents[extents.index(max(extents))] = 2
    shapes = []
    for _ in range(count):
        rank = draw(st.integers(1, dims))
        keep = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
        shapes.append(tuple(e if k else 1 for e, k in zip(extents[dims - rank :], keep, strict=True)))
    return shapes


@st.composite
def two_shapes(draw: Any) -> list[tuple[int, ...]]:
    return broadcastable(draw, 2)


@st.composite
def three_shapes(draw: Any) -> list[tuple[int, ...]]:
    return broadcastable(draw, 3)


def sample(shape: Sequence[int], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(np.float32)


@examples(40)
@given(
    shapes=two_shapes(),
    name=st.sampled_from(["SUB", "DIV", "PRELU", "LESS_OR_EQUAL"]),
    way=st.sampled_from(WAYS),
)
def test_broadcasting_of_two(toolkit: Toolkit, shapes: list[tuple[int, ...]], name: str, way: str) -> None:
    a, b = (sample(shape, i) for i, shape in enumerate(shapes))
    function, relative = PAIRS[name]
    want = np.asarray(function(a.astype(np.float64), b.astype(np.float64)), np.float64)
    got = binary(toolkit, name, a, b, way=way)
    compare(got, want, relative) if name != "SUB" else np.testing.assert_array_equal(got, a - b)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((2, 300_000), (2, 1)),
        ((70_000, 3), (3,)),
        ((70_000, 1), (1, 3)),
        ((1_500_001,), (1,)),
        ((2, 70, 130, 130), (1, 70, 1, 1)),
        ((2, 70, 130, 130), (2, 70, 1, 130)),
        ((3, 130, 61, 67), (3, 130, 61, 1)),
        ((2, 4100, 3, 5), (1, 4100, 1, 1)),
        ((4, 12, 65, 65), (4, 1, 1, 65)),
        ((9000, 65), (65,)),
    ],
)
def test_broadcasting_of_large_tensors(
    toolkit: Toolkit, a_shape: tuple[int, ...], b_shape: tuple[int, ...], way: str
) -> None:
    a, b = sample(a_shape, 0), sample(b_shape, 1)
    np.testing.assert_array_equal(binary(toolkit, "ADD", a, b, way=way), a + b)
    np.testing.assert_array_equal(binary(toolkit, "MAX", b, a, way=way), np.maximum(a, b))


@pytest.mark.parametrize(("channels", "height"), [(130, 300), (3, 999)])
def test_a_group_of_layers_that_share_and_overwrite_tiles(
    toolkit: Toolkit, channels: int, height: int
) -> None:
    x, bias = sample((2, channels, height, 41), 0), sample((1, channels, 1, 1), 1)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_const("bias", bias)
    graph.add_tpu_layer("TPU_BINARY", ["x", "bias"], {"binary_op": BINARY["ADD"]}, ["biased"])
    graph.add_tpu_layer("TPU_UNARY", ["biased"], {"unary_op": UNARY["RELU"]}, ["cut"])
    graph.add_tpu_layer("TPU_BINARY", ["cut", "x"], {"binary_op": BINARY["MUL"]}, ["made"])
    graph.add_tpu_layer("TPU_BINARY", ["made", "made"], {"binary_op": BINARY["MAX"]}, ["same"])
    lines: list[str] = []
    graph.compile(opt=1, log=lines.append)
    assert sum("local, group 0" in line for line in lines) == 4 and "overlapped" in "\n".join(lines), lines
    (y,) = graph.run({"x": x})
    np.testing.assert_array_equal(y, np.maximum(x + bias, 0) * x)


@pytest.mark.parametrize("name", LOGIC)
@pytest.mark.parametrize("way", WAYS)
def test_logic_of_zeros_and_ones(toolkit: Toolkit, name: str, way: str) -> None:
    a, b = (np.array(v, np.float32) for v in ([[0, 0, 1, 1]], [[0, 1, 0, 1]]))
    assert np.array_equal(binary(toolkit, name, a, b, way=way), LOGIC[name](a, b).astype(np.float32))


@pytest.mark.parametrize("way", ["global", "local"])
def test_powers(toolkit: Toolkit, way: str) -> None:
    """The relative error grows with the exponent of the result."""
    a, b = np.abs(sample((2, 70, 20, 30), 0)) * 5, sample((2, 70, 1, 30), 1) * 5
    want = np.power(a.astype(np.float64), b)
    fits = (want > 1e-37) & (want < 1e38)
    got = binary(toolkit, "POW", a, b, way=way)
    error = np.abs(got - want)[fits] / want[fits]
    assert (error <= 6e-7 * (1 + np.abs(b * np.log(a.astype(np.float64)))[fits])).all()


@pytest.mark.parametrize("name", ["MOD", "FMOD"])
def test_remainders(toolkit: Toolkit, name: str) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(1 - 2**24, 2**24, (2, 70, 20, 30)).astype(np.float32)
    b = (rng.choice([-1, 1], (1, 70, 1, 30)) * np.floor(2 ** rng.uniform(0, 24, (1, 70, 1, 30)))).astype(
        np.float32
    )
    function = PAIRS[name][0]
    np.testing.assert_array_equal(binary(toolkit, name, a, b, way="local"), function(a, b))
    a, b = sample((5, 1000), 0) * 9, sample((5, 1000), 1)
    error = np.abs(binary(toolkit, name, a, b) - function(a.astype(np.float64), b))
    error = np.minimum(error, np.abs(np.abs(b) - error))  # a rest may come out as 0 or as b
    assert (error <= 2e-7 * (np.abs(a) + np.abs(b))).all()


def test_a_dynamic_net_with_smaller_shapes(toolkit: Toolkit) -> None:
    for a_shape, b_shape in (
        ((2, 5, 30, 7), (1, 5, 1, 1)),
        ((1, 70, 3, 50), (1, 70, 3, 1)),
        ((1, 1, 1, 1),) * 2,
    ):
        a, b = sample(a_shape, 0), sample(b_shape, 1)
        maxima = [(3, 80, 64, 64), (3, 80, 64, 64)]
        got = run(toolkit, "TPU_BINARY", [a, b], {"binary_op": BINARY["SUB"]}, way="dynamic", maxima=maxima)
        np.testing.assert_array_equal(got, a - b)
        param = {"unary_op": UNARY["ABS"]}
        got = run(toolkit, "TPU_UNARY", [a], param, way="dynamic", maxima=maxima[:1])
        np.testing.assert_array_equal(got, np.abs(a))


@pytest.mark.parametrize("way", WAYS)
def test_constants_as_either_input(toolkit: Toolkit, way: str) -> None:
    x, c = sample((2, 70, 5, 9), 0), sample((1, 70, 1, 9), 1)
    param = {"binary_op": BINARY["SUB"]}
    for const in (c, c[:1, :1, :1, :1].reshape(1)):
        got = run(toolkit, "TPU_BINARY", [x], param, consts=[const], way=way)
        np.testing.assert_array_equal(got, x - const)


@pytest.mark.parametrize("name", ["ADD", "DIV", "MAX", "POW"])
@pytest.mark.parametrize(
    "b_shape", [(1,), (1, 1, 1, 1), (2, 1, 26, 61), (1, 1, 26, 1), (2, 1, 1, 61), (2, 1, 1, 1)]
)
def test_one_channel_for_all_in_local_memory(toolkit: Toolkit, b_shape: tuple[int, ...], name: str) -> None:
    a, b = np.abs(sample((2, 130, 26, 61), 0)), sample(b_shape, 1)
    for left, right in ((a, b), (np.abs(b), a)):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("left", left.shape)
        graph.add_input("right", right.shape)
        graph.add_tpu_layer("TPU_BINARY", ["left", "right"], {"binary_op": BINARY[name]}, ["out"])
        lines: list[str] = []
        graph.compile(opt=1, log=lines.append)
        assert "local, group 0" in lines[0], lines
        (got,) = graph.run({"left": left, "right": right})
        function, relative = PAIRS[name]
        compare(got, np.asarray(function(left.astype(np.float64), right), np.float64), relative)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0, 1e-30, 3e38])
def test_special_numbers_for_all_channels(toolkit: Toolkit, value: float) -> None:
    x = np.array([1, -2, 0, np.nan, np.inf, -np.inf], np.float32).reshape(1, 6, 1, 1)
    number = np.array([value], np.float32)
    for name in ("MUL", "GREATER"):
        function, relative = PAIRS[name]
        with np.errstate(invalid="ignore"):
            want = np.asarray(function(x.astype(np.float64), number), np.float64)
        compare(binary(toolkit, name, x, number, way="local"), want, relative)


# ---- three inputs ----


@examples(25)
@given(
    shapes=three_shapes(),
    dtype=st.sampled_from([np.float32, np.int32, np.uint32]),
    way=st.sampled_from(WAYS),
)
def test_choosing_between_words(
    toolkit: Toolkit, shapes: list[tuple[int, ...]], dtype: type[np.generic], way: str
) -> None:
    rng = np.random.default_rng(0)
    condition = rng.choice(np.array([0, -0.0, 1, 0.25, -1, np.nan], np.float32), shapes[0])
    a, b = (
        rng.integers(0, 2**32, shape, dtype=np.uint64).astype(np.uint32).view(dtype) for shape in shapes[1:]
    )
    got = run(toolkit, "TPU_WHERE", [condition, a, b], {}, way=way)
    want = np.where(condition != 0, a.view(np.uint32), b.view(np.uint32))
    assert got.dtype == dtype
    assert np.array_equal(got.view(np.uint32), want)


def test_choosing_in_tiles(toolkit: Toolkit) -> None:
    condition = (sample((2, 130, 120, 120), 0) > 0).astype(np.float32)
    a, b = sample(condition.shape, 1), sample((1, 130, 1, 1), 2)
    got = run(toolkit, "TPU_WHERE", [condition, a, b], {}, way="local")
    np.testing.assert_array_equal(got, np.where(condition != 0, a, b))


# ---- mistakes ----


@pytest.mark.parametrize(
    ("op", "param", "shapes", "dtype"),
    [
        ("TPU_UNARY", {"unary_op": len(UNARY)}, [(3,)], np.float32),
        ("TPU_UNARY", {"unary_op": -1}, [(3,)], np.float32),
        ("TPU_UNARY", {"unary_op": UNARY["CELU"], "a": 0.0}, [(3,)], np.float32),
        ("TPU_UNARY", {"unary_op": UNARY["RELU"]}, [(3,)], np.int32),
        ("TPU_UNARY", {"unary_op": UNARY["RELU"]}, [(3,), (3,)], np.float32),
        ("TPU_BINARY", {"binary_op": 5}, [(3,), (3,)], np.float32),
        ("TPU_BINARY", {"binary_op": 0}, [(3,), (4,)], np.float32),
        ("TPU_BINARY", {"binary_op": 0}, [(3,)], np.float32),
        ("TPU_BINARY", {"binary_op": 0}, [(3,), (3,)], np.int32),
        ("TPU_WHERE", {}, [(3,), (3,)], np.float32),
        ("TPU_WHERE", {}, [(3,), (3,), (2,)], np.float32),
        ("TPU_WHERE", {}, [(3,), (3,), (3,)], np.int32),
    ],
)
def test_wrong_parameters_and_inputs_are_refused(
    toolkit: Toolkit, op: str, param: dict[str, Any], shapes: list[tuple[int, ...]], dtype: type[np.generic]
) -> None:
    with pytest.raises(TpulayerError, match=op.removeprefix("TPU_").lower()):
        run(toolkit, op, [np.zeros(shape, dtype) for shape in shapes], param)
