"""Built-in layers with windows: convolutions and pools, against numpy in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError
from firmware_sim.isa.codes import Task
from firmware_sim.isa.layout import BD
from tests.support.examples import examples
from tests.support.window_layers import (
    MODES,
    Array,
    Pads,
    close,
    convolution,
    pool,
    run,
    sample,
    window_param,
)
from tpulayer import Graph
from user_layers.graph import BINARY_MUL
from user_layers.net.compiled import StaticBody
from user_layers.toolkit import Toolkit

# ---- convolution ----


def check_convolution(
    toolkit: Toolkit,
    x: Array,
    w: Array,
    bias: bool = True,
    *,
    groups: int = 1,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
    modes: Sequence[tuple[int, bool]] = MODES,
) -> list[str]:
    """The logs of all modes. Dynamic nets are compiled for a larger input."""
    b = sample(w.shape[0], seed=7) if bias else None
    want = convolution(x, w, b, groups, stride, dilation, pads)
    consts = [w, *([] if b is None else [b])]
    param = {"groups": groups, **window_param(w.shape[2:], stride, pads, dilation)}
    logs = []
    for opt, dynamic in modes:
        shape = tuple(e + dynamic * (i != 1) for i, e in enumerate(x.shape))
        y, log = run(toolkit, "TPU_CONV", x, param, consts, opt=opt, dynamic=dynamic, compiled=shape)
        close(y, want)
        logs.append(log)
    return logs


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "wide": {"x": (1, 5, 1, 5000), "w": (6, 5, 1, 9), "pads": (0, 4, 0, 4)},
    "stride over 15, no pads": {"x": (1, 5, 40, 40), "w": (70, 5, 16, 16), "stride": (16, 16)},
    "dilation over 15, no pads": {"x": (2, 5, 60, 9), "w": (70, 5, 3, 2), "dilation": (20, 1)},
    "plain": {"x": (1, 3, 20, 20), "w": (8, 3, 3, 3), "pads": (1, 1, 1, 1)},
    "uneven pads and strides": {
        "x": (2, 3, 20, 23),
        "w": (70, 3, 3, 5),
        "pads": (1, 2, 0, 1),
        "stride": (2, 3),
    },
    "1 x 1": {"x": (3, 65, 7, 7), "w": (130, 65, 1, 1)},
    "groups": {
        "x": (2, 12, 20, 23),
        "w": (90, 4, 3, 3),
        "groups": 3,
        "dilation": (2, 3),
        "pads": (1, 1, 1, 1),
    },
    "groups over the lanes' end": {"x": (2, 150, 5, 6), "w": (100, 3, 2, 2), "groups": 50},
    "depthwise": {
        "x": (2, 70, 9, 23),
        "w": (70, 1, 3, 3),
        "groups": 70,
        "stride": (2, 1),
        "pads": (1, 0, 1, 2),
    },
    "depthwise with dilation": {"x": (1, 3, 19, 17), "w": (3, 1, 3, 2), "groups": 3, "dilation": (3, 4)},
    "depthwise with a dilation over 15": {
        "x": (2, 70, 36, 24),
        "w": (70, 1, 3, 2),
        "groups": 70,
        "dilation": (16, 17),
    },
    "depthwise, two each": {"x": (2, 70, 9, 8), "w": (140, 1, 3, 3), "groups": 70, "bias": False},
    "one dimension": {"x": (2, 5, 1, 300), "w": (6, 5, 1, 9), "pads": (0, 4, 0, 4)},
    "stride over 15": {"x": (1, 5, 40, 40), "w": (6, 5, 16, 16), "stride": (16, 16), "pads": (0, 0, 8, 8)},
    "dilation over 15": {
        "x": (1, 5, 40, 40),
        "w": (6, 5, 3, 3),
        "dilation": (17, 18),
        "pads": (17, 18, 17, 18),
    },
    "pads over 15": {"x": (1, 5, 4, 30), "w": (6, 5, 2, 20), "pads": (0, 19, 1, 17)},
    "depthwise with a dilation over 15 and pads": {
        "x": (1, 70, 40, 30),
        "w": (70, 1, 3, 3),
        "groups": 70,
        "dilation": (24, 16),
        "stride": (1, 2),
        "pads": (24, 16, 20, 15),
    },
    "depthwise with a stride over 15": {
        "x": (2, 5, 40, 40),
        "w": (5, 1, 18, 3),
        "groups": 5,
        "stride": (17, 16),
        "pads": (1, 0, 0, 2),
        "bias": False,
    },
    "wide, depthwise": {"x": (2, 70, 2, 2500), "w": (70, 1, 1, 39), "groups": 70, "pads": (0, 19, 0, 19)},
}
# Windows of nothing but zeros: never in a local group.
LARGE_CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "windows of nothing but pads": {"x": (1, 5, 4, 4), "w": (6, 5, 1, 2), "pads": (3, 2, 3, 2)},
    "wide windows of nothing": {
        "x": (1, 70, 2, 5000),
        "w": (70, 1, 1, 3),
        "groups": 70,
        "pads": (0, 17, 0, 17),
    },
}


@pytest.mark.parametrize("case", [*CONVOLUTIONS, *LARGE_CONVOLUTIONS])
def test_convolutions(toolkit: Toolkit, case: str) -> None:
    given = dict({**CONVOLUTIONS, **LARGE_CONVOLUTIONS}[case])
    local, *_ = check_convolution(toolkit, sample(*given.pop("x")), sample(*given.pop("w"), seed=1), **given)
    assert ("local" if case in CONVOLUTIONS else "force_use_global_layer") in local


@examples(25)
@given(
    n=st.integers(1, 3),
    groups=st.sampled_from([1, 1, 2, 5, 33]),
    channels=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    size=st.tuples(st.integers(4, 30), st.integers(4, 30)),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    pads=st.tuples(*[st.integers(0, 5)] * 4),
    bias=st.booleans(),
)
def test_any_convolution(
    toolkit: Toolkit,
    n: int,
    groups: int,
    channels: tuple[int, int],
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: Pads,
    bias: bool,
) -> None:
    in_c, out_c = (1, 1 + channels[1] % 2) if groups > 5 else channels
    kernel = min(kernel[0], size[0]), min(kernel[1], size[1])
    check_convolution(
        toolkit,
        sample(n, in_c * groups, *size),
        sample(out_c * groups, in_c, *kernel, seed=1),
        bias,
        groups=groups,
        stride=stride,
        pads=pads,
    )


@pytest.mark.parametrize(
    ("x", "w", "groups", "stride", "pad"),
    [
        ((1, 3, 224, 224), (64, 3, 11, 11), 1, 4, 2),
        pytest.param((1, 512, 14, 14), (512, 512, 3, 3), 1, 1, 1, marks=pytest.mark.slow),
        ((1, 700, 24, 24), (70, 700, 15, 15), 1, 3, 1),  # weights of one round of lanes do not fit
        ((1, 86, 10, 10), (1, 86, 7, 7), 1, 2, 0),  # half of the channels would be an odd number
        ((3, 256, 28, 28), (256, 8, 3, 3), 32, 1, 1),
        ((8, 96, 56, 56), (96, 1, 3, 3), 96, 1, 1),
        pytest.param((1, 64, 300, 200), (64, 64, 3, 3), 1, 1, 1, marks=pytest.mark.slow),
    ],
)
def test_convolutions_that_are_cut(
    toolkit: Toolkit, x: tuple[int, ...], w: tuple[int, ...], groups: int, stride: int, pad: int
) -> None:
    check_convolution(
        toolkit,
        sample(*x),
        sample(*w, seed=1),
        groups=groups,
        stride=(stride, stride),
        pads=(pad,) * 4,
        modes=MODES[:2],
    )


@pytest.mark.parametrize(("columns", "parts"), [(2047, [2047]), (2048, [1025, 1025])])
def test_a_convolution_reads_no_more_columns_than_the_guide_allows(
    toolkit: Toolkit, columns: int, parts: list[int]
) -> None:
    """2047; the emulator computes wider ones all the same."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 3, 3, columns))
    graph.add_const("w", sample(2, 3, 3, 3))
    param = {"groups": 1, **window_param((3, 3), (1, 1), (0, 0, 0, 0), (1, 1))}
    graph.add_tpu_layer("TPU_CONV", ["x", "w"], param, ["y"])
    body = graph.compile(opt=0).stages[0].subnets[0].body
    assert isinstance(body, StaticBody)
    data = b"".join(group.bd for group in body.groups)
    rows = [BD.decode(data[at : at + 128]) for at in range(0, len(data), 128)]
    assert [row["opd0_w"] for row in rows if row["tsk_typ"] == Task.CONV] == parts


@pytest.mark.parametrize(
    ("groups", "stride"),
    [
        pytest.param(1, (1, 1), marks=pytest.mark.slow),
        (2, (2, 1)),
        pytest.param(64, (1, 3), marks=pytest.mark.slow),
    ],
)
def test_convolutions_in_groups_that_are_cut(toolkit: Toolkit, groups: int, stride: tuple[int, int]) -> None:
    out_c = 64 if groups == 64 else 6
    x, w, b = sample(1, 64, 600, 230), sample(out_c, 64 // groups, 3, 5, seed=1), sample(out_c, seed=2)
    param = {"groups": groups, **window_param((3, 5), stride, (1, 2, 1, 2), (1, 1))}
    consts = [w, b]
    y, log = run(toolkit, "TPU_CONV", x, param, consts, opt=1, around=True)
    assert "over h" in log
    close(y, convolution(2 * x, w, b, groups, stride, (1, 1), (1, 2, 1, 2)) + 1)


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_few_channels_do_not_see_what_lies_beside_them(toolkit: Toolkit, channels: int, opt: int) -> None:
    """The instruction is told of four channels; those that the tensor lacks held NaN before."""
    x, w = sample(2, channels, 40, 40), sample(5, channels, 3, 3, seed=1)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_input("z", (2, 64, 1, 65536))
    graph.add_const("w", w)
    graph.add_const_binary_layer("z", np.nan, "nan", BINARY_MUL)
    param = {"groups": 1, **window_param((3, 3), (1, 1), (0, 0, 0, 0), (1, 1))}
    graph.add_tpu_layer("TPU_CONV", ["x", "w"], param, ["y"])
    graph.compile(opt=opt)
    nan, y = graph.run({"x": x, "z": np.zeros((2, 64, 1, 65536), np.float32)})
    assert np.isnan(nan).all()
    close(y.astype(np.float32, copy=False), convolution(x, w, None, 1, (1, 1), (1, 1), (0, 0, 0, 0)))


@pytest.mark.parametrize(
    ("change", "weights", "text"),
    [
        ({"groups": 0}, (8, 6, 3, 3), "weights [8, 6, 3, 3] does not divide into 0 groups"),
        ({"groups": 3}, (8, 6, 3, 3), "weights [8, 6, 3, 3] does not divide into 3 groups"),
        ({"groups": 4}, (8, 6, 3, 3), "weights [8, 6, 3, 3] in 4 groups for 6 input channels"),
        ({}, (8, 5, 3, 3), "weights [8, 5, 3, 3] in 1 groups for 6 input channels"),
        ({"kernel_w": 2}, (8, 6, 3, 3), "weights [8, 6, 3, 3] for a kernel of 3 x 2"),
        ({}, (8, 54), "shape function returned -2 (BM_LAYER_PARAM_INVALID)"),
        ({"stride_h": 0}, (8, 6, 3, 3), "shape function returned -2 (BM_LAYER_PARAM_INVALID)"),
        ({"dilation_w": 9}, (8, 6, 3, 3), "shape function returned -2 (BM_LAYER_PARAM_INVALID)"),
        ({"pad_left": -1}, (8, 6, 3, 3), "shape function returned -2 (BM_LAYER_PARAM_INVALID)"),
    ],
)
def test_a_convolution_that_makes_no_sense(
    toolkit: Toolkit, change: Mapping[str, int], weights: tuple[int, ...], text: str
) -> None:
    param = {"groups": 1, **window_param((3, 3), (1, 1), (0, 0, 0, 0), (1, 1)), **change}
    with pytest.raises(TpulayerError, match=r"conv_0.*TPU_CONV") as error:
        run(toolkit, "TPU_CONV", sample(1, 6, 9, 9), param, [sample(*weights)])
    assert text in str(error.value)


# ---- pools ----


def check_pool(
    toolkit: Toolkit,
    x: Array,
    kernel: Sequence[int],
    *,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
    extra: Sequence[int] = (0, 0),
    modes: Sequence[tuple[int, bool]] = MODES,
) -> list[str]:
    """Maximum and both averages; the logs."""
    logs = []
    for mode, include in ((0, 0), (1, 0), (1, 1)):
        want = pool(x, mode, kernel, stride, dilation, pads, extra, include)
        param = window_param(kernel, stride, pads, dilation)
        param |= {
            "mode": mode,
            "count_include_pad": include,
            "extra_bottom": extra[0],
            "extra_right": extra[1],
        }
        for opt, dynamic in modes:
            shape = tuple(e + dynamic for e in x.shape)
            y, log = run(toolkit, "TPU_POOL", x, param, opt=opt, dynamic=dynamic, compiled=shape)
            close(y, want)
            logs.append(log)
    return logs


POOLS: dict[str, dict[str, Any]] = {
    "wide": {"x": (1, 2, 3, 5000), "kernel": (1, 5), "stride": (1, 2), "pads": (0, 2, 0, 2)},
    "plain": {"x": (2, 3, 20, 21), "kernel": (2, 2), "stride": (2, 2)},
    "resnet": {"x": (1, 64, 112, 112), "kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1)},
    "uneven": {"x": (2, 70, 13, 9), "kernel": (3, 4), "stride": (1, 3), "pads": (2, 0, 1, 3)},
    "with an incomplete last window": {
        "x": (1, 5, 14, 14),
        "kernel": (3, 3),
        "stride": (2, 2),
        "pads": (1, 0, 0, 1),
        "extra": (0, 1),
    },
    "in two steps": {"x": (1, 3, 40, 50), "kernel": (13, 13), "pads": (6, 6, 6, 6)},
}
LARGE_POOLS: dict[str, dict[str, Any]] = {
    "dilation": {"x": (1, 5, 20, 21), "kernel": (3, 2), "dilation": (2, 5), "pads": (2, 1, 2, 1)},
    "stride over 15": {"x": (1, 5, 70, 50), "kernel": (20, 3), "stride": (20, 16), "pads": (0, 1, 0, 1)},
    "windows of nothing but extra pads": {
        "x": (1, 2, 4, 5),
        "kernel": (3, 3),
        "pads": (2, 2, 2, 2),
        "extra": (0, 0),
    },
    "pads over 15": {"x": (1, 2, 40, 5), "kernel": (33, 3), "pads": (16, 1, 16, 1)},
    "a kernel in parts": {"x": (1, 2, 5, 6000), "kernel": (3, 3000), "stride": (1, 7), "pads": (1, 8, 0, 3)},
}


@pytest.mark.parametrize("case", [*POOLS, *LARGE_POOLS])
def test_pools(toolkit: Toolkit, case: str) -> None:
    given = dict({**POOLS, **LARGE_POOLS}[case])
    local, *_ = check_pool(toolkit, sample(*given.pop("x")), **given)
    assert ("local" if case in POOLS or "nothing" in case else "force_use_global_layer") in local


@examples(20)
@given(
    lead=st.tuples(st.integers(1, 3), st.integers(1, 70)),
    size=st.tuples(st.integers(4, 30), st.integers(4, 30)),
    kernel=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    stride=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    pads=st.tuples(*[st.integers(0, 7)] * 4),
)
def test_any_pool(
    toolkit: Toolkit,
    lead: tuple[int, int],
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: Pads,
) -> None:
    """Pads smaller than the kernel, as ONNX has them; an average over nothing has no value to compare."""
    kernel = min(kernel[0], size[0]), min(kernel[1], size[1])
    pads = tuple(min(p, k - 1) for p, k in zip(pads, kernel * 2, strict=True))  # type: ignore[assignment]
    extra = [
        -(s + a + b - k) % t if (s + a + b - k) % t and -(s + a + b - k) % t + b < k else 0
        for s, a, b, k, t in zip(size, pads[:2], pads[2:], kernel, stride, strict=True)
    ]
    check_pool(toolkit, sample(*lead, *size), kernel, stride=stride, pads=pads, extra=extra)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(
    "shape",
    [(2, 130, 7, 7), (1, 70, 56, 56), (1, 3, 1, 2000), (2, 3, 2, 5003), (1, 2, 3000, 40), (1, 5000, 1, 3)],
)
def test_pools_of_whole_planes(toolkit: Toolkit, shape: tuple[int, ...], mode: int) -> None:
    x = sample(*shape) + np.float32(0.5)
    exact = x.astype(np.float64)
    want = exact.mean((2, 3), keepdims=True) if mode else exact.max((2, 3), keepdims=True)
    for opt, dynamic in MODES:
        shape = tuple(e + dynamic for e in x.shape)
        y, _ = run(
            toolkit, "TPU_POOL", x, {"mode": mode, "whole": 1}, opt=opt, dynamic=dynamic, compiled=shape
        )
        close(y, want)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("axis", [2, 3])
@pytest.mark.parametrize(
    "shape", [(2, 130, 7, 9), (1, 70, 1, 56), (3, 65, 40, 1), (1, 3, 2100, 5), (1, 4, 3, 2100)]
)
def test_pools_of_whole_columns_and_rows(
    toolkit: Toolkit, shape: tuple[int, ...], axis: int, mode: int
) -> None:
    x, param = sample(*shape) + np.float32(0.5), {"mode": mode, "whole": axis}
    exact = x.astype(np.float64)
    want = exact.mean(axis, keepdims=True) if mode else exact.max(axis, keepdims=True)
    for opt, dynamic in MODES:
        compiled = tuple(e + dynamic for e in x.shape)
        y, _ = run(toolkit, "TPU_POOL", x, param, opt=opt, dynamic=dynamic, compiled=compiled)
        close(y, want)


@pytest.mark.parametrize("axis", [2, 3])
def test_pools_of_whole_columns_and_rows_in_groups_that_are_cut(toolkit: Toolkit, axis: int) -> None:
    x = sample(1, 64, 600, 230)
    y, log = run(toolkit, "TPU_POOL", x, {"mode": 1, "whole": axis}, opt=1, around=True)
    assert f"over {'wh'[axis - 2]}" in log
    close(y, 2 * x.mean(axis, keepdims=True) + 1)


@pytest.mark.parametrize(("mode", "kernel"), [(0, 3), (1, 3), (1, 7)])
def test_pools_in_groups_that_are_cut(toolkit: Toolkit, mode: int, kernel: int) -> None:
    x, pads = sample(1, 64, 600, 230), (1, 0, 1, 1)
    param = window_param((kernel, kernel), (2, 1), pads, (1, 1)) | {"mode": mode}
    y, log = run(toolkit, "TPU_POOL", x, param, opt=1, around=True)
    assert "over h" in log
    close(y, pool(2 * x, mode, (kernel, kernel), (2, 1), (1, 1), pads, (0, 0), 0) + 1)


@pytest.mark.parametrize("opt", [1, 0])
def test_a_maximum_passes_over_nan(toolkit: Toolkit, opt: int) -> None:
    x = np.array([[[[1, np.nan, -np.inf, -2]]]], np.float32)
    y, _ = run(
        toolkit,
        "TPU_POOL",
        x,
        {"mode": 0, **window_param((1, 2), (1, 1), (0, 0, 0, 0), (1, 1))},
        opt=opt,
    )
    assert y.ravel().tolist() == [1.0, float(np.finfo(np.float32).min), -2.0]


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"mode": 2},
            {"kernel_h": 0},
            {"kernel_w": 10},
            {"stride_w": -1},
            {"pad_top": -1},
            {"extra_right": -1},
        ),
        *({"pad_right": 65535, "extra_right": 1}, {"pad_bottom": 1, "extra_bottom": 65535}),
        {"pad_right": 2, "extra_right": -1},
    ],
)
def test_a_pool_that_makes_no_sense(toolkit: Toolkit, change: Mapping[str, int]) -> None:
    param = {"mode": 0, **window_param((3, 3), (1, 1), (0, 0, 0, 0), (1, 1)), **change}
    with pytest.raises(
        TpulayerError, match=r"pool_0.*TPU_POOL.*shape function returned -2 \(BM_LAYER_PARAM_INVALID\)"
    ):
        run(toolkit, "TPU_POOL", sample(1, 6, 9, 9), param)
