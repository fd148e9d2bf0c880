"""TPU_UNFOLD: rows and planes of windows as channels, bit for bit; and convolutions that are made with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from firmware_sim.errors import CompileError
from tests.support.examples import examples
from tests.support.layer_checks import Array, check, refused, same, sample
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.compiler import attributes
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

ONE = {"kernel_d": 1, "stride_d": 1, "dilation_d": 1, "kernel_h": 1, "stride_h": 1, "dilation_h": 1}


@st.composite
def axes(draw: st.DrawFn, which: str, ends: tuple[str, str]) -> dict[str, int]:
    """Any window, also with pads that whole windows lie in."""
    kernel, stride = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    pads = [draw(st.integers(0, 5)) for _ in ends]
    made = {
        f"kernel_{which}": kernel,
        f"stride_{which}": stride,
        f"dilation_{which}": draw(st.integers(1, 3)),
    }
    return made | dict(zip((f"pad_{end}" for end in ends), pads, strict=True))


def unfolded(x: Array, p: dict[str, int]) -> Array:
    """What the layer makes, window by window."""
    volumes = x.reshape(-1, p["planes"], *x.shape[1:])
    ends = ((0, 0), (p["pad_front"], p["pad_back"]), (0, 0), (p["pad_top"], p["pad_bottom"]), (0, 0))
    padded = np.pad(volumes, ends)
    taken = []
    for z in range(p["kernel_d"]):
        for y in range(p["kernel_h"]):
            part = padded[:, z * p["dilation_d"] :, :, y * p["dilation_h"] :]
            taken.append(part[:, :: p["stride_d"], :, :: p["stride_h"]])
    depth = (padded.shape[1] - (p["kernel_d"] - 1) * p["dilation_d"] - 1) // p["stride_d"] + 1
    height = (padded.shape[3] - (p["kernel_h"] - 1) * p["dilation_h"] - 1) // p["stride_h"] + 1
    joined = np.concatenate([part[:, :depth, :, :height] for part in taken], axis=2)
    return joined.reshape(-1, *joined.shape[2:])


def fits(p: dict[str, int], rows: int) -> bool:
    planes = p["planes"] + p["pad_front"] + p["pad_back"]
    return (
        planes > (p["kernel_d"] - 1) * p["dilation_d"]
        and rows + p["pad_top"] + p["pad_bottom"] > (p["kernel_h"] - 1) * p["dilation_h"]
    )


@examples(30)
@given(
    axes("d", ("front", "back")),
    axes("h", ("top", "bottom")),
    st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9)),
)
def test_unfold(
    toolkit: Toolkit, d: dict[str, int], h: dict[str, int], extents: tuple[int, int, int, int, int]
) -> None:
    batches, planes, c, rows, columns = extents
    p = {"planes": planes, **d, **h}
    assume(fits(p, rows))
    x = sample((batches * planes, c, rows, columns))
    check(toolkit, "TPU_UNFOLD", p, x, unfolded(x, p))


@examples(20)
@given(
    axes("d", ("front", "back")),
    axes("h", ("top", "bottom")),
    st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 40)),
    st.tuples(st.integers(8, 60), st.integers(300, 2000)),
)
def test_unfold_in_groups_of_many_tiles(
    toolkit: Toolkit,
    d: dict[str, int],
    h: dict[str, int],
    extents: tuple[int, int, int],
    plane: tuple[int, int],
) -> None:
    p = {"planes": extents[1], **d, **h}
    assume(fits(p, plane[0]))
    shape = (extents[0] * extents[1], extents[2], *plane)
    numbers = (sample(shape, "int32") % 1000).astype(np.float32)
    want = unfolded(numbers, p)
    assume(want.size < 6e6)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", numbers.shape)
    graph.add_tpu_layer("TPU_UNFOLD", ["x"], p, ["u"])
    graph.add_tpu_layer("TPU_CONST_BINARY", ["u"], {"binary_op": 0, "value": 1.0}, ["y"], name="it")
    lines: list[str] = []
    graph.compile(log=lines.append, opt=1)
    assert "local" in next(line for line in lines if line.startswith("UNFOLD"))
    same(graph.run({"x": numbers})[0], want + np.float32(1))


def test_unfold_that_is_impossible(toolkit: Toolkit) -> None:
    x = sample((4, 8, 6, 6))
    for wrong in (
        {"planes": 0},
        {"planes": 3},
        {"planes": 1, "kernel_d": 2},
        {"planes": 4, "kernel_h": 7},
        {"planes": 1, "kernel_h": 600, "pad_top": 600},
        {"planes": 1, "stride_h": 0},
    ):
        refused(toolkit, "TPU_UNFOLD", ONE | wrong, x)
    refused(toolkit, "TPU_UNFOLD", ONE | {"planes": 1}, sample((4, 8, 6)))
    refused(toolkit, "TPU_UNFOLD", ONE | {"planes": 1}, sample((4, 8, 6, 6), "int16"))


def test_a_layer_that_computes_cannot_be_a_load(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "_GATHERS", frozenset(("TPU_PAD",)))
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 3, 8, 8))
    param = {"mode": 0, "before": [0, 0, 1, 0], "after": [0] * 4, "value": 0.0, "bits": 0}
    graph.add_tpu_layer("TPU_PAD", ["x"], param, ["a"], name="it")
    graph.add_tpu_layer("TPU_UNARY", ["a"], {"unary_op": 0}, ["y"])
    with pytest.raises(CompileError, match=r"it \(TPU_PAD\) computes, though it gets its inputs in DDR"):
        graph.compile(opt=1)


def test_a_load_reads_what_is_there(toolkit: Toolkit) -> None:
    """A layer that makes the input comes before, in a group of its own."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 3, 20, 30))
    graph.add_tpu_layer("TPU_UNARY", ["x"], {"unary_op": 0}, ["a"])
    p = {**ONE, "planes": 1, "kernel_h": 3, "pad_front": 0, "pad_back": 0, "pad_top": 1, "pad_bottom": 1}
    graph.add_tpu_layer("TPU_UNFOLD", ["a"], p, ["u"])
    graph.add_tpu_layer("TPU_UNARY", ["u"], {"unary_op": 0}, ["y"])
    lines: list[str] = []
    graph.compile(opt=1, log=lines.append)
    assert [line.partition("group ")[2][:1] for line in lines if "local" in line] == ["0", "1", "1"]
    x = np.random.default_rng(0).standard_normal((1, 3, 20, 30)).astype(np.float32)
    same(graph.run({"x": x})[0], unfolded(np.maximum(x, 0), p))


# ---- convolutions of few channels ----


def convolution(shape: tuple[int, ...], outs: int, kernel: tuple[int, ...], **attributes: Any) -> Any:
    rng = np.random.default_rng(len(kernel))
    ins = shape[1] // attributes.get("group", 1)
    constants = {
        "w": rng.standard_normal((outs, ins, *kernel)).astype(np.float32),
        "b": rng.standard_normal(outs).astype(np.float32),
    }
    node = helper.make_node("Conv", ["x", *constants], ["y"], **attributes)
    return make_model([node], {"x": shape}, ["y"], constants)


@pytest.mark.parametrize(
    ("shape", "outs", "kernel", "attributes", "unfolds"),
    [
        ((1, 3, 64, 96), 40, (7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}, True),
        ((2, 3, 64, 64), 70, (16, 16), {"strides": [16, 16]}, True),
        ((1, 1, 40, 50), 8, (3, 3), {"dilations": [2, 3], "pads": [2, 3, 1, 0]}, True),
        ((1, 4, 30, 30), 300, (5, 1), {"strides": [3, 1], "pads": [4, 0, 4, 0]}, True),
        ((1, 64, 30, 30), 8, (3, 3), {"pads": [1, 1, 1, 1]}, False),  # nothing to gain
        ((1, 3, 30, 30), 8, (1, 3), {}, False),  # one row
        ((1, 4, 30, 30), 4, (3, 3), {"group": 4}, False),  # depthwise
    ],
)
@pytest.mark.parametrize("opt", [0, 2])
def test_convolutions_of_few_channels(
    toolkit: Toolkit,
    shape: tuple[int, ...],
    outs: int,
    kernel: tuple[int, ...],
    attributes: dict[str, Any],
    unfolds: bool,
    opt: int,
) -> None:
    model = convolution(shape, outs, kernel, **attributes)
    graph = Graph.from_onnx(model, toolkit=toolkit)
    assert ("TPU_UNFOLD" in [node.op.op for node in graph.nodes]) == unfolds
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    graph.compile(opt=opt)
    (y,) = graph.run({"x": x})
    (difference,) = compare(["y"], [y], reference(load_model(model), {"x": x}))
    assert difference.relative <= TOLERANCE


# ---- volumes ----


@st.composite
def volume_nets(draw: st.DrawFn) -> Any:
    """Convolutions of volumes and what reads them as planes and as volumes: [N, C, D, H, W]."""
    extents = [draw(st.integers(1, 7)) for _ in range(3)]
    groups = draw(st.sampled_from([1, 1, 2]))
    shape = (draw(st.integers(1, 2)), groups * draw(st.integers(1, 4)), *extents)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    window = [(draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))) for _ in extents]
    pads = [draw(st.integers(0, 2)) for _ in range(6)]
    for i, (kernel, _, dilation) in enumerate(window):
        assume(extents[i] + pads[i] + pads[i + 3] > (kernel - 1) * dilation)
    kernels, strides, dilations = (list(part) for part in zip(*window, strict=True))
    outs = groups * draw(st.integers(1, 3))
    weights = rng.standard_normal((outs, shape[1] // groups, *kernels)).astype(np.float32)
    after = rng.standard_normal((3, outs, *[draw(st.sampled_from([1, 3])) for _ in range(3)]))
    constants = {
        "w": weights,
        "b": rng.standard_normal(outs).astype(np.float32),
        "v": after.astype(np.float32),
        "same": np.array([0, 0, 0, 0, -1]),
        "s": rng.standard_normal((1, outs, 1, 1, 1)).astype(np.float32),
    }
    conv = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    same_size = {"pads": [extent // 2 for extent in after.shape[2:]] * 2}
    pool = {"kernel_shape": [1, 2, 2], "pads": [0, 1, 1, 0, 0, 0]}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], **conv),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Add", ["r", "c"], ["a"]),
        helper.make_node("Mul", ["a", "s"], ["m"]),
        helper.make_node("MaxPool", ["m"], ["p"], **pool),
        helper.make_node("Reshape", ["a", "same"], ["e"]),
        helper.make_node("Concat", ["a", "e", "r"], ["k"], axis=1),
        helper.make_node("ReduceMean", ["k"], ["l"], axes=[1]),
        helper.make_node("Sub", ["a", "l"], ["u"]),
        helper.make_node("Conv", ["u", "v"], ["y"], **same_size),
        helper.make_node("Transpose", ["a"], ["z"], perm=[4, 3, 2, 1, 0]),
    ]
    return make_model(nodes, {"x": shape}, ["c", "p", "y", "z"], constants), shape


@examples(12)
@given(volume_nets(), st.sampled_from([(0, False), (1, False), (2, False), (0, True)]))
def test_volumes(toolkit: Toolkit, net: Any, how: tuple[int, bool]) -> None:
    model, shape = net
    x = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    graph = Graph.from_onnx(model, toolkit=toolkit)
    assert all(node.cpu is None for node in graph.nodes)
    graph.compile(opt=how[0], dynamic=how[1])
    for difference in compare(["c", "p", "y", "z"], graph.run(x), reference(load_model(model), x)):
        assert difference.relative <= TOLERANCE


def test_volumes_stay_planes(toolkit: Toolkit) -> None:
    """Nothing is transposed between the first convolution and the last."""
    rng = np.random.default_rng(0)
    constants = {
        "v": rng.standard_normal((8, 2, 3, 3, 3)).astype(np.float32),
        "w": rng.standard_normal((2, 8, 3, 3, 3)).astype(np.float32),
    }
    ones = {"pads": [1] * 6}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], **ones),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"], **ones),
        helper.make_node("Add", ["c", "x"], ["y"]),
    ]
    graph = Graph.from_onnx(make_model(nodes, {"x": (1, 2, 6, 16, 16)}, ["y"], constants), toolkit=toolkit)
    made = [node.op.short for node in graph.resolve().nodes]
    assert made == [
        *("TRANSPOSE", "RESHAPE", "UNFOLD", "CONV", "UNARY", "UNFOLD", "CONV", "BINARY"),
        *("RESHAPE", "TRANSPOSE"),
    ]
