"""What each descriptor method changes, on the emulator: real descriptors, kernels, numpy beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError, UsageError
from firmware_sim.wire import TType
from tests.paths import SOURCES
from tests.support.examples import examples
from tests.support.workspaces import layers_toolkit
from tpulayer import Graph
from user_layers.graph import BINARY_MUL
from user_layers.toolkit import Toolkit

Array = NDArray[np.float32]
LAYERS = SOURCES / "method_layers"


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """A built workspace with the demo layers and those of method_layers/."""
    with layers_toolkit(tmp_path_factory, "method_layers") as toolkit:
        yield toolkit


def sample(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compiled(
    toolkit: Toolkit,
    x: Array,
    op: str,
    param: Mapping[str, Any] | None,
    *,
    consts: Sequence[NDArray[Any]] = (),
    around: bool = False,
    opt: int = 1,
    dynamic: bool = False,
    run: Array | None = None,
) -> tuple[Array, str]:
    """Compile and run one layer (around: between two built-in ones that multiply by 2 and by 0.5).

    Returns the output and the compile log. run: another input than the one compiled for.
    """
    graph = Graph(name="net", toolkit=toolkit)
    first = graph.add_input("x", x.shape)
    if around:
        first = graph.add_const_binary_layer(first, 2.0, "first", BINARY_MUL)
    names = [graph.add_const(f"const{i}", c) for i, c in enumerate(consts)]
    graph.add_tpu_layer(op, [first, *names], param, ["made"])
    if around:
        graph.add_const_binary_layer("made", 0.5, "last", BINARY_MUL)
    lines: list[str] = []
    graph.compile(dynamic=dynamic, opt=opt, log=lines.append)
    (y,) = graph.run({"x": x if run is None else run})
    return y.astype(np.float32, copy=False), "\n".join(lines)


def same(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def diagonal(x: Array, stride: int) -> Array:
    y: Array = x.copy()
    y[:, :, 1:, 1:] += x[:, :, :-1, :-1]
    return np.ascontiguousarray(y[:, :, ::stride, ::stride])


# ---- input_type, should_input_on_l2mem, buffers ----


@pytest.mark.parametrize("ttype", [TType.COEFF, TType.COEFF_NEURON])
@pytest.mark.parametrize("channels", [3, 64, 130])
def test_a_table_in_the_compact_layout(toolkit: Toolkit, ttype: TType, channels: int) -> None:
    x, table = sample((2, channels, 5, 7)), sample((1, channels, 1, 1), 1)
    param = {"ttype": int(ttype), "on_l2": 0}
    for opt, dynamic, where in ((1, False, "local"), (0, False, "global"), (0, True, "dynamic")):
        y, log = compiled(toolkit, x, "TPU_TABLE", param, consts=[table], opt=opt, dynamic=dynamic)
        assert where in log
        same(y, x + table)


def test_a_table_on_l2_with_local_scratch_is_not_overlapped(toolkit: Toolkit) -> None:
    x, table = sample((4, 70, 120, 120)), sample((1, 70, 1, 1), 1)
    plain, log = compiled(toolkit, x, "TPU_TABLE", {"ttype": int(TType.COEFF), "on_l2": 0}, consts=[table])
    assert "overlapped" in log
    on_l2, log = compiled(toolkit, x, "TPU_TABLE", {"ttype": int(TType.COEFF), "on_l2": 1}, consts=[table])
    assert "local" in log and "overlapped" not in log
    same(plain, x + table)
    same(on_l2, x + table)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("opt", [0, 1])
def test_values_that_the_kernel_reads(toolkit: Toolkit, dynamic: bool, opt: int) -> None:
    x, values = sample((1, 3, 4, 5)), np.array([-7, 2], np.int32)
    param = {"ttype": int(TType.NEURON_SHAPE), "on_l2": 0}
    y, _ = compiled(toolkit, x, "TPU_TABLE", param, consts=[values], opt=opt, dynamic=dynamic)
    same(y, x + np.float32(-7))


# ---- windows: backward_*, can_split_local_h_w, force_use_global_layer ----


@examples(30)
@given(
    n=st.integers(1, 3),
    c=st.sampled_from([1, 65, 200]),
    h=st.integers(3, 130),
    w=st.integers(3, 130),
    stride=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_windows_over_both_axes(
    toolkit: Toolkit, n: int, c: int, h: int, w: int, stride: int, seed: int
) -> None:
    x = sample((n, c, h, w), seed)
    y, _ = compiled(toolkit, x, "TPU_DIAGONAL", {"stride": stride}, around=True)
    same(y, diagonal(x, stride))


@pytest.mark.parametrize("how", ["slides", "both"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows_told_by_kernel_stride_and_pads(toolkit: Toolkit, how: str, stride: int) -> None:
    x = sample((1, 130, 190, 190), stride)
    y, log = compiled(toolkit, x, "TPU_DIAGONAL", {"stride": stride, how: 1}, around=True)
    assert ("over h" if stride < 3 else "whole") in log
    same(y, diagonal(x, stride))


@pytest.mark.parametrize("opt", [1, 2])
def test_layers_that_share_a_larger_tile(toolkit: Toolkit, opt: int) -> None:
    """One reads a row more than the other; both shape functions say what their whole input tile gives."""
    x = sample((1, 64, 361, 200))
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_const_binary_layer("x", 2.0, "twice", BINARY_MUL)
    graph.add_tpu_layer("TPU_DIAGONAL", ["twice"], {"stride": 1, "both": 1}, ["diagonal"])
    graph.add_tpu_layer("TPU_SAME", ["twice"], None, ["same"])
    log: list[str] = []
    graph.compile(opt=opt, log=log.append)
    if opt == 1:
        assert all("local, group 0, slices" in line for line in log)
    for name, y in zip(graph.outputs, graph.run({"x": x}), strict=True):
        same(y.astype(np.float32), diagonal(2 * x, 1) if name == "diagonal" else 2 * x)


def test_a_descriptor_that_contradicts_itself(toolkit: Toolkit) -> None:
    message = (
        r"diagonal_0 \(TPU_DIAGONAL, .*\): its descriptor contradicts itself: for output rows 0 to 0 "
        r"backward_hidx and backward_hslice ask for input rows -1 to 1, backward_kh, backward_stride_h and "
        r"backward_up_pad_h for rows -1 to 0"
    )
    with pytest.raises(TpulayerError, match=message):
        compiled(toolkit, sample((1, 2, 190, 190)), "TPU_DIAGONAL", {"stride": 1, "both": 1, "lies": 1})


def test_a_row_wider_than_local_memory_is_cut_over_w(toolkit: Toolkit) -> None:
    x = sample((1, 2, 3, 60_000))
    for stride in (1, 2):
        y, log = compiled(toolkit, x, "TPU_DIAGONAL", {"stride": stride})
        assert "over w" in log
        same(y, diagonal(x, stride))


def test_a_layer_that_cannot_be_split_is_cut_over_n_only(toolkit: Toolkit) -> None:
    x = sample((6, 64, 120, 120))
    y, log = compiled(toolkit, x, "TPU_DIAGONAL", {"stride": 1, "whole": 1})
    assert "local" in log and "over n" in log and "over h" not in log
    same(y, diagonal(x, 1))
    y, log = compiled(toolkit, sample((1, 130, 190, 190)), "TPU_DIAGONAL", {"stride": 1})
    assert "over h" in log


def test_a_layer_forced_to_be_global(toolkit: Toolkit) -> None:
    x = sample((2, 9, 20, 20))
    y, log = compiled(toolkit, x, "TPU_DIAGONAL", {"stride": 2, "global": 1})
    assert "global (force_use_global_layer)" in log
    same(y, diagonal(x, 2))


def test_a_descriptor_that_does_not_fit_its_shape_function_is_caught(toolkit: Toolkit) -> None:
    with pytest.raises(TpulayerError, match="diagonal_0") as caught:
        compiled(toolkit, sample((1, 64, 300, 300)), "TPU_DIAGONAL", {"stride": 1, "lies": 1})
    assert "backward_" in str(caught.value)


# ---- modes ----


def test_a_kernel_that_reads_memory_cannot_be_recorded(toolkit: Toolkit) -> None:
    with pytest.raises(TpulayerError, match="must_dynamic_run"):
        compiled(toolkit, sample((1, 2, 3, 4)), "TPU_READER", {})


@pytest.mark.parametrize("field", ["says_so", "depends"])
def test_what_makes_a_net_dynamic(toolkit: Toolkit, field: str) -> None:
    x = sample((1, 2, 3, 4))
    y, log = compiled(toolkit, x, "TPU_READER", {field: 1}, around=True)
    assert ("must_dynamic_run" if field == "says_so" else "output_shape_is_dynamic") in log
    same(y, (2 * x + 2 * x[0, 0, 0, 0]) * np.float32(0.5))


def test_height_and_width_that_must_stay(toolkit: Toolkit) -> None:
    x = sample((4, 8, 6, 5))
    fewer, lower = np.ascontiguousarray(x[:2]), np.ascontiguousarray(x[:, :, :4])
    for fixed in (0, 1):
        param = {"says_so": 1, "fixed": fixed}
        y, _ = compiled(toolkit, x, "TPU_READER", param, run=fewer)
        same(y, fewer + fewer[0, 0, 0, 0])
        if fixed:
            with pytest.raises(UsageError, match="x"):
                compiled(toolkit, x, "TPU_READER", param, run=lower)
        else:
            y, _ = compiled(toolkit, x, "TPU_READER", param, run=lower)
            same(y, lower + lower[0, 0, 0, 0])


# ---- memory that is shared ----


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shares", [0, 1])
def test_a_layer_in_the_memory_of_its_input(toolkit: Toolkit, shares: int, dynamic: bool) -> None:
    x = sample((4, 3, 5, 6))
    y, _ = compiled(toolkit, x, "TPU_RAISE", {"shares": shares}, around=True, dynamic=dynamic)
    want = 2 * x
    want[:2] += np.float32(1)
    same(y, want * np.float32(0.5))


def test_shared_memory_is_not_allocated_twice(toolkit: Toolkit) -> None:
    sizes = []
    for shares in (0, 1):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", (4, 64, 50, 50))
        graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
        graph.add_tpu_layer("TPU_RAISE", ["a"], {"shares": shares}, ["b"])
        graph.add_const_binary_layer("b", 0.5, "y", BINARY_MUL)
        sizes.append(graph.compile().stages[0].ctx_bytes)
    assert sizes[0] - sizes[1] == 4 * 4 * 64 * 50 * 50


def test_a_layer_that_only_reshapes_runs_no_code(toolkit: Toolkit) -> None:
    x = sample((4, 3, 5, 6))
    y, _ = compiled(toolkit, x, "TPU_RAISE", {"reshape": 1}, around=True)
    same(y, x)  # its kernel would have added 1
