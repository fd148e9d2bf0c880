"""What nets have to do: operations of each class and bytes, as counted by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.graph import BINARY_DIV, BINARY_MIN
from user_layers.report.model import StageReport, total
from user_layers.report.roofline import Demand, Kind
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(11)
F = 4  # bytes
Constants = Mapping[str, tuple[int, ...] | npt.NDArray[Any]]


def reported(
    folder: Path,
    toolkit: Toolkit,
    nodes: list[onnx.NodeProto],
    shapes: Mapping[str, tuple[int, ...]],
    constants: Constants,
    outputs: list[str],
    opt: int = 2,
) -> StageReport:
    arrays = {
        n: s if isinstance(s, np.ndarray) else RNG.standard_normal(s).astype(np.float32)
        for n, s in constants.items()
    }
    path = folder / "net.onnx"
    onnx.save(make_model(nodes, dict(shapes), outputs, arrays, opset=13), str(path))
    (stage,) = Graph.from_onnx(path, toolkit=toolkit).compile(report=True, opt=opt).report
    return stage


def one(stage: StageReport) -> Demand:
    """Of the only node that has to do something, with what views beside it read and write for it."""
    told = [demand for demand in stage.demands.values() if demand.count or demand.read or demand.written]
    (found,) = (demand for demand in told if demand.count)
    return replace(found, read=sum(d.read for d in told), written=sum(d.written for d in told))


def with_zeros(shape: tuple[int, ...], places: Sequence[tuple[int, ...]]) -> npt.NDArray[Any]:
    made = RNG.standard_normal(shape).astype(np.float32)
    for place in places:
        made[place] = 0
    return made


X = (2, 6, 9, 8)
PLANE = 9 * 8
CASES: dict[str, tuple[onnx.NodeProto, Constants, Demand]] = {
    "conv": (
        helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[2, 1]),
        {"w": (10, 6, 3, 3), "b": (10,)},
        Demand(Kind.PRODUCT, 2 * 10 * 4 * 6 * 54, F * (math.prod(X) + 540 + 10), F * 2 * 10 * 4 * 6),
    ),
    "zeros": (  # a channel that one result does not read is no work; a single tap of a window counts
        helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 1]),
        {"w": with_zeros((10, 6, 3, 3), [(3, 2), (0, 0, 1, 1)])},
        Demand(Kind.PRODUCT, 2 * 4 * 6 * 59 * 9, F * (math.prod(X) + 59 * 9), F * 2 * 10 * 4 * 6),
    ),
    "zero_channel": (  # as before training: the model multiplies by it
        helper.make_node("Conv", ["x", "w"], ["y"]),
        {"w": with_zeros((10, 6, 1, 1), [(4,), *((k, c) for k in range(10) for c in (3, 4, 5))])},
        Demand(Kind.PRODUCT, 2 * 10 * PLANE * 3, F * (math.prod(X) + 30), F * 2 * 10 * PLANE),
    ),
    "zero": (
        helper.make_node("Conv", ["x", "w"], ["y"]),
        {"w": np.zeros((10, 6, 1, 1), np.float32)},
        Demand(Kind.PRODUCT, 2 * 10 * PLANE * 6, F * (math.prod(X) + 60), F * 2 * 10 * PLANE),
    ),
    "groups": (
        helper.make_node("Conv", ["x", "w"], ["y"], group=2),
        {"w": (10, 3, 1, 1)},
        Demand(Kind.PRODUCT, 2 * 10 * PLANE * 3, F * (math.prod(X) + 30), F * 2 * 10 * PLANE),
    ),
    "depthwise": (
        helper.make_node("Conv", ["x", "w"], ["y"], group=6, pads=[1] * 4),
        {"w": (6, 1, 3, 3)},
        Demand(Kind.DEPTHWISE, math.prod(X) * 9, F * (math.prod(X) + 54), F * math.prod(X)),
    ),
    "deconv": (
        helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]),
        {"w": (6, 5, 2, 2)},
        Demand(Kind.PRODUCT, math.prod(X) * 5 * 4, F * (math.prod(X) + 120), F * 2 * 5 * 18 * 16),
    ),
    "deconv_depthwise": (
        helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], group=6),
        {"w": (6, 1, 2, 2)},
        Demand(Kind.DEPTHWISE, math.prod(X) * 4, F * (math.prod(X) + 24), F * 2 * 6 * 18 * 16),
    ),
    "deconv_groups": (
        helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], group=2),
        {"w": (6, 1, 2, 2)},
        Demand(Kind.PRODUCT, math.prod(X) * 4, F * (math.prod(X) + 24), F * 2 * 2 * 18 * 16),
    ),
    "matmul": (
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        {"w": (8, 21)},
        Demand(Kind.PRODUCT, 2 * 6 * 9 * 21 * 8, F * (math.prod(X) + 168), F * 2 * 6 * 9 * 21),
    ),
    "column": (
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        {"w": (8,)},
        Demand(Kind.PRODUCT, 2 * 6 * 9 * 8, F * (math.prod(X) + 8), F * 2 * 6 * 9),
    ),
    "pool": (
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2]),
        {},
        Demand(Kind.POOL, math.prod(X), F * math.prod(X), F * 2 * 6 * 3 * 4),
    ),
    "sigmoid": (
        helper.make_node("Sigmoid", ["x"], ["y"]),
        {},
        Demand(Kind.FUNCTION, math.prod(X), F * math.prod(X), F * math.prod(X)),
    ),
    "relu": (
        helper.make_node("Relu", ["x"], ["y"]),
        {},
        Demand(Kind.ELEMENTWISE, math.prod(X), F * math.prod(X), F * math.prod(X)),
    ),
    "twice": (
        helper.make_node("Div", ["x", "x"], ["y"]),
        {},
        Demand(Kind.FUNCTION, math.prod(X), F * math.prod(X), F * math.prod(X)),
    ),
    "number": (
        helper.make_node("Pow", ["x", "w"], ["y"]),
        {"w": np.array(2.5, np.float32)},
        Demand(Kind.FUNCTION, math.prod(X), F * (math.prod(X) + 1), F * math.prod(X)),
    ),
    "broadcast": (
        helper.make_node("Max", ["x", "w"], ["y"]),
        {"w": (3, 1, 1, 1, 8)},
        Demand(Kind.ELEMENTWISE, 3 * math.prod(X), F * (math.prod(X) + 24), F * 3 * math.prod(X)),
    ),
    "softmax": (
        helper.make_node("Softmax", ["x"], ["y"], axis=-1),
        {},
        Demand(Kind.FUNCTION, math.prod(X), F * math.prod(X), F * math.prod(X)),
    ),
    "transpose": (
        helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1]),
        {},
        Demand(Kind.COPY, math.prod(X), F * math.prod(X), F * math.prod(X)),
    ),
    "slice": (
        helper.make_node("Slice", ["x", "from", "to"], ["y"]),
        {"from": np.array([0, 1, 0, 0]), "to": np.array([2, 3, 9, 8])},
        Demand(Kind.COPY, 2 * 2 * PLANE, F * 2 * 2 * PLANE, F * 2 * 2 * PLANE),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_layer(name: str, toolkit: Toolkit, tmp_path: Path) -> None:
    node, constants, want = CASES[name]
    stage = reported(tmp_path, toolkit, [node], {"x": X}, constants, ["y"])
    assert one(stage) == want
    assert 0 < stage.efficiency <= 1 if stage.efficiency is not None else False
    (told,) = (node for node in stage.nodes if node.demand is not None and node.demand.count)
    assert told.demand is not None and told.demand.count == want.count
    assert told.efficiency is not None and told.efficiency <= 1


def test_functions_with_a_number(toolkit: Toolkit) -> None:
    for code, kind, operation in (
        (BINARY_DIV, Kind.FUNCTION, "CONST_BINARY div"),
        (BINARY_MIN, Kind.ELEMENTWISE, "CONST_BINARY min"),
    ):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", X)
        graph.add_const_binary_layer("x", 2.0, "y", code)
        (stage,) = graph.compile(report=True).report
        assert one(stage) == Demand(kind, math.prod(X), F * math.prod(X), F * math.prod(X))
        assert [node.operation for node in stage.nodes] == [operation]


def test_a_net_counts_what_crosses_its_border_once(toolkit: Toolkit, tmp_path: Path) -> None:
    """x is read by two layers, w by two, t lies between; a layer alone has to fetch t again."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"], name="first"),
        helper.make_node("Conv", ["x", "w"], ["u"], name="second"),
        helper.make_node("Sigmoid", ["t"], ["v"], name="curve"),
        helper.make_node("Add", ["u", "v"], ["y"], name="sum"),
    ]
    size = F * math.prod(X)
    shapes, constants = {"x": X}, {"w": (6, 6, 1, 1)}
    macs = math.prod(X) * 6
    for opt, inner in ((2, 0), (0, size)):
        stage = reported(tmp_path, toolkit, nodes, shapes, constants, ["y"], opt)
        assert dict(stage.demands) == {
            "first": Demand(Kind.PRODUCT, macs, size + F * 36, 0),
            "second": Demand(Kind.PRODUCT, macs, 0, 0),
            "curve": Demand(Kind.FUNCTION, math.prod(X), 0, 0),
            "sum": Demand(Kind.ELEMENTWISE, math.prod(X), 0, size),
        }
        told = {node.name: node.demand for node in stage.nodes}
        assert told["curve"] == Demand(Kind.FUNCTION, math.prod(X), inner, inner)
        assert told["sum"] == Demand(Kind.ELEMENTWISE, math.prod(X), 2 * inner, size)
        said = sorted(node.operation for node in stage.nodes)
        assert said == ["BINARY add", "CONV", "CONV", "UNARY sigmoid"]
    assert stage.macs == 2 * macs


def test_one_channel_is_not_depthwise(toolkit: Toolkit, tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    stage = reported(tmp_path, toolkit, [node], {"x": (1, 1, 5, 5)}, {"w": (3, 1, 1, 1)}, ["y"])
    assert one(stage) == Demand(Kind.PRODUCT, 75, F * 28, F * 75)


def test_other_shapes_cost_nothing(toolkit: Toolkit, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["t"], name="r"),
        helper.make_node("Flatten", ["t"], ["y"], name="f"),
    ]
    stage = reported(tmp_path, toolkit, nodes, {"x": X}, {}, ["y"])
    size = F * math.prod(X)
    assert dict(stage.demands) == {
        "r": Demand(Kind.ELEMENTWISE, math.prod(X), size, 0),
        "f": Demand(Kind.COPY, 0, 0, size),
    }


def test_parts_on_the_host_have_no_demand_and_their_tensors_cross(toolkit: Toolkit, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["t"], name="before"),
        helper.make_node("Det", ["t"], ["u"], name="host"),
        helper.make_node("Relu", ["u"], ["y"], name="after"),
    ]
    stage = reported(tmp_path, toolkit, nodes, {"x": (2, 6, 5, 5)}, {}, ["y"])
    assert dict(stage.demands) == {
        "before": Demand(Kind.ELEMENTWISE, 300, F * 300, F * 300),
        "after": Demand(Kind.ELEMENTWISE, 12, F * 12, F * 12),
    }
    assert stage.efficiency is not None
    assert stage.efficiency == pytest.approx(stage.roofline / total(stage.recorded).cycles)
