"""TPU_POOL_PLANES: pools along the depth of volumes, in DDR and in local memory, beside numpy."""

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
    """x: [N, D, C, H, W]."""

    x: tuple[int, ...]
    kernel: int
    stride: int = 1
    dilation: int = 1
    front: int = 0
    back: int = 0
    extra: int = 0
    average: bool = False
    pads: bool = False

    def param(self) -> dict[str, int]:
        return {
            "mode": int(self.average),
            "planes": self.x[1],
            "kernel": self.kernel,
            "stride": self.stride,
            "dilation": self.dilation,
            "pad_front": self.front,
            "pad_back": self.back,
            "extra_back": self.extra,
            "count_include_pad": int(self.pads),
        }

    def windows(self) -> list[list[int]]:
        """Of each plane of the output those that it sees, pads included."""
        room = self.x[1] + self.front + self.back + self.extra - (self.kernel - 1) * self.dilation
        return [
            [at - self.front + tap * self.dilation for tap in range(self.kernel)]
            for at in range(0, room, self.stride)
        ]

    def meets(self) -> bool:
        windows = self.windows()
        return bool(windows) and all(any(0 <= z < self.x[1] for z in window) for window in windows)

    def pooled(self, x: Array) -> Array:
        made = []
        for window in self.windows():
            planes = x[:, [z for z in window if 0 <= z < self.x[1]]]
            if self.average:
                seen = [z for z in window if z < self.x[1] + self.back]
                count = len(seen) if self.pads else planes.shape[1]
                made.append(planes.astype(np.float64).sum(axis=1) / count)
            else:
                made.append(planes.max(axis=1))
        return np.stack(made, axis=1)


def ran(
    toolkit: Toolkit, case: Case, x: Array, *, opt: int = 2, dynamic: bool = False, around: bool = False
) -> tuple[Array, str]:
    """What the layer makes, as volumes, and its line of the log. around: between layers that put it into a
    group."""
    n, d, *rest = case.x
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (n * d, *rest))
    name = "x"
    if around:
        graph.add_tpu_layer("TPU_CONST_BINARY", ["x"], {"binary_op": 2, "value": 1.0}, ["a"])
        name = "a"
    graph.add_tpu_layer("TPU_POOL_PLANES", [name], case.param(), ["y"], name="it")
    if around:
        graph.add_tpu_layer("TPU_CONST_BINARY", ["y"], {"binary_op": 2, "value": 1.0}, ["z"])
    lines: list[str] = []
    graph.compile(opt=opt, dynamic=dynamic, log=lines.append)
    made = graph.run({"x": x.reshape(-1, *rest)})[0]
    line = next(line for line in lines if line.startswith("POOL_PLANES"))
    return made.reshape(len(x), -1, *made.shape[1:]), line


def check(toolkit: Toolkit, case: Case) -> None:
    x = np.random.default_rng(0).standard_normal(case.x, np.float32)
    alone, line = ran(toolkit, case, x, opt=0)
    assert "local" not in line
    want = case.pooled(x)
    assert alone.shape == want.shape
    assert np.allclose(alone, want, rtol=1e-6, atol=1e-6)
    grouped, line = ran(toolkit, case, x, opt=1, around=True)
    assert "local" in line
    assert np.array_equal(grouped, alone)
    assert np.array_equal(ran(toolkit, case, x, dynamic=True, around=True)[0], alone)
    assert np.array_equal(ran(toolkit, case, x[:1], dynamic=True, around=True)[0], alone[:1])
    assert np.array_equal(ran(toolkit, case, x[:1], dynamic=True)[0], alone[:1])


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 8, 64, 80, 70), 2, 2),  # more than local memory has
        Case((3, 6, 40, 60, 64), 3, 1, front=1, back=1, average=True),
        Case((2, 5, 3, 4, 5), 5, 3, front=3, back=4),
        Case((1, 3, 1, 3, 3), 3),  # fewer words than lanes
        Case((1, 300, 2, 5, 20), 3, 2, average=True),
    ],
)
def test_cases(toolkit: Toolkit, case: Case) -> None:
    check(toolkit, case)


@examples(25)
@given(
    st.tuples(*(st.integers(1, top) for top in (2, 7, 70, 9, 9))),
    st.tuples(*(st.integers(1, top) for top in (4, 3, 3))),
    st.tuples(*(st.integers(0, top) for top in (3, 3, 2))),
    st.booleans(),
    st.booleans(),
)
def test_any(
    toolkit: Toolkit,
    shape: tuple[int, ...],
    window: tuple[int, int, int],
    ends: tuple[int, int, int],
    average: bool,
    pads: bool,
) -> None:
    case = Case(shape, *window, *ends, average, pads)
    assume(shape[1] > 1 and case.meets())
    check(toolkit, case)


@pytest.mark.parametrize(
    "change",
    [
        {"planes": 3},
        {"planes": 1},
        {"mode": 2},
        {"count_include_pad": 2},
        {"kernel": 5},
        {"stride": 0},
        {"pad_front": 2},
        {"pad_back": -1},
        {"extra_back": -1},
    ],
)
def test_what_makes_no_sense(toolkit: Toolkit, change: dict[str, int]) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (4, 3, 5, 5))
    graph.add_tpu_layer("TPU_POOL_PLANES", ["x"], Case((1, 4, 3, 5, 5), 2).param() | change, ["y"])
    with pytest.raises(TpulayerError, match=r"TPU_POOL_PLANES.*shape function"):
        graph.compile()


def test_too_many_planes(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1100, 1, 1, 4))
    graph.add_tpu_layer("TPU_POOL_PLANES", ["x"], Case((1, 1100, 1, 1, 4), 1).param(), ["y"])
    with pytest.raises(TpulayerError, match="BM_LAYER_NOT_SUPPORTED"):
        graph.compile()


# ---- models ----


@examples(15)
@given(st.data())
def test_behind_convolutions(toolkit: Toolkit, data: st.DataObject) -> None:
    """They stay planes: nothing is transposed between a convolution, a pool and a convolution."""
    rng = np.random.default_rng(0)
    kernel = [data.draw(st.integers(1, 3)) for _ in range(3)]
    pads = [data.draw(st.integers(0, size // 2)) for size in [*kernel, *kernel]]
    how: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [data.draw(st.integers(1, 2)) for _ in range(3)],
        "pads": pads,
        "ceil_mode": data.draw(st.integers(0, 1)),
    }
    op = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    if op == "AveragePool":
        how["count_include_pad"] = data.draw(st.integers(0, 1))
    shape = (data.draw(st.integers(1, 2)), 3, *(data.draw(st.integers(3, 7)) for _ in range(3)))
    constants = {
        "v": rng.standard_normal((5, 3, 1, 1, 1), np.float32),
        "w": rng.standard_normal((4, 5, 1, 1, 1), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"]),
        helper.make_node(op, ["a"], ["b"], **how),
        helper.make_node("Conv", ["b", "w"], ["y"]),
    ]
    model = make_model(nodes, {"x": shape}, ["y"], constants, opset=19)
    x = {"x": rng.standard_normal(shape, np.float32)}
    graph = Graph.from_onnx(model, toolkit=toolkit)
    layers = [node.op.short for node in graph.resolve().nodes]
    assert layers.count("TRANSPOSE") == 2
    whole = kernel[0] == 1 and how["strides"][0] == 1
    assert ("POOL_PLANES" in layers) != whole
    graph.compile(dynamic=data.draw(st.booleans()))
    (difference,) = compare(["y"], graph.run(x), reference(load_model(model), x))
    assert difference.relative <= TOLERANCE
