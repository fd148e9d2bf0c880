"""Several rows as channels of one convolution: what the plain one makes, where that is faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.layer_checks import Array
from tpulayer import Graph
from user_layers.compiler import stacked
from user_layers.compiler.stacked_layers import Convolution, Stackable, continued, turned
from user_layers.net.functions import BINARY, UNARY
from user_layers.onnx.check import compare
from user_layers.toolkit import Toolkit

ONE = {"kernel_d": 1, "stride_d": 1, "dilation_d": 1, "pad_front": 0, "pad_back": 0}


def some(data: st.DataObject, *most: int, low: int = 1) -> list[int]:
    return [data.draw(st.integers(low, high)) for high in most]


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def window(
    kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], dilation_w: int = 1
) -> dict[str, int]:
    names = [f"{what}_{axis}" for what in ("kernel", "stride", "dilation") for axis in "hw"]
    names += [f"pad_{side}" for side in ("top", "bottom", "left", "right")]
    return dict(zip(names, (*kernel, *stride, 1, dilation_w, *pads), strict=True))


def net(
    toolkit: Toolkit,
    shape: tuple[int, ...],
    outs: int,
    how: dict[str, int],
    functions: Sequence[str] = (),
    *,
    bias: bool = True,
    unfold: bool = False,
    also: bool = False,
) -> Graph:
    """A convolution, or with output_pad_h a transposed one, functions behind it, and a sum; also: what the
    convolution makes is an output too."""
    graph = Graph(name="net", toolkit=toolkit)
    x = graph.add_input("x", shape)
    weights = floats(outs, shape[1], how["kernel_h"], how["kernel_w"])
    if "output_pad_h" in how:
        weights = weights.swapaxes(0, 1)
    if unfold:
        rows = {k: how[k] for k in ("kernel_h", "stride_h", "dilation_h", "pad_top", "pad_bottom")}
        (x,) = graph.add_tpu_layer("TPU_UNFOLD", [x], {"planes": 1, **ONE, **rows}, ["unfolded"])
        weights = weights.transpose(0, 2, 1, 3).reshape(outs, -1, 1, how["kernel_w"])
        how = {**how, "kernel_h": 1, "stride_h": 1, "pad_top": 0, "pad_bottom": 0}
    names = [x, graph.add_const("w", weights)]
    if bias:
        names.append(graph.add_const("b", floats(outs)))
    op = "TPU_DECONV" if "output_pad_h" in how else "TPU_CONV"
    graph.add_tpu_layer(op, names, {"groups": 1, **how}, ["c"])
    last = "c"
    for i, function in enumerate(functions):
        if function == "PRELU":
            slopes = graph.add_const(f"slopes{i}", floats(outs, *[1] * (len(shape) - 2), seed=i))
            (last,) = graph.add_tpu_layer(
                "TPU_BINARY", [last, slopes], {"binary_op": BINARY[function]}, [f"f{i}"]
            )
            continue
        param = {"unary_op": UNARY[function], "a": 1.0}
        (last,) = graph.add_tpu_layer("TPU_UNARY", [last], param, [f"f{i}"])
    graph.add_const_binary_layer(last, 1.0, "y", 0)
    graph.add_tpu_layer("TPU_POOL", ["y"], {"whole": 1, **window((1, 1), (1, 1), (0, 0, 0, 0))}, ["z"])
    for name in ("y", "z", *(["c"] if also else [])):
        graph.add_output(name)
    return graph


def both(graph: Graph, x: Array) -> list[str]:
    """The log with opt 2, whose results are those of opt 0 but for the order of sums."""
    graph.compile(opt=0)
    want = graph.run({"x": x})
    log: list[str] = []
    graph.compile(opt=2, log=log.append)
    for found in compare(list(graph.outputs), graph.run({"x": x}), want):
        assert found.relative <= 2e-6
    return log


def forced(graph: Graph, x: Array, rows: int = 0) -> None:
    """Whatever it costs; rows: so many, or the most there can be, if there can be any."""
    used: list[int] = []

    def best(layer: Stackable, after: float) -> int:
        found = list(layer.candidates())
        used.append(rows if rows in found else max(found, default=1))
        return used[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "_best", best)
        log = both(graph, x)
    assert any(line.startswith("DEPTH_TO_SPACE") for line in log) == (used not in ([], [1]))


@examples(10)
@given(st.data())
def test_any_convolution(toolkit: Toolkit, data: st.DataObject) -> None:
    n, c, h, w = some(data, 2, 7, 23, 12)
    (outs,) = some(data, 20)
    kernel, stride, pads = some(data, 5, 4), some(data, 3, 3), some(data, 3, 3, 2, 2, low=0)
    (dilation_w,) = some(data, 2)
    assume(h + pads[0] + pads[1] >= kernel[0] and max(pads[:2]) < kernel[0])
    reach = (kernel[1] - 1) * dilation_w
    assume(w + pads[2] + pads[3] > reach and max(pads[2:]) <= reach)
    unfold, bias, also = (data.draw(st.booleans()) for _ in range(3))
    functions = data.draw(st.lists(st.sampled_from(["RELU", "SWISH", "PRELU"]), max_size=2))
    graph = net(
        *(toolkit, (n, c, h, w), outs, window(kernel, stride, pads, dilation_w), functions),
        bias=bias,
        unfold=unfold,
        also=also,
    )
    forced(graph, floats(n, c, h, w, seed=1), data.draw(st.integers(2, 64 // outs)))


@examples(10)
@given(st.data())
def test_any_convolution_of_lines(toolkit: Toolkit, data: st.DataObject) -> None:
    """[N, C, H]: what is next to one another becomes channels."""
    n, c, h = some(data, 2, 7, 40)
    (outs,) = some(data, 20)
    (kernel, stride), (before, behind) = some(data, 9, 3), some(data, 3, 3, low=0)
    assume(h + before + behind >= kernel and max(before, behind) < kernel)
    functions = data.draw(st.lists(st.sampled_from(["RELU", "PRELU"]), max_size=2))
    how = window((kernel, 1), (stride, 1), (before, behind, 0, 0))
    graph = net(toolkit, (n, c, h), outs, how, functions, bias=data.draw(st.booleans()))
    forced(graph, floats(n, c, h, seed=1), data.draw(st.integers(2, 64 // outs)))


@examples(10)
@given(st.data())
def test_any_transposed_convolution(toolkit: Toolkit, data: st.DataObject) -> None:
    """All phases of the stride are rows, also for more channels than there are lanes."""
    n, c, h, w = some(data, 2, 7, 9, 7)
    outs = data.draw(st.sampled_from([1, 5, 16, 40, 70]))
    kernel, stride = some(data, 6, 4), [data.draw(st.integers(2, 4)), *some(data, 3)]
    pads = some(data, 4, 4, 2, 2, low=0)
    more = [data.draw(st.integers(0, one - 1)) for one in stride]
    sides = zip((h, w), kernel, stride, (pads[:2], pads[2:]), more, strict=True)
    assume(all((size - 1) * s + k - sum(p) + m > 1 for size, k, s, p, m in sides))
    how = window(kernel, stride, pads) | {"output_pad_h": more[0], "output_pad_w": more[1]}
    functions = data.draw(st.lists(st.sampled_from(["RELU", "SWISH"]), max_size=1))
    graph = net(toolkit, (n, c, h, w), outs, how, functions, bias=data.draw(st.booleans()))
    forced(graph, floats(n, c, h, w, seed=1))


@examples(15)
@given(st.data())
def test_a_convolution_of_rows_at_once(toolkit: Toolkit, data: st.DataObject) -> None:
    """It takes them as they are, whatever it costs, where its windows begin at whole ones."""
    h, w = data.draw(st.sampled_from([8, 12, 18, 24])), data.draw(st.integers(4, 10))
    outs = data.draw(st.sampled_from([2, 5, 16, 40]))
    kernel, stride, pads = some(data, 4, 3), some(data, 3, 2), some(data, 3, 3, 1, 1, low=0)
    assume(max(pads[:2]) < kernel[0] and max(pads[2:]) < kernel[1])
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 4, h, w))
    first = window((3, 3), (1, 1), (1, 1, 1, 1))
    for source, name, ins, channels, how in (
        ("x", "a", 4, 8, first),
        ("f", "b", 8, outs, window(kernel, stride, pads)),
    ):
        inputs = [
            source,
            graph.add_const(f"{name}:w", floats(channels, ins, how["kernel_h"], how["kernel_w"])),
        ]
        graph.add_tpu_layer("TPU_CONV", inputs, {"groups": 1, **how}, [name])
        made = {"a": "f", "b": "y"}[name]
        graph.add_tpu_layer("TPU_UNARY", [name], {"unary_op": UNARY["SWISH"], "a": 1.0}, [made])
    given = data.draw(st.sampled_from([2, 3, 4, 6]))
    found: list[int] = []

    def together(layer: Stackable, after: float, reader: Convolution, behind: float) -> Any:
        one = continued(reader, given)
        rows = list(one.candidates()) if h % given == 0 else []
        found.extend(rows)
        return (one, data.draw(st.sampled_from(rows))) if rows else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "_together", together)
        log = both(graph, floats(1, 4, h, w, seed=1))
    convolutions = [line for line in log if line.startswith("CONV")]
    assert (f"[1, {8 * given}, {h // given}, {w}]" in convolutions[0]) == bool(found)


@examples(12)
@given(st.data())
def test_any_line_of_one_channel_in_blocks(toolkit: Toolkit, data: st.DataObject) -> None:
    """Blocks of samples become channels before the convolution, whatever it costs: along lines, pictures of
    one column, and the rows of pictures."""
    form = data.draw(st.sampled_from(["line", "column", "rows"]))
    along = data.draw(st.sampled_from([4, 5, 12, 24, 36, 64, 96]))
    rows = data.draw(st.integers(1, 5)) if form == "rows" else 1
    n, outs = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 5, 16, 40, 70]))
    (kernel, stride), (before, behind) = some(data, 40, 8), some(data, 20, 20, low=0)
    across = data.draw(st.integers(1, rows))
    assume(along + before + behind >= kernel and max(before, behind) < kernel)
    if form == "rows":
        how = window((across, kernel), (data.draw(st.integers(1, 2)), stride), (0, 0, before, behind))
    else:
        how = window((kernel, 1), (stride, 1), (before, behind, 0, 0))
    shape = {"line": (n, 1, along), "column": (n, 1, along, 1), "rows": (n, 1, rows, along)}[form]
    functions = data.draw(st.lists(st.sampled_from(["RELU", "PRELU"]), max_size=2))
    graph = net(toolkit, shape, outs, how, functions, bias=data.draw(st.booleans()))
    used: list[bool] = []

    def chosen(layer: Convolution, after: float) -> Any:
        found = [one for one in turned(layer) if any(one.candidates())]
        used.append(bool(found))
        return data.draw(st.sampled_from(found)) if found else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "_turned", chosen)
        log = both(graph, floats(*shape, seed=1))
    assert any(line.startswith("TURN") for line in log) == any(used)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride"),
    [((1, 1, 16000), (80, 1), (16, 1)), ((1, 1, 16, 512), (1, 64), (1, 1)), ((2, 1, 1024), (512, 1), (4, 1))],
)
def test_lines_of_one_channel_where_it_pays(
    toolkit: Toolkit, shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int]
) -> None:
    pads = [kernel[0] // 2] * 2 + [kernel[1] // 2] * 2
    log = both(net(toolkit, shape, 16, window(kernel, stride, pads), ["RELU"]), floats(*shape, seed=1))
    assert any(line.startswith("TURN") and ", local, group" in line for line in log)


def test_dilations_of_single_taps(toolkit: Toolkit) -> None:
    """Which say nothing."""
    how = window((1, 3), (1, 1), (0, 0, 0, 0)) | {"dilation_h": 2}
    forced(net(toolkit, (1, 4, 9, 8), 4, how), floats(1, 4, 9, 8), 3)


@pytest.mark.parametrize(
    ("shape", "outs", "kernel", "stride", "unfold"),
    [
        ((1, 16, 131, 200), 16, 3, 1, False),
        ((1, 8, 257, 100), 12, 5, 1, True),
        ((1, 20, 90, 301), 3, 9, 1, False),
    ],
)
def test_large_ones_in_tiles(
    toolkit: Toolkit, shape: tuple[int, ...], outs: int, kernel: int, stride: int, unfold: bool
) -> None:
    """Where it pays, with all layers in groups."""
    pad = kernel // 2
    how = window((kernel, kernel), (stride, stride), (pad, pad, pad, pad))
    graph = net(toolkit, shape, outs, how, ["SWISH"], unfold=unfold)
    log = both(graph, floats(*shape, seed=1))
    assert any(line.startswith("DEPTH_TO_SPACE") and ", local, group" in line for line in log)


def test_not_where_nothing_is_won(toolkit: Toolkit) -> None:
    """Kernels that do not overlap, lanes that are full, and sizes that may be others when it runs."""
    for shape, outs, kernel in (((1, 8, 64, 64), 16, 1), ((1, 8, 64, 64), 64, 3), ((1, 8, 6, 6), 16, 3)):
        how = window((kernel, kernel), (1, 1), (0, 0, 0, 0))
        assert not any("DEPTH" in line for line in both(net(toolkit, shape, outs, how), floats(*shape)))
    graph = net(toolkit, (1, 16, 128, 128), 16, window((3, 3), (1, 1), (1, 1, 1, 1)))
    log: list[str] = []
    graph.compile(dynamic=True, log=log.append)
    assert not any("DEPTH" in line for line in log)
