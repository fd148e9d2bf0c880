"""TPU_CONV3D: convolutions of volumes in groups, in DDR and in local memory, cut or whole, beside numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.layer_checks import Array
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Case:
    """x: [N, D, C, H, W]; w: [OC, C / groups, KD, KH, KW]; the rest along d, h and w."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    groups: int
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    before: tuple[int, int, int] = (0, 0, 0)
    after: tuple[int, int, int] = (0, 0, 0)
    bias: bool = True

    def param(self) -> dict[str, int]:
        given = {"groups": self.groups, "planes": self.x[1]}
        for name, values in (("kernel", self.w[2:]), ("stride", self.stride), ("dilation", self.dilation)):
            given |= dict(zip((f"{name}_{axis}" for axis in "dhw"), values, strict=True))
        given |= dict(zip(("pad_front", "pad_top", "pad_left"), self.before, strict=True))
        return given | dict(zip(("pad_back", "pad_bottom", "pad_right"), self.after, strict=True))

    def has_room(self) -> bool:
        return all(
            size + low + high > (kernel - 1) * step
            for size, low, high, kernel, step in zip(
                (self.x[1], *self.x[3:]), self.before, self.after, self.w[2:], self.dilation, strict=True
            )
        )

    def constants(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(1)
        return rng.standard_normal(self.w, np.float32), rng.standard_normal(self.w[0], np.float32)


def volumes(case: Case) -> Array:
    return np.random.default_rng(0).standard_normal(case.x, np.float32)


def convolved(case: Case, x: Array) -> Array:
    """[N, OD, OC, OH, OW] in float64."""
    weights, bias = case.constants()
    low, high = case.before, case.after
    pads = ((0, 0), (low[0], high[0]), (0, 0), (low[1], high[1]), (low[2], high[2]))
    seen = np.pad(x.astype(np.float64), pads)
    reach = [(kernel - 1) * step + 1 for kernel, step in zip(case.w[2:], case.dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(seen, reach, (1, 3, 4))
    (sd, sh, sw), (dd, dh, dw) = case.stride, case.dilation
    windows = windows[:, ::sd, :, ::sh, ::sw, ::dd, ::dh, ::dw]
    made, read = case.w[0] // case.groups, case.w[1]
    parts = [
        np.einsum(
            "ndchwxyz,ocxyz->ndohw",
            windows[:, :, g * read : (g + 1) * read],
            weights[g * made : (g + 1) * made].astype(np.float64),
            optimize=True,
        )
        for g in range(case.groups)
    ]
    return np.concatenate(parts, axis=2) + (bias[:, None, None] if case.bias else 0)


def ran(
    toolkit: Toolkit,
    case: Case,
    *,
    opt: int = 2,
    dynamic: bool = False,
    batches: int = 0,
    around: bool = False,
) -> tuple[Array, str]:
    """What the layer makes, as volumes, and its line of the log. batches: of volumes that run, if fewer than
    it is compiled for; around: between layers that put it into a group."""
    n, d, *rest = case.x
    weights, bias = case.constants()
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (n * d, *rest))
    inputs = ["x", graph.add_const("w", weights)]
    if around:
        graph.add_tpu_layer("TPU_CONST_BINARY", ["x"], {"binary_op": 2, "value": 1.0}, ["a"])
        inputs[0] = "a"
    if case.bias:
        inputs.append(graph.add_const("b", bias))
    graph.add_tpu_layer("TPU_CONV3D", inputs, case.param(), ["y"], name="it")
    if around:
        graph.add_tpu_layer("TPU_CONST_BINARY", ["y"], {"binary_op": 2, "value": 1.0}, ["z"])
    lines: list[str] = []
    graph.compile(opt=opt, dynamic=dynamic, log=lines.append)
    x = volumes(case)[: batches or n]
    made = graph.run({"x": x.reshape(-1, *rest)})[0]
    line = next(line for line in lines if line.startswith("CONV3D"))
    return made.reshape(len(x), -1, *made.shape[1:]), line


def close(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max() + 1e-6


CASES = {
    "depthwise": Case((1, 4, 24, 9, 10), (24, 1, 3, 3, 3), 24, before=(1, 1, 1), after=(1, 1, 1)),
    "more channels than lanes": Case(
        (2, 5, 70, 7, 6), (70, 1, 3, 3, 3), 70, stride=(2, 2, 1), before=(1, 1, 0), after=(0, 1, 2)
    ),
    "a kernel longer than the volume": Case(
        (2, 3, 5, 6, 6), (5, 1, 5, 5, 5), 5, before=(3, 2, 2), after=(4, 2, 2)
    ),
    "no tap below all planes": Case((1, 2, 3, 4, 5), (3, 1, 2, 1, 2), 3, before=(1, 0, 0), after=(1, 0, 0)),
    "along the depth alone": Case(
        (2, 6, 130, 4, 5), (130, 1, 5, 1, 1), 130, stride=(2, 1, 2), before=(2, 0, 0), after=(2, 0, 0)
    ),
    "dilated": Case(
        (1, 7, 9, 11, 12), (9, 1, 3, 3, 2), 9, dilation=(2, 3, 4), before=(2, 3, 0), after=(1, 2, 3)
    ),
    "groups": Case((2, 4, 12, 8, 9), (20, 3, 3, 3, 3), 4, before=(1, 1, 1), after=(1, 1, 1)),
    "groups of many channels, strides": Case(
        (1, 5, 140, 6, 6), (150, 70, 2, 3, 1), 2, stride=(3, 2, 2), before=(0, 1, 0), after=(1, 1, 0)
    ),
    "two for each": Case(
        (1, 3, 40, 5, 5), (80, 1, 3, 1, 3), 40, before=(1, 0, 1), after=(1, 0, 1), bias=False
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(toolkit: Toolkit, case: str) -> None:
    it = CASES[case]
    want = convolved(it, volumes(it))
    alone, line = ran(toolkit, it, opt=0)
    close(alone, want)
    assert "local" not in line
    grouped, line = ran(toolkit, it, opt=1, around=True)
    assert "local" in line
    assert np.array_equal(grouped, alone)  # sums in the same order
    for dynamic in (False, True):
        assert np.array_equal(ran(toolkit, it, opt=2, dynamic=dynamic, around=True)[0], alone)
    assert np.array_equal(ran(toolkit, it, dynamic=True, batches=1)[0], alone[:1])


@examples(20)
@given(st.data())
def test_any(toolkit: Toolkit, data: st.DataObject) -> None:
    def three(low: int, high: int) -> tuple[int, int, int]:
        a, b, c = (data.draw(st.integers(low, high)) for _ in range(3))
        return a, b, c

    kernel, dilation = three(1, 4), three(1, 3)
    channels = [(1, 1, 3), (1, 1, 67), (2, 3, 3), (1, 2, 20), (40, 3, 2)]
    read, made, groups = data.draw(st.sampled_from(channels))
    reach = [(k - 1) * step for k, step in zip(kernel, dilation, strict=True)]
    ends = [[data.draw(st.integers(0, min(most, 4))) for most in reach] for _ in range(2)]
    depth = data.draw(st.integers(2, 6))
    plane = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    it = Case(
        (data.draw(st.integers(1, 2)), depth, read * groups, *plane),
        (made * groups, read, *kernel),
        groups,
        three(1, 3),
        dilation,
        (ends[0][0], ends[0][1], ends[0][2]),
        (ends[1][0], ends[1][1], ends[1][2]),
        data.draw(st.booleans()),
    )
    assume(it.has_room())
    planes = np.pad(np.ones(depth), (it.before[0], it.after[0]))
    seen = np.lib.stride_tricks.sliding_window_view(planes, reach[0] + 1)[:: it.stride[0], :: dilation[0]]
    assume(seen.any(axis=1).all())
    want = convolved(it, volumes(it))
    alone, _ = ran(toolkit, it, opt=0)
    close(alone, want)
    dynamic = data.draw(st.booleans())
    assert np.array_equal(ran(toolkit, it, dynamic=dynamic, around=True)[0], alone)


@pytest.mark.parametrize(
    "it",
    [
        Case((1, 8, 40, 90, 60), (40, 1, 3, 3, 3), 40, before=(1, 1, 1), after=(1, 1, 1)),
        Case((4, 6, 30, 40, 40), (30, 1, 3, 3, 3), 30, before=(1, 1, 1), after=(1, 1, 1)),
        Case((1, 64, 6, 50, 70), (6, 1, 5, 5, 5), 6, (2, 2, 2), before=(2, 2, 2), after=(2, 2, 2)),
        Case((3, 6, 32, 60, 60), (64, 8, 3, 3, 3), 4, (2, 1, 2), before=(1, 1, 1), after=(1, 1, 1)),
    ],
    ids=("rows", "volumes", "planes and rows", "groups"),
)
def test_tiles(toolkit: Toolkit, it: Case) -> None:
    """What does not fit into local memory at once."""
    want = convolved(it, volumes(it))
    alone, _ = ran(toolkit, it, opt=0)
    close(alone, want)
    grouped, line = ran(toolkit, it, opt=1, around=True)
    assert "local" in line
    assert np.array_equal(grouped, alone)
    assert np.array_equal(ran(toolkit, it, dynamic=True, around=True)[0], alone)
    assert np.array_equal(ran(toolkit, it, dynamic=True, around=True, batches=1)[0], alone[:1])


@pytest.mark.parametrize(
    "change",
    [
        {"planes": 5},
        {"planes": 1},
        {"groups": 1},
        {"groups": 3},
        {"kernel_d": 2},
        {"kernel_h": 2},
        {"stride_d": 0},
        {"stride_w": 16},
        {"dilation_d": 9},
        {"pad_front": 3},
        {"pad_top": 3},
        {"dilation_d": 5, "pad_front": 5, "pad_back": 6},
    ],
)
def test_what_makes_no_sense(toolkit: Toolkit, change: dict[str, int]) -> None:
    it = CASES["depthwise"]
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (4, *it.x[2:]))
    graph.add_const("w", it.constants()[0])
    graph.add_tpu_layer("TPU_CONV3D", ["x", "w"], it.param() | change, ["y"])
    with pytest.raises(TpulayerError, match="TPU_CONV3D"):
        graph.compile()


# ---- models ----


def converted(toolkit: Toolkit, model: Any, x: dict[str, Array], opt: int = 2) -> tuple[list[str], list[str]]:
    """The layers of a model that computes what onnxruntime does, and the log."""
    graph = Graph.from_onnx(model, toolkit=toolkit)
    lines: list[str] = []
    graph.compile(opt=opt, log=lines.append)
    for difference in compare(["y"], graph.run(x), reference(load_model(model), x)):
        assert difference.relative <= TOLERANCE
    return [node.op.short for node in graph.resolve().nodes], lines


def test_blocks_stay_in_local_memory(toolkit: Toolkit) -> None:
    """Wider, depthwise, narrower, added to what came in: nothing moves between."""
    rng = np.random.default_rng(0)
    constants = {
        "a": rng.standard_normal((24, 8, 1, 1, 1), np.float32),
        "b": rng.standard_normal((24, 1, 3, 3, 3), np.float32),
        "c": rng.standard_normal((8, 24, 1, 1, 1), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["k"]),
        helper.make_node("Relu", ["k"], ["l"]),
        helper.make_node("Conv", ["l", "b"], ["m"], pads=[1] * 6, group=24),
        helper.make_node("Sigmoid", ["m"], ["n"]),
        helper.make_node("Conv", ["n", "c"], ["o"]),
        helper.make_node("Add", ["o", "x"], ["y"]),
    ]
    x = {"x": rng.standard_normal((1, 8, 6, 20, 24), np.float32)}
    layers, lines = converted(toolkit, make_model(nodes, {"x": x["x"].shape}, ["y"], constants), x)
    block = ["CONV", "UNARY", "CONV3D", "UNARY", "CONV", "BINARY"]
    assert layers == ["TRANSPOSE", "RESHAPE", *block, "RESHAPE", "TRANSPOSE"]
    for name in ("CONV3D", "BINARY"):
        assert "group 0" in next(line for line in lines if line.startswith(name)), lines


@pytest.mark.parametrize(
    ("extents", "kernel", "how", "layer"),
    [
        ((5, 6, 7), (3, 3, 3), {"pads": [1] * 6, "strides": [2, 2, 2]}, "CONV3D"),
        ((5, 6, 7), (3, 1, 1), {"pads": [1, 0, 0] * 2}, "CONV3D"),
        ((5, 6, 7), (1, 1, 1), {"strides": [2, 1, 1]}, "CONV3D"),
        ((5, 6, 7), (3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 1, 2]}, "CONV3D"),
        ((5, 6, 7), (1, 3, 3), {}, "CONV"),  # each plane by itself
        ((1, 6, 7), (2, 3, 3), {"pads": [1, 0, 0, 1, 0, 0]}, "CONV"),  # one plane
        ((5, 6, 7), (3, 1, 1), {"pads": [3, 0, 0] * 2}, "CONV"),  # windows of nothing but pads
        ((5, 6, 40), (2, 1, 2), {"dilations": [1, 1, 17]}, "CONV"),  # more than an instruction takes
    ],
)
def test_nodes(
    toolkit: Toolkit, extents: tuple[int, ...], kernel: tuple[int, ...], how: dict[str, Any], layer: str
) -> None:
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((10, 1, *kernel), np.float32),
        "b": rng.standard_normal(10, np.float32),
    }
    x = {"x": rng.standard_normal((2, 10, *extents), np.float32)}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=10, **how)
    layers, _ = converted(toolkit, make_model([node], {"x": x["x"].shape}, ["y"], constants), x)
    assert layer in layers and len({"CONV", "CONV3D"}.intersection(layers)) == 1


def test_a_kernel_without_room(toolkit: Toolkit) -> None:
    """What does not fit even for one element: its taps along the depth are layers of their own."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((2, 400, 4, 7, 7), np.float32)
    x = {"x": rng.standard_normal((1, 800, 4, 8, 8), np.float32)}
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=2)
    layers, _ = converted(toolkit, make_model([node], {"x": x["x"].shape}, ["y"], {"w": weights}), x)
    assert layers.count("CONV") == 4 and "CONV3D" not in layers
