"""TPU_RESIZE against numpy, and the importer's indices and weights against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError, UsageError
from tests.support.examples import examples
from tests.support.layer_checks import Array
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.onnx.resize import Resize, windows
from user_layers.toolkit import Toolkit

FEW = examples(20)


def resized(
    toolkit: Toolkit,
    x: Array,
    axis: int,
    indices: Array,
    weights: Array,
    *,
    compiled: tuple[int, ...] | None = None,
    dynamic: bool = False,
) -> Array:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", compiled or x.shape)
    graph.add_const("indices", indices)
    graph.add_const("weights", weights)
    graph.add_tpu_layer("TPU_RESIZE", ["x", "indices", "weights"], {"axis": axis}, ["y"])
    graph.compile(dynamic=dynamic)
    return graph.run({"x": x})[0]


def expected(x: Array, axis: int, indices: Array, weights: Array) -> Array:
    shape = [1] * x.ndim
    shape[axis] = -1
    y = np.take(x, indices[0], axis) * weights[0].reshape(shape)
    for index, weight in zip(indices[1:], weights[1:], strict=True):
        y = y + np.take(x, index, axis) * weight.reshape(shape)
    return np.asarray(y)


def normal(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@FEW
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 7, 20, 65, 130]), min_size=1, max_size=5),
    length=st.integers(1, 50),
    taps=st.integers(1, 4),
    regular=st.booleans(),
    data=st.data(),
)
def test_any_axis(
    toolkit: Toolkit, shape: list[int], length: int, taps: int, regular: bool, data: st.DataObject
) -> None:
    while np.prod(shape) > 60_000:
        shape = shape[1:]
    x, axis = normal(tuple(shape)), data.draw(st.integers(0, len(shape) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    indices = rng.integers(0, shape[axis], (taps, length), np.int32)
    if regular:
        steps = np.arange(length) // 2 + np.arange(taps)[:, None]
        indices = np.minimum(steps, shape[axis] - 1).astype(np.int32)
    weights = rng.standard_normal((taps, length)).astype(np.float32)
    want = expected(x, axis, indices, weights)
    for dynamic in (False, True):
        y = resized(
            toolkit, x, axis - data.draw(st.sampled_from([0, x.ndim])), indices, weights, dynamic=dynamic
        )
        assert np.array_equal(y, want)


@pytest.mark.parametrize(
    ("shape", "axis", "length"),
    [
        ((3, 50_000), 1, 100_000),  # longer than a tile
        pytest.param((3, 70_000), 1, 100_000, marks=pytest.mark.slow),  # and each step is another one
        ((2, 3, 500, 600), 2, 700),  # columns cut
        ((1, 9, 40_000), 1, 30),  # columns wider than one command's share
        ((4000, 90), 1, 200),  # many rows in a lane
        ((40_000, 2, 3), 1, 4),
    ],
)
def test_large(toolkit: Toolkit, shape: tuple[int, ...], axis: int, length: int) -> None:
    x = normal(shape)
    indices, weights = Resize(shape[axis], length, mode="linear").taps()
    assert np.array_equal(resized(toolkit, x, axis, indices, weights), expected(x, axis, indices, weights))


def test_smaller_input(toolkit: Toolkit) -> None:
    x = normal((2, 5, 8, 3))
    indices, weights = Resize(8, 16, mode="linear").taps()
    y = resized(toolkit, x, 2, indices, weights, compiled=(4, 70, 8, 9), dynamic=True)
    assert np.array_equal(y, expected(x, 2, indices, weights))


# ---- in local memory ----


def between(
    toolkit: Toolkit, x: Array, axis: int, plan: Resize, *, opt: int, dynamic: bool, less: int = 0
) -> str:
    """2 x, resized, and 1 more, compiled for `less` elements more along what is not resized; the log, too."""
    indices, weights = plan.taps()
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", tuple(n + (less if d > 1 and d != axis else 0) for d, n in enumerate(x.shape)))
    graph.add_const("indices", indices)
    graph.add_const("weights", weights)
    twice = graph.add_const_binary_layer("x", 2.0, "twice", BINARY_MUL)
    param = {"axis": axis, **windows(indices, x.shape[axis])}
    graph.add_tpu_layer("TPU_RESIZE", [twice, "indices", "weights"], param, ["y"])
    graph.add_const_binary_layer("y", 1.0, "last", BINARY_ADD)
    lines: list[str] = []
    graph.compile(opt=opt, dynamic=dynamic, log=lines.append)
    want = expected(2 * x, axis, indices, weights) + np.float32(1)
    (y,) = graph.run({"x": x})
    assert np.array_equal(y, want)
    return "\n".join(lines)


@examples(25)
@given(
    shape=st.tuples(
        st.integers(1, 3), st.sampled_from([1, 3, 64, 70, 130]), st.integers(1, 30), st.integers(1, 30)
    ),
    length=st.integers(1, 70),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
    coordinates=st.sampled_from(["half_pixel", "align_corners", "asymmetric"]),
    antialias=st.booleans(),
    dynamic=st.booleans(),
    data=st.data(),
)
def test_in_groups(
    toolkit: Toolkit,
    shape: tuple[int, ...],
    length: int,
    mode: str,
    coordinates: str,
    antialias: bool,
    dynamic: bool,
    data: st.DataObject,
) -> None:
    """Along any axis of pictures, and of rows; every way to say where the elements lie."""
    shape = data.draw(st.sampled_from([shape, shape[:3]]))
    axis = data.draw(st.integers(2, len(shape) - 1))
    plan = Resize(
        shape[axis], length, mode=mode, coordinates=coordinates, antialias=antialias and mode != "nearest"
    )
    assume(plan.taps()[0].shape[0] <= 64)
    less = data.draw(st.integers(0, 3)) if dynamic else 0
    log = between(toolkit, normal(shape), axis, plan, opt=1, dynamic=dynamic, less=less)
    assert any("RESIZE" in line and "local" in line for line in log.splitlines())


@pytest.mark.parametrize(
    ("shape", "axis", "length", "mode", "cut"),
    [
        ((1, 64, 150, 141), 2, 300, "linear", "over h"),
        ((1, 64, 300, 131), 2, 333, "cubic", "over h"),
        ((2, 64, 130, 131), 2, 70, "linear", "over n"),
        ((1, 64, 130, 131), 3, 333, "cubic", "over h"),
        ((1, 64, 3, 9000), 3, 18_500, "linear", "over w"),
        ((1, 64, 1, 60_000), 3, 30_100, "linear", "over w"),
    ],
)
def test_tiles(toolkit: Toolkit, shape: tuple[int, ...], axis: int, length: int, mode: str, cut: str) -> None:
    plan = Resize(shape[axis], length, mode=mode)
    assert cut in between(toolkit, normal(shape), axis, plan, opt=2, dynamic=False)
    between(toolkit, normal(shape), axis, plan, opt=2, dynamic=True, less=1)


def test_what_windows_may_say(toolkit: Toolkit) -> None:
    """Every index lies in its window, and no less will do."""
    x, (indices, weights) = normal((1, 2, 9, 3)), Resize(9, 20, mode="linear").taps()
    right = windows(indices, 9)
    assert right == {"numerator": 9, "denominator": 20, "low": -1, "reach": 3}
    for change in ({"low": 0}, {"reach": 2}, {"reach": 0}, {"denominator": -20}, {"numerator": -9}):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape)
        graph.add_const("indices", indices)
        graph.add_const("weights", weights)
        param = {"axis": 2, **right, **change}
        with pytest.raises(TpulayerError, match=r"TPU_RESIZE.*shape function"):
            graph.add_tpu_layer("TPU_RESIZE", ["x", "indices", "weights"], param, ["y"])
            graph.compile()


def test_what_is_impossible(toolkit: Toolkit) -> None:
    x, ones = normal((2, 5)), np.ones((1, 2), np.float32)
    good = np.array([[0, 4]], np.int32)
    for axis, indices, weights in (
        (2, good, ones),
        (1, good + 1, ones),
        (1, good - 1, ones),
        (1, good[0], ones[0]),
        (1, good, np.ones((2, 2), np.float32)),
        (1, good, ones.astype(np.int32)),
        (1, np.zeros((65, 2), np.int32), np.ones((65, 2), np.float32)),
    ):
        with pytest.raises(TpulayerError, match=r"TPU_RESIZE.*shape function"):
            resized(toolkit, x, axis, indices, weights)
    with pytest.raises(TpulayerError, match="int32 constant"):
        resized(toolkit, x, 1, good.astype(np.float32), ones)
    with pytest.raises(UsageError, match="bilinear"):
        Resize(3, 5, mode="bilinear").taps()
    with pytest.raises(UsageError, match="nowhere"):
        Resize(3, 5, coordinates="nowhere").taps()
    with pytest.raises(UsageError, match="sideways"):
        Resize(3, 5, nearest="sideways").taps()
    with pytest.raises(UsageError, match="extrapolation_value"):
        Resize(3, 5, coordinates="tf_crop_and_resize", roi=(0.5, 1.5), extrapolation=2.0).taps()


# ---- the importer's part ----

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)


def by_onnxruntime(
    x: Array, sizes: tuple[int, ...] | None, scales: tuple[float, ...] | None, **attributes: Any
) -> Array:
    onnx = pytest.importorskip("onnx", reason="the reference is made with onnx and onnxruntime")
    ort = pytest.importorskip("onnxruntime", reason="the reference is made with onnx and onnxruntime")
    helper = onnx.helper
    roi = attributes.pop("roi", None)
    names = ["x", "roi" if roi is not None else "", "scales" if scales else "", "sizes" if sizes else ""]
    fixed = []
    if roi is not None:
        fixed.append(onnx.numpy_helper.from_array(np.array(roi, np.float32), "roi"))
    if scales:
        fixed.append(onnx.numpy_helper.from_array(np.array(scales, np.float32), "scales"))
    if sizes:
        fixed.append(onnx.numpy_helper.from_array(np.array(sizes, np.int64), "sizes"))
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Resize", names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, [None] * x.ndim)],
        fixed,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    model.ir_version = 9
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y: Array = session.run(None, {"x": x})[0]
    return y


@examples(60)
@given(
    extents=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    lengths=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
    coordinates=st.sampled_from(COORDINATES),
    nearest=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    exclude=st.booleans(),
    antialias=st.booleans(),
)
def test_taps_are_those_of_onnxruntime(
    extents: tuple[int, int],
    lengths: tuple[int, int],
    mode: str,
    coordinates: str,
    nearest: str,
    exclude: bool,
    antialias: bool,
) -> None:
    crop = coordinates == "tf_crop_and_resize"
    # onnxruntime copies along axes that keep their size, and does not look at the region there
    assume(not crop or all(extent != length for extent, length in zip(extents, lengths, strict=True)))
    antialias = antialias and mode != "nearest" and not crop
    exclude = exclude and mode == "cubic" and not crop
    roi = ((0.1, 0.9), (0.2, 0.7)) if crop else ((0.0, 1.0), (0.0, 1.0))
    x = normal((1, 1, *extents))
    want = by_onnxruntime(
        x,
        (1, 1, *lengths),
        None,
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode=nearest,
        exclude_outside=int(exclude),
        antialias=int(antialias),
        **({"roi": [0, 0, roi[0][0], roi[1][0], 1, 1, roi[0][1], roi[1][1]]} if crop else {}),
    )
    y = x
    for axis in (2, 3):
        resize = Resize(
            extents[axis - 2],
            lengths[axis - 2],
            mode=mode,
            coordinates=coordinates,
            nearest=nearest,
            exclude_outside=exclude,
            antialias=antialias,
            roi=roi[axis - 2],
        )
        y = expected(y, axis, *resize.taps())
    assert y.shape == want.shape
    assert np.abs(y - want).max() <= 1e-5 * max(1, float(np.abs(want).max()))


def test_scales_and_gathered_indices(toolkit: Toolkit) -> None:
    x = normal((1, 2, 4, 5))
    want = by_onnxruntime(x, None, (1, 1, 2.5, 0.7), mode="nearest")
    y = x
    for axis, scale, extent in ((2, 2.5, 4), (3, 0.7, 5)):
        indices = Resize(extent, int(extent * scale), scale=scale).gathered()
        assert indices is not None
        y = np.take(y, indices, axis)
    assert np.array_equal(y, want)
    assert Resize(4, 8, mode="linear").gathered() is None


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("scale", [7 / 3, 5 / 3, 0.7, 1.2])
def test_lengths_are_those_of_onnxruntime(toolkit: Toolkit, scale: float, behind: bool) -> None:
    """Scales are multiplied in single precision; ONNX's inference says otherwise. behind: something asks for
    the shape, and what depends on it has shapes, too."""
    onnx = pytest.importorskip("onnx", reason="the reference is made with onnx and onnxruntime")
    from tests.support.onnx_models import equals_onnxruntime, make_model

    make = onnx.helper.make_node
    for length in (6, 9, 10, 30):
        nodes = [make("Resize", ["x", "", "scales"], ["r"], mode="linear"), make("Relu", ["r"], ["y"])]
        if behind:
            nodes[1:] = [
                make("Shape", ["r"], ["shape"]),
                make("Slice", ["shape", "one", "many"], ["some"]),
                make("Concat", ["some", "minus"], ["wanted"], axis=0),
                make("Reshape", ["r", "wanted"], ["y"]),
            ]
        constants = {"one": np.array([3]), "many": np.array([4]), "minus": np.array([-1])}
        constants["scales"] = np.array([1, 1, 1, scale], np.float32)
        used = {name for each in nodes for name in each.input}
        constants = {name: value for name, value in constants.items() if name in used}
        proto = make_model(nodes, {"x": (1, 3, 4, length)}, ["y"], constants)
        equals_onnxruntime(toolkit, proto, {"x": normal((1, 3, 4, length))})
