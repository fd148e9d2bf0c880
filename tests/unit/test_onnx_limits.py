"""Limits of reading ONNX models, each one below, at and one beyond."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import helper

from firmware_sim.errors import CompileError, ModelError, UsageError
from tests.support.onnx_models import make_model
from user_layers.graph.shapes import infer_shapes
from user_layers.onnx import fold, load
from user_layers.onnx.build import Built, build
from user_layers.onnx.check import TOLERANCE
from user_layers.onnx.convert_window import window_of
from user_layers.onnx.lower import OLDEST_OPSET, Unsupported
from user_layers.onnx.model import Node, Value
from user_layers.onnx.partition import Part, partition
from user_layers.onnx.resize import Resize, upsampling
from user_layers.onnx.trial import compared
from user_layers.onnx.types import obstacle, to_net
from user_layers.onnx.unfold import Axis
from user_layers.onnx.window_axes import axes_of
from user_layers.toolkit import Toolkit

I64 = np.int64


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def built(
    toolkit: Toolkit,
    made: Any,
    inputs: dict[str, tuple[int, ...]],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    cpu: bool = True,
) -> Built:
    """The graph of one node; outputs that are called `i` have indices."""
    proto = make_model([made], inputs, made.output, constants, opset)
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = 7 if value.name == "i" else 1
    if opset < 7:  # inference knows less there
        proto.graph.output[0].type.CopyFrom(proto.graph.input[0].type)
    return build(load.from_proto(proto), "net", toolkit=toolkit, cpu=cpu)


def layers(found: Built) -> list[str]:
    return [layer.op.op for layer in found.graph.nodes]


def refusal(found: Built) -> str:
    """Why its only node is on the CPU; "" where it is not."""
    return found.on_cpu[0].partition(": ")[2] if found.on_cpu else ""


# ---- windows ----


def axis(extent: int, kernel: int, **attributes: Any) -> Axis:
    (found,) = axes_of(Node("MaxPool", "", "", ("x",), ("y",), attributes), (extent,), (kernel,))
    return found


@pytest.mark.parametrize(
    ("extent", "kernel", "stride", "pads", "extra"),
    [
        # the last window would begin at 4: inside the data, just behind it, and one farther
        (5, 1, 2, (0, 0), 0),
        (4, 1, 2, (0, 0), 0),
        (4, 2, 2, (0, 1), 0),
        (4, 2, 2, (0, 2), 0),
        (5, 2, 2, (0, 0), 1),
        (5, 2, 4, (0, 1), 0),
        (4, 2, 4, (0, 1), 0),  # behind the data: it is not made, though the padding goes on
        (4, 3, 4, (0, 2), 0),
        (5, 3, 4, (0, 2), 0),
        (5, 3, 4, (0, 1), 1),
        # with padding before
        (4, 1, 2, (1, 0), 0),
        (3, 1, 2, (1, 0), 0),
        (3, 2, 4, (1, 1), 0),
        (4, 2, 4, (1, 0), 1),
        # exactly full, one too many, one too few
        (8, 2, 2, (0, 0), 0),
        (9, 2, 2, (0, 0), 1),
        (7, 2, 2, (0, 0), 1),
        (7, 3, 3, (0, 0), 2),
    ],
)
def test_the_last_window_of_ceil_mode(
    extent: int, kernel: int, stride: int, pads: tuple[int, int], extra: int
) -> None:
    """It is made if it begins in the data or in the padding before; `extra` is what it lacks at the end."""
    found = axis(extent, kernel, strides=[stride], pads=list(pads), ceil_mode=1)
    assert (found.before, found.after, found.extra) == (*pads, extra)
    assert axis(extent, kernel, strides=[stride], pads=list(pads)).extra == 0


def test_every_small_window_of_ceil_mode() -> None:
    """Against the windows counted one by one: one more while that before does not reach the end."""
    for extent, kernel, stride, before, after in itertools.product(
        range(1, 8), range(1, 4), range(1, 6), range(3), range(3)
    ):
        end = extent + before + after
        if kernel > end:
            continue
        count = 1
        while (count - 1) * stride + kernel < end and count * stride < extent + before:
            count += 1
        found = axis(extent, kernel, strides=[stride], pads=[before, after], ceil_mode=1)
        assert found.extra == max(0, (count - 1) * stride + kernel - end)


@pytest.mark.parametrize(
    ("extent", "kernel", "stride", "total"),
    [(6, 3, 3, 0), (5, 3, 3, 1), (4, 3, 3, 2), (7, 3, 3, 2), (4, 1, 3, 0), (4, 1, 5, 0), (8, 4, 1, 3)],
)
def test_pads_that_keep_the_extent(extent: int, kernel: int, stride: int, total: int) -> None:
    """An odd number more behind (UPPER) or before (LOWER); never below 0."""
    upper = axis(extent, kernel, strides=[stride], auto_pad="SAME_UPPER")
    lower = axis(extent, kernel, strides=[stride], auto_pad="SAME_LOWER")
    assert (upper.before, upper.after) == (total // 2, total - total // 2)
    assert (lower.before, lower.after) == (upper.after, upper.before)


@pytest.mark.parametrize(("rank", "fits"), [(0, False), (1, True), (2, True), (3, False)])
def test_dimensions_of_a_window(rank: int, fits: bool) -> None:
    plain = Node("MaxPool", "", "", ("x",), ("y",), {})
    if fits:
        assert window_of(plain, (5,) * rank, (2,) * rank).kernel == ((1,) * (2 - rank) + (2,) * rank)
    else:
        with pytest.raises(Unsupported, match=f"{rank} spatial dimensions; layers have one or two"):
            window_of(plain, (5,) * rank, (2,) * rank)


@pytest.mark.parametrize(
    ("op", "largest"), [("Conv", 5), ("MaxPool", 5), ("GlobalMaxPool", 5), ("ConvTranspose", 5)]
)
def test_dimensions_of_what_windows_go_over(op: str, largest: int, toolkit: Toolkit) -> None:
    for rank in range(3, largest + 2):
        constants: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        if op in ("Conv", "ConvTranspose"):
            constants["w"] = np.ones((2, 2, *[2] * (rank - 2)), np.float32)
        if op == "MaxPool":
            attributes["kernel_shape"] = [2] * (rank - 2)
        made = node(op, " ".join(("x", *constants)), **attributes)
        reason = refusal(built(toolkit, made, {"x": (1, 2, *[3] * (rank - 2))}, constants))
        assert ("spatial dimensions" in reason) == (rank > largest), (rank, reason)


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({"dilations": [4]}, True),  # reaches over 9 elements
        ({"dilations": [5]}, False),
        ({"dilations": [5], "pads": [1, 1]}, True),
        ({"dilations": [6], "pads": [2, 1]}, False),
        ({"kernel_shape": [9]}, True),
        ({"kernel_shape": [10]}, False),
        ({"kernel_shape": [10], "pads": [0, 1]}, True),
        ({"strides": [100]}, True),
    ],
)
def test_windows_of_just_the_size(change: dict[str, list[int]], fits: bool, toolkit: Toolkit) -> None:
    """Over 9 elements; what reaches farther has no output: inference or the layer refuses it."""
    attributes: dict[str, Any] = {"kernel_shape": [3], "count_include_pad": 1, **change}
    made = node("AveragePool", "x", **attributes)
    if fits:
        assert layers(built(toolkit, made, {"x": (1, 2, 9)}, opset=19)) == ["TPU_POOL"]
    else:
        with pytest.raises((ModelError, CompileError)):
            built(toolkit, made, {"x": (1, 2, 9)}, opset=19)


@pytest.mark.parametrize(("groups", "fits"), [(1, True), (5, False), (6, True), (7, False)])
def test_groups_of_a_convolution(groups: int, fits: bool, toolkit: Toolkit) -> None:
    """Of 6 channels: as many groups as there are, and no more; what does not divide them is refused."""
    weights = np.ones((groups * 2, max(1, 6 // groups), 1, 1), np.float32)
    found = built(toolkit, node("Conv", "x w", group=groups), {"x": (1, 6, 3, 3)}, {"w": weights})
    assert (refusal(found) == "") == fits
    assert fits or f"in {groups} groups for 6 input channels" in refusal(found)


# ---- what the device holds ----


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((), None),
        ((1,) * 8, None),
        ((1,) * 9, "has 9 dimensions; tensors of the device have 8"),
        ((2**31 - 1,), None),
        ((2, 2**30 - 1), None),
        ((2, 2**30), "has 2147483648 elements; tensors of the device have at most 2147483647"),
        ((3, 0), "has no elements"),
        ((3, -1), "has the shape [3, -1], which no tensor has"),
    ],
)
def test_shapes_that_the_device_holds(shape: tuple[int, ...], why: str | None) -> None:
    assert obstacle(Value("v", shape, np.dtype(np.float32))) == why


@pytest.mark.parametrize(("value", "fits"), [(2**31 - 2, True), (2**31 - 1, True), (2**31, False)])
@pytest.mark.parametrize("negative", [False, True])
def test_whole_numbers_of_32_bits(value: int, fits: bool, negative: bool) -> None:
    number = -value - 1 if negative else value
    array = np.array([0, number], I64)
    if fits:
        assert to_net(array, Value("v", (2,), array.dtype)).tolist() == [0, number]
    else:
        with pytest.raises(UsageError, match="'v' has values beyond 32 bits"):
            to_net(array, Value("v", (2,), array.dtype))


# ---- counts ----


@pytest.mark.parametrize(("count", "fits"), [(15, True), (16, True), (17, False)])
def test_outputs_of_a_split(count: int, fits: bool, toolkit: Toolkit) -> None:
    made = node("Split", "x", " ".join(f"y{i}" for i in range(count)), axis=0)
    if fits:
        assert layers(built(toolkit, made, {"x": (count * 2, 3)}, opset=13)) == ["TPU_SPLIT"]
    else:  # nor has a part of a net on the CPU
        with pytest.raises(CompileError, match="17 outputs; a part of a net has at most 16"):
            built(toolkit, made, {"x": (count * 2, 3)}, opset=13)


@pytest.mark.parametrize(
    ("count", "concats"), [(1, 0), (2, 1), (15, 1), (16, 1), (17, 2), (18, 3), (32, 3), (33, 3), (34, 4)]
)
def test_inputs_of_a_concatenation(count: int, concats: int, toolkit: Toolkit) -> None:
    """In steps of 16; one that is left over needs no layer before the last. A net has 16 inputs: the same
    one stands in several places."""
    found = built(toolkit, node("Concat", " ".join(["x"] * count), axis=0), {"x": (2, 3)})
    assert layers(found) == ["TPU_CONCAT"] * concats + ["TPU_COPY"] * (not concats)


@pytest.mark.parametrize(("times", "fits"), [(1, True), (63, True), (64, True), (65, False)])
def test_how_often_pixels_repeat(times: int, fits: bool) -> None:
    plan = Resize(2, 2 * times, nearest="floor", coordinates="asymmetric")
    assert upsampling({2: plan}, 4) == ({"scale_h": times, "scale_w": 1} if fits else None)
    assert upsampling({1: plan}, 4) is None and upsampling({2: plan}, 5) is None
    assert upsampling({2: plan, 3: plan}, 3) is None


@pytest.mark.parametrize(("end", "needed"), [(0.99, False), (1.0, False), (1.01, True)])
def test_a_crop_that_reaches_beyond_the_input(end: float, needed: bool) -> None:
    """The last position is at (extent - 1) * end; beyond the last element a value of the user's is wanted."""
    for start, stop in ((0.0, end), (1 - end, 1.0)):
        plan = Resize(
            5, 4, mode="linear", coordinates="tf_crop_and_resize", roi=(start, stop), extrapolation=2
        )
        if needed:
            with pytest.raises(UsageError, match=r"extrapolation_value 2 is needed"):
                plan.taps()
        else:
            plan.taps()


@pytest.mark.parametrize(("most", "parts"), [(1, 3), (2, 2), (3, 1), (4, 1)])
def test_tensors_of_a_part_on_the_cpu(most: int, parts: int) -> None:
    """Three nodes, each with an input and an output of its own."""
    made = [node("Acos", f"x{i}", f"y{i}") for i in range(3)]
    proto = make_model(made, {f"x{i}": (2,) for i in range(3)}, [f"y{i}" for i in range(3)])
    model = load.from_proto(proto)
    found = partition(model, dict.fromkeys(range(3), Part), lambda name: None, most)  # type: ignore[arg-type]
    assert len(found) == parts


# ---- axes ----

ALONG: dict[str, tuple[str, dict[str, Any]]] = {
    "Softmax": ("y", {}),
    "ArgMax": ("i", {}),
    "Gather": ("y", {"k": np.array([0], I64)}),
    "Concat": ("y", {}),
    "Split": ("y z", {}),
    "Hardmax": ("y", {}),
    "LpNormalization": ("y", {}),
    "LayerNormalization": ("y", {"k": np.ones(1, np.float32)}),
    "TopK": ("y i", {"k": np.array([1], I64)}),
}


@pytest.mark.parametrize("op", ALONG)
@pytest.mark.parametrize(
    ("axis_", "fits"), [(-4, False), (-3, True), (-1, True), (0, True), (2, True), (3, False)]
)
def test_axes_of_three_dimensions(op: str, axis_: int, fits: bool, toolkit: Toolkit) -> None:
    """What inference does not notice, the converter or the layer refuses."""
    outputs, constants = ALONG[op]
    if op == "LayerNormalization":
        constants = {"k": np.ones((2,) * (3 - axis_ % 3), np.float32)}
    made = node(op, " ".join(("x", *constants)), outputs, axis=axis_)
    if fits:
        assert not built(toolkit, made, {"x": (2, 2, 2)}, constants).on_cpu
        return
    try:
        found = built(toolkit, made, {"x": (2, 2, 2)}, constants)
    except (ModelError, CompileError):
        return
    assert refusal(found) == f"the axis {axis_} of 3 dimensions"


@pytest.mark.parametrize(
    ("axis_", "shape"),
    [(-3, (1, 24)), (-1, (6, 4)), (0, (1, 24)), (1, (2, 12)), (2, (6, 4)), (3, (24, 1))],
)
def test_flattening_up_to_the_rank(axis_: int, shape: tuple[int, ...], toolkit: Toolkit) -> None:
    found = built(toolkit, node("Flatten", "x", axis=axis_), {"x": (2, 3, 4)})
    assert infer_shapes(found.graph).tensors["y"].shape == shape
    for beyond in (-4, 4):
        with pytest.raises(ModelError):
            built(toolkit, node("Flatten", "x", axis=beyond), {"x": (2, 3, 4)})


# ---- what is for training, and older opsets ----


@pytest.mark.parametrize(
    ("ratio", "training", "why"),
    [
        (0.5, True, "training"),
        (0.01, True, "training"),
        (0.0, True, ""),
        (None, True, "training"),  # the default is 0.5
        (0.5, False, ""),
        (None, False, ""),
    ],
)
def test_dropout(ratio: float | None, training: bool, why: str, toolkit: Toolkit) -> None:
    constants: dict[str, Any] = {"t": np.array(training)}
    if ratio is not None:
        constants["r"] = np.float32(ratio)
    made = helper.make_node("Dropout", ["x", "r" if ratio is not None else "", "t"], ["y"])
    found = built(toolkit, made, {"x": (2, 3)}, constants)
    assert refusal(found) == why
    if not why:
        assert layers(found) == ["TPU_COPY"]


@pytest.mark.parametrize(
    ("op", "attributes", "opset", "why"),
    [
        ("Hardmax", {"axis": 0}, 12, "several axes as one"),
        ("Hardmax", {"axis": 0}, 13, ""),
        ("Hardmax", {"axis": 1}, 12, ""),
        ("Relu", {}, OLDEST_OPSET - 1, f"as opset {OLDEST_OPSET - 1} has it"),
        ("Relu", {}, OLDEST_OPSET, ""),
        ("Relu", {}, OLDEST_OPSET + 1, ""),
        ("LpNormalization", {"p": 1}, 17, ""),
        ("LpNormalization", {"p": 2}, 17, ""),
    ],
)
def test_what_an_operation_was(
    op: str, attributes: dict[str, Any], opset: int, why: str, toolkit: Toolkit
) -> None:
    made = node(op, "x", **attributes)
    if why:
        with pytest.raises(CompileError, match=why):
            built(toolkit, made, {"x": (2, 3)}, opset=opset, cpu=False)
    else:
        assert built(toolkit, made, {"x": (2, 3)}, opset=opset, cpu=False).graph.nodes


def test_a_norm_of_another_power(toolkit: Toolkit) -> None:
    """Neither has onnxruntime more than the two above."""
    with pytest.raises(CompileError, match="p = 3"):
        built(toolkit, node("LpNormalization", "x", p=3), {"x": (2, 3)}, cpu=False)


@pytest.mark.parametrize(("alpha", "why"), [(0.0, "alpha is 0"), (1e-30, ""), (-1.0, "")])
def test_a_product_times_nothing(alpha: float, why: str, toolkit: Toolkit) -> None:
    found = built(
        toolkit, node("Gemm", "x w", alpha=alpha), {"x": (2, 3)}, {"w": np.ones((3, 4), np.float32)}
    )
    assert refusal(found) == why


# ---- constants ----


@pytest.mark.parametrize(("size", "folds"), [(9, True), (10, True), (11, False)])
def test_how_large_a_folded_constant_is(size: int, folds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "_LARGEST", 80)
    made = [node("Neg", "k", "n"), node("Add", "x n")]
    proto = make_model(made, {"x": (size,)}, ["y"], {"k": np.ones(size, np.float32)})
    found = fold.fold_constants(load.from_proto(proto))
    assert ("n" in found.constants) == folds and len(found.nodes) == 2 - folds


@pytest.mark.parametrize(("size", "read"), [(1, True), (2, True), (3, False)])
def test_how_large_a_constant_inference_reads(size: int, read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_SMALL", 2)
    shape = np.array([6, *[1] * (size - 1)], I64)
    proto = make_model([node("Reshape", "x s")], {"x": (2, 3)}, ["y"], {"s": shape})
    assert (load.from_proto(proto).value("y").fixed is not None) == read


# ---- the comparison ----


@pytest.mark.parametrize(("apart", "differs"), [(0.99, False), (1.0, False), (1.01, True)])
def test_how_far_an_output_may_be_off(
    apart: float, differs: bool, monkeypatch: pytest.MonkeyPatch, toolkit: Toolkit
) -> None:
    """By 1e-4 of its largest value."""
    proto = make_model([node("Relu", "x")], {"x": (2,)}, ["y"])
    built = build(load.from_proto(proto), "net", toolkit=toolkit)
    want = np.array([1 / TOLERANCE, 0], np.float64)
    monkeypatch.setattr("user_layers.onnx.trial.reference", lambda *_, **__: [want])
    model = load.from_proto(proto)
    got = want + np.array([0, apart])
    monkeypatch.setattr("user_layers.onnx.trial.from_net", lambda array, value: array)
    lines, different = compared(model, built, (), model, {}, [got], None, ())
    assert len(lines) == 1 and bool(different) == differs
