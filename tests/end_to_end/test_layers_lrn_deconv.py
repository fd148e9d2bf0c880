"""Built-in layers: transposed convolutions and sums over channels (LRN), against numpy in float64."""

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
from tests.support.window_layers import (
    MODES,
    Array,
    Double,
    Pads,
    close,
    convolution,
    pool,
    run,
    sample,
    window_param,
)
from tpulayer import Graph
from user_layers.toolkit import Toolkit

# ---- transposed convolution ----


def transposed(
    x: NDArray[Any],
    w: Array,
    b: Array | None,
    groups: int,
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Pads,
    more: Sequence[int],
) -> Double:
    """Every input element adds its multiple of the kernel to the result."""
    n, _, height, width = x.shape
    apart = x.astype(np.float64).reshape(n, groups, -1, height, width)
    weights = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    rows = (height - 1) * stride[0] + (w.shape[2] - 1) * dilation[0] + 1 + more[0]
    columns = (width - 1) * stride[1] + (w.shape[3] - 1) * dilation[1] + 1 + more[1]
    y = np.zeros((n, groups, w.shape[1], rows, columns))
    for i in range(w.shape[2]):
        for k in range(w.shape[3]):
            part = np.einsum("ngcyx,gco->ngoyx", apart, weights[..., i, k])
            top, left = i * dilation[0], k * dilation[1]
            y[
                ...,
                top : top + (height - 1) * stride[0] + 1 : stride[0],
                left : left + (width - 1) * stride[1] + 1 : stride[1],
            ] += part
    y = y.reshape(n, -1, rows, columns)
    if b is not None:
        y += b.reshape(1, -1, 1, 1)
    return y[:, :, pads[0] : rows - pads[2], pads[1] : columns - pads[3]]


def check_transposed(
    toolkit: Toolkit,
    x: Array,
    w: Array,
    bias: bool = True,
    *,
    groups: int = 1,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
    more: Sequence[int] = (0, 0),
) -> list[str]:
    """The logs of all modes. Dynamic nets are compiled for a larger input."""
    b = sample(w.shape[1] * groups, seed=7) if bias else None
    want = transposed(x, w, b, groups, stride, dilation, pads, more)
    consts = [w, *([] if b is None else [b])]
    param = {"groups": groups, **window_param(w.shape[2:], stride, pads, dilation)}
    param |= {"output_pad_h": more[0], "output_pad_w": more[1]}
    logs = []
    for opt, dynamic in MODES:
        shape = tuple(e + dynamic * (i != 1) for i, e in enumerate(x.shape))
        y, log = run(toolkit, "TPU_DECONV", x, param, consts, opt=opt, dynamic=dynamic, compiled=shape)
        close(y, want)
        logs.append(log)
    return logs


DECONVOLUTIONS: dict[str, dict[str, Any]] = {
    "twice as large": {"x": (1, 6, 9, 11), "w": (6, 70, 4, 4), "stride": (2, 2), "pads": (1, 1, 1, 1)},
    "uneven": {"x": (2, 5, 7, 6), "w": (5, 3, 3, 5), "stride": (3, 2), "pads": (0, 2, 1, 1), "more": (1, 1)},
    "groups": {"x": (2, 6, 5, 6), "w": (6, 35, 2, 3), "groups": 3, "stride": (2, 3), "bias": False},
    "stride 1": {"x": (1, 3, 5, 6), "w": (3, 4, 3, 3), "dilation": (2, 3), "pads": (1, 3, 2, 0)},
    "pads beyond the kernel": {"x": (1, 3, 9, 8), "w": (3, 4, 3, 3), "stride": (2, 2), "pads": (4, 3, 3, 5)},
    "columns left out before": {"x": (1, 3, 5, 8), "w": (3, 4, 2, 2), "stride": (2, 1), "pads": (0, 3, 0, 0)},
    "columns left out behind": {"x": (1, 3, 5, 8), "w": (3, 4, 2, 1), "stride": (2, 1), "pads": (0, 0, 0, 2)},
    "much larger": {"x": (1, 3, 5, 6), "w": (3, 4, 32, 24), "stride": (16, 12), "pads": (8, 6, 8, 6)},
    "a long line": {"x": (1, 13, 1, 2000), "w": (13, 4, 1, 16), "stride": (1, 8), "pads": (0, 4, 0, 4)},
}
LARGE_DECONVOLUTIONS: dict[str, dict[str, Any]] = {
    "windows of nothing but pads": {"x": (2, 5, 7, 6), "w": (5, 3, 3, 5), "stride": (3, 2), "more": (2, 1)},
    "gaps between the kernels": {"x": (1, 3, 5, 4), "w": (3, 4, 1, 2), "stride": (2, 5), "more": (1, 3)},
    "wide": {"x": (1, 3, 1, 2000), "w": (3, 4, 1, 4), "stride": (1, 3)},
    "more taps than pads": {"x": (1, 3, 5, 6), "w": (3, 4, 36, 2), "stride": (2, 2)},
}


@pytest.mark.parametrize("case", [*DECONVOLUTIONS, *LARGE_DECONVOLUTIONS])
def test_transposed_convolutions(toolkit: Toolkit, case: str) -> None:
    given = dict({**DECONVOLUTIONS, **LARGE_DECONVOLUTIONS}[case])
    local, *_ = check_transposed(toolkit, sample(*given.pop("x")), sample(*given.pop("w"), seed=1), **given)
    assert ("local" if case in DECONVOLUTIONS else "force_use_global_layer") in local


@examples(25)
@given(
    n=st.integers(1, 2),
    groups=st.sampled_from([1, 1, 2, 5]),
    channels=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    dilation=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    more=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_any_transposed_convolution(
    toolkit: Toolkit,
    n: int,
    groups: int,
    channels: tuple[int, int],
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: Pads,
    more: tuple[int, int],
) -> None:
    for i in (0, 1):
        rows = (size[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 + more[i]
        if pads[i] + pads[i + 2] >= rows:
            pads = (0, 0, 0, 0)
    check_transposed(
        toolkit,
        sample(n, channels[0] * groups, *size),
        sample(channels[0] * groups, channels[1], *kernel, seed=1),
        groups=groups,
        stride=stride,
        dilation=dilation,
        pads=pads,
        more=more,
    )


@pytest.mark.parametrize("stride", [(2, 2), (3, 1)])
def test_transposed_convolutions_in_groups_that_are_cut(toolkit: Toolkit, stride: tuple[int, int]) -> None:
    x, w, b = sample(1, 64, 300, 160), sample(64, 6, 4, 3, seed=1), sample(6, seed=2)
    param = {"groups": 1, **window_param((4, 3), stride, (1, 1, 2, 1), (1, 1))}
    y, log = run(toolkit, "TPU_DECONV", x, param, [w, b], opt=1, around=True)
    assert "over h" in log
    close(y, transposed(2 * x, w, b, 1, stride, (1, 1), (1, 1, 2, 1), (0, 0)) + 1)


@examples(10)
@given(
    kernel=st.tuples(st.integers(1, 6), st.integers(4, 6)),
    stride=st.tuples(st.integers(1, 3), st.integers(2, 4)),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    more=st.integers(0, 1),
)
def test_phases_of_tiles(
    toolkit: Toolkit, kernel: tuple[int, int], stride: tuple[int, int], pads: Pads, more: int
) -> None:
    """Tiles begin and end at any phase."""
    x, w, b = sample(3, 70, 20, 700), sample(70, 66, *kernel, seed=1), sample(66, seed=2)
    param = {"groups": 1, **window_param(kernel, stride, pads, (1, 1)), "output_pad_w": more}
    if (19 * stride[0] + kernel[0]) <= pads[0] + pads[2]:
        param |= {"pad_top": 0, "pad_bottom": 0}
        pads = (0, pads[1], 0, pads[3])
    y, log = run(toolkit, "TPU_DECONV", x, param, [w, b], opt=1, around=True)
    assert "slices" in log or "over" in log
    close(y, transposed(2 * x, w, b, 1, stride, (1, 1), pads, (0, more)) + 1)


def test_a_transposed_convolution_that_is_cut_over_input_channels(toolkit: Toolkit) -> None:
    x, w = sample(1, 600, 4, 5), sample(600, 3, 16, 16, seed=1)
    check_transposed(toolkit, x, w, stride=(8, 8), pads=(4, 4, 4, 4))


@pytest.mark.parametrize("layer", ["TPU_CONV", "TPU_DECONV"])
def test_the_bits_do_not_depend_on_the_tiles(toolkit: Toolkit, layer: str) -> None:
    """Weights that could be loaded in parts, of some input channels each, whose sums have another order."""
    param = {"groups": 1, **window_param((9, 9), (1, 1), (4, 4, 4, 4), (1, 1))}
    results = [
        run(toolkit, layer, sample(1, 64, 9, 9), param, [sample(64, 64, 9, 9, seed=1)], opt=opt)[0]
        for opt in (0, 1)
    ]
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("opt", [1, 0])
def test_several_windows_one_after_the_other(toolkit: Toolkit, opt: int) -> None:
    """Convolution, maximum, grouped and transposed convolution, average: halos through all of them."""
    x, w, v = sample(1, 16, 260, 250), sample(64, 16, 3, 3, seed=1), sample(64, 32, 3, 5, seed=2)
    t, b = sample(64, 3, 4, 4, seed=3), sample(64, seed=4)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    constants = {"w": w, "b": b, "v": v, "t": t}
    for name, values in constants.items():
        graph.add_const(name, values)
    one, two, ones = (1, 1), (2, 2), (1, 1, 1, 1)
    graph.add_tpu_layer(
        "TPU_CONV", ["x", "w", "b"], {"groups": 1, **window_param((3, 3), one, ones, one)}, ["p"]
    )
    graph.add_tpu_layer("TPU_POOL", ["p"], {"mode": 0, **window_param((3, 3), two, ones, one)}, ["q"])
    graph.add_tpu_layer(
        "TPU_CONV", ["q", "v"], {"groups": 2, **window_param((3, 5), one, (1, 2, 1, 2), one)}, ["r"]
    )
    graph.add_tpu_layer(
        "TPU_DECONV", ["r", "t"], {"groups": 1, **window_param((4, 4), two, ones, one)}, ["s"]
    )
    graph.add_tpu_layer("TPU_POOL", ["s"], {"mode": 1, **window_param((5, 5), one, (2,) * 4, one)}, ["y"])
    lines: list[str] = []
    graph.compile(opt=opt, log=lines.append)
    (y,) = graph.run({"x": x})
    assert all("group 0" in line and "over h" in line for line in lines) or opt == 0
    p = convolution(x, w, b, 1, one, one, ones)
    r = convolution(pool(p, 0, (3, 3), two, one, ones, (0, 0), 0), v, None, 2, one, one, (1, 2, 1, 2))
    want = pool(transposed(r, t, None, 1, two, one, ones, (0, 0)), 1, (5, 5), one, one, (2,) * 4, (0, 0), 0)
    close(y.astype(np.float32), want)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"groups": 4}, "weights [6, 8, 3, 3] does not divide into 4 groups"),
        ({"stride_h": 0}, "returned -2 (BM_LAYER_PARAM_INVALID)"),
        ({"pad_left": 20}, "returned -2 (BM_LAYER_PARAM_INVALID)"),
        ({"output_pad_w": -1}, "returned -2 (BM_LAYER_PARAM_INVALID)"),
        ({"kernel_w": 2}, "weights [6, 8, 3, 3] for a kernel of 3 x 2"),
        ({"stride_w": 17}, "returned -1 (BM_LAYER_NOT_SUPPORTED)"),
    ],
)
def test_a_transposed_convolution_that_makes_no_sense(
    toolkit: Toolkit, change: Mapping[str, int], text: str
) -> None:
    param = {"groups": 1, **window_param((3, 3), (1, 1), (0, 0, 0, 0), (1, 1)), **change}
    with pytest.raises(TpulayerError) as error:
        run(toolkit, "TPU_DECONV", sample(1, 6, 9, 9), param, [sample(6, 8, 3, 3)])
    assert text in str(error.value)


# ---- LRN ----


def lrn(x: NDArray[Any], size: int, alpha: float, beta: float, bias: float) -> Double:
    squares = x.astype(np.float64) ** 2
    padded = np.pad(squares, ((0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)))
    sums = np.lib.stride_tricks.sliding_window_view(padded, size, 1).sum(-1)
    y: Double = x / (bias + alpha / size * sums) ** beta
    return y


def check_lrn(
    toolkit: Toolkit, shape: tuple[int, ...], size: int, alpha: float, beta: float, bias: float = 1.0
) -> None:
    x = 3 * sample(*shape)
    want = lrn(x, size, alpha, beta, bias)
    param = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    for opt, dynamic in MODES:
        compiled = tuple(e + dynamic for e in shape)
        y, _ = run(toolkit, "TPU_LRN", x, param, opt=opt, dynamic=dynamic, compiled=compiled)
        close(y, want)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 96, 55, 55), 5),  # alexnet
        ((2, 7, 3, 3), 4),
        ((3, 40, 65), 40),
        ((2, 5, 1, 1), 100),  # all channels, and more
        ((2, 30), 3),
        ((1, 3, 5, 7, 2), 2),
        ((1, 3000, 10), 33),  # more channels than rows of an instruction
        ((1, 16, 700, 600), 5),
    ],
)
def test_sums_over_channels(toolkit: Toolkit, shape: tuple[int, ...], size: int) -> None:
    check_lrn(toolkit, shape, size, 0.3, 0.75)


@examples(15)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 150)),
    size=st.integers(1, 12),
    alpha=st.floats(2**-13, 2, width=32),
    beta=st.sampled_from([0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.3, 2.0, -0.75]),
    bias=st.floats(0.5, 4, width=32),
)
def test_any_sum_over_channels(
    toolkit: Toolkit, shape: tuple[int, int, int], size: int, alpha: float, beta: float, bias: float
) -> None:
    check_lrn(toolkit, shape, size, alpha, beta, bias)


@pytest.mark.parametrize(
    ("change", "shape", "code"),
    [
        ({"size": 0}, (1, 3, 4), "returned -2 (BM_LAYER_PARAM_INVALID)"),
        ({"beta": 33.0}, (1, 3, 4), "returned -1 (BM_LAYER_NOT_SUPPORTED)"),
        ({"size": 3000}, (1, 1500, 4), "returned -1 (BM_LAYER_NOT_SUPPORTED)"),
        ({}, (3,), "returned -1 (BM_LAYER_NOT_SUPPORTED)"),
    ],
)
def test_a_sum_over_channels_that_makes_no_sense(
    toolkit: Toolkit, change: Mapping[str, Any], shape: tuple[int, ...], code: str
) -> None:
    param = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0, **change}
    with pytest.raises(TpulayerError) as error:
        run(toolkit, "TPU_LRN", sample(*shape), param)
    assert f"shape function {code}" in str(error.value)
