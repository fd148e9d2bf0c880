"""Built-in layers that only move data: bit for bit what numpy does, for every rank, type and axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.layer_checks import DTYPES, Array, check, refused, run, same, sample
from tpulayer import Graph
from user_layers.toolkit import Toolkit

FEW = examples(20)


@st.composite
def tensors(draw: st.DrawFn, least: int = 1, most: int = 8, elements: int = 3000) -> Array:
    """Of any rank and type."""
    shape: list[int] = []
    for _ in range(draw(st.integers(least, most))):
        left = elements // math.prod(shape)
        shape.append(draw(st.integers(1, max(1, min(left, 40)))))
    shape = draw(st.permutations(shape))
    return sample(shape, draw(st.sampled_from(DTYPES)), draw(st.integers(0, 9)))


# ---- the same elements under another shape ----


@FEW
@given(x=tensors(), data=st.data())
def test_reshape(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    left, shape = x.size, []
    for _ in range(data.draw(st.integers(0, 6))):
        shape.append(data.draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0])))
        left //= shape[-1]
    shape = data.draw(st.permutations([*shape, left]))
    check(toolkit, "TPU_RESHAPE", {"dims": len(shape), "shape": shape}, x, x.reshape(shape))
    open_at = data.draw(st.integers(0, len(shape) - 1))
    wanted = [-1 if d == open_at else s for d, s in enumerate(shape)]
    check(toolkit, "TPU_RESHAPE", {"dims": len(shape), "shape": wanted}, x, x.reshape(shape), modes=[False])


@pytest.mark.parametrize(
    ("shape", "want"),
    [((0, -1), (2, 420)), ((-1, -5, 0, -6), (14, 3, 4, 5)), ((-2, -3, 1, 12, 5), (2, 7, 1, 12, 5))],
)
def test_reshape_with_extents_of_the_input(
    toolkit: Toolkit, shape: tuple[int, ...], want: tuple[int, ...]
) -> None:
    x = sample((2, 7, 4, 3, 5))
    check(toolkit, "TPU_RESHAPE", {"dims": len(shape), "shape": shape}, x, x.reshape(want))


def test_reshape_of_a_smaller_input(toolkit: Toolkit) -> None:
    x = sample((2, 3, 5, 4))
    param = {"dims": 3, "shape": (0, -1, -5)}
    (y,) = run(toolkit, "TPU_RESHAPE", param, [x], compiled=[(4, 3, 9, 4)], dynamic=True)
    same(y, x.reshape(2, 15, 4))


def test_reshape_costs_nothing_between_layers(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (6, 4, 5))
    graph.add_tpu_layer("TPU_TILE", ["x"], {"repeats": (1, 2, 1)}, ["a"])
    graph.add_tpu_layer("TPU_RESHAPE", ["a"], {"dims": 2, "shape": (0, -1)}, ["b"])
    graph.add_tpu_layer("TPU_COPY", ["b"], None, ["c"])
    graph.add_tpu_layer("TPU_TILE", ["c"], {"repeats": (2, 1)}, ["y"])
    lines: list[str] = []
    graph.compile(log=lines.append)
    x = sample((6, 4, 5))
    (y,) = graph.run({"x": x})
    same(y, np.tile(np.tile(x, (1, 2, 1)).reshape(6, 40), (2, 1)))
    assert len(lines) == 4
    assert all("shares its input's memory" in line for line in lines[1:3])


@pytest.mark.parametrize(
    "shape", [(7,), (-1, -1), (-1, 7), (2, 0, 5), (-9, 3), (3, 3), (-5, 6), (), (2**30, 2**30)]
)
def test_reshape_that_is_impossible(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    refused(toolkit, "TPU_RESHAPE", {"dims": len(shape), "shape": shape}, sample((2, 3)))


@FEW
@given(x=tensors())
def test_copy(toolkit: Toolkit, x: Array) -> None:
    check(toolkit, "TPU_COPY", {}, x, x)


# ---- pieces ----


@FEW
@given(x=tensors(), data=st.data())
def test_concat(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, x.ndim - 1))
    xs = [x]
    for i in range(data.draw(st.integers(1, 5))):
        shape = list(x.shape)
        shape[axis] = data.draw(st.integers(1, 9))
        xs.append(sample(shape, x.dtype.name, i))
    given_axis = axis - data.draw(st.sampled_from([0, x.ndim]))
    check(toolkit, "TPU_CONCAT", {"axis": given_axis}, xs, np.concatenate(xs, axis))


def test_concat_of_sixteen_and_of_one_tensor_twice(toolkit: Toolkit) -> None:
    xs = [sample((2, i + 1, 5), seed=i) for i in range(16)]
    check(toolkit, "TPU_CONCAT", {"axis": 1}, xs, np.concatenate(xs, 1))
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (2, 3))
    graph.add_tpu_layer("TPU_CONCAT", ["x", "x"], {"axis": 0}, ["y"])
    graph.compile()
    x = sample((2, 3))
    same(graph.run({"x": x})[0], np.concatenate([x, x]))


def test_concat_with_a_constant_and_of_smaller_inputs(toolkit: Toolkit) -> None:
    a, b = sample((1, 3, 2)), sample((1, 5, 2))
    (y,) = run(toolkit, "TPU_CONCAT", {"axis": 1}, [a, b], compiled=[(4, 3, 2), (4, 6, 2)], dynamic=True)
    same(y, np.concatenate([a, b], 1))
    check(toolkit, "TPU_CONCAT", {"axis": 1}, a, np.concatenate([a, b], 1), consts=[b])


def test_concat_that_is_impossible(toolkit: Toolkit) -> None:
    x = sample((2, 3))
    for axis in (-3, 2):
        refused(toolkit, "TPU_CONCAT", {"axis": axis}, x, x)
    refused(toolkit, "TPU_CONCAT", {"axis": 0}, x, sample((2, 4)))
    refused(toolkit, "TPU_CONCAT", {"axis": 0}, x, sample((2, 3, 1)))
    refused(toolkit, "TPU_CONCAT", {"axis": 0}, x, sample((2, 3), "int32"))


@FEW
@given(x=tensors(), data=st.data())
def test_split(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, x.ndim - 1))
    extent = x.shape[axis]
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, extent - 1)), max_size=7)) if extent > 1 else [])
    sizes = np.diff([0, *cuts, extent]).tolist()
    param = {"axis": axis - data.draw(st.sampled_from([0, x.ndim])), "sizes": sizes}
    check(toolkit, "TPU_SPLIT", param, x, np.split(x, cuts, axis))


def test_split_into_equal_parts(toolkit: Toolkit) -> None:
    x = sample((3, 11, 4))
    check(toolkit, "TPU_SPLIT", {"axis": 1}, x, [x[:, :3], x[:, 3:6], x[:, 6:9], x[:, 9:]])
    small = x[:, :8].copy()
    got = run(toolkit, "TPU_SPLIT", {"axis": 1}, [small], 2, compiled=[x.shape], dynamic=True)
    for y, want in zip(got, (small[:, :4], small[:, 4:]), strict=True):
        same(y, want)
    wide = sample((2, 32))
    check(toolkit, "TPU_SPLIT", {"axis": -1}, wide, np.split(wide, 16, 1))


def test_split_that_is_impossible(toolkit: Toolkit) -> None:
    x = sample((2, 6))
    refused(toolkit, "TPU_SPLIT", {"axis": 2, "sizes": (1, 1)}, x, outputs=2)
    refused(toolkit, "TPU_SPLIT", {"axis": 1, "sizes": (1, 4)}, x, outputs=2)
    refused(toolkit, "TPU_SPLIT", {"axis": 1, "sizes": (7, -1)}, x, outputs=2)
    refused(toolkit, "TPU_SPLIT", {"axis": 1, "sizes": (2, 2, 2)}, x, outputs=2)
    refused(toolkit, "TPU_SPLIT", {"axis": 0}, x, outputs=3)


@FEW
@given(x=tensors(), data=st.data())
def test_slice(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(x.ndim)))[: data.draw(st.integers(0, x.ndim))]
    index: list[slice] = [slice(None)] * x.ndim
    starts, ends, steps = [], [], []
    for axis in axes:
        extent = x.shape[axis]
        step = data.draw(st.sampled_from([1, 1, 2, 3, 7, -1, -2, -5]))
        first = data.draw(st.integers(0, extent - 1))
        low, high = (first + 1, extent + 3) if step > 0 else (-1, first - 1)
        end = data.draw(st.integers(min(low, high), high))
        index[axis] = slice(first, end if end >= 0 else None, step)
        starts.append(first - data.draw(st.sampled_from([0, extent])))
        ends.append(-(2**31) if end < 0 else end)
        steps.append(step)
    named = [axis - data.draw(st.sampled_from([0, x.ndim])) for axis in axes]
    param = {"count": len(axes), "axes": named, "starts": starts, "ends": ends, "steps": steps}
    check(toolkit, "TPU_SLICE", param, x, x[tuple(index)])


def test_slice_to_the_ends_whatever_the_extent(toolkit: Toolkit) -> None:
    x = sample((3, 4, 9))
    param = {"count": 2, "axes": (1, -1), "starts": (1, -99), "ends": (2**31 - 1, -1), "steps": (1, 2)}
    (y,) = run(toolkit, "TPU_SLICE", param, [x], compiled=[(3, 6, 12)], dynamic=True)
    same(y, x[:, 1:, :-1:2])


def test_slice_that_is_impossible(toolkit: Toolkit) -> None:
    def param(axis: int, start: int, end: int, step: int) -> dict[str, Any]:
        return {"count": 1, "axes": (axis,), "starts": (start,), "ends": (end,), "steps": (step,)}

    x = sample((2, 6))
    for values in ((2, 0, 1, 1), (1, 0, 6, 0), (1, 3, 3, 1), (1, 6, 9, 1), (1, 2, 3, -1)):
        refused(toolkit, "TPU_SLICE", param(*values), x)
    twice = {"count": 2, "axes": (0, -2), "ends": (1, 1), "steps": (1, 1)}
    refused(toolkit, "TPU_SLICE", twice, x)
    refused(toolkit, "TPU_SLICE", {"count": 9}, x)


# ---- the dimensions in another order ----


@FEW
@given(x=tensors(), data=st.data())
def test_transpose(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(x.ndim)))
    check(toolkit, "TPU_TRANSPOSE", {"dims": x.ndim, "order": order}, x, x.transpose(order))


@pytest.mark.parametrize("order", [(1, 2), (0, 0, 1), (0, 1, 3), (0, -1, 1), (0, 1, 2, 3)])
def test_transpose_that_is_impossible(toolkit: Toolkit, order: tuple[int, ...]) -> None:
    refused(toolkit, "TPU_TRANSPOSE", {"dims": len(order), "order": order}, sample((2, 3, 4)))


@FEW
@given(
    n=st.integers(1, 3),
    c=st.integers(1, 70),
    h=st.integers(1, 9),
    w=st.integers(1, 9),
    block=st.integers(1, 4),
    crd=st.integers(0, 1),
    dtype=st.sampled_from(DTYPES),
)
def test_depth_to_space_and_back(
    toolkit: Toolkit, n: int, c: int, h: int, w: int, block: int, crd: int, dtype: str
) -> None:
    x = sample((n, c * block * block, h, w), dtype)
    if crd:
        want = x.reshape(n, c, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        want = x.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    want = want.reshape(n, c, h * block, w * block)
    check(toolkit, "TPU_DEPTH_TO_SPACE", {"block_h": block, "block_w": block, "crd": crd}, x, want)
    check(toolkit, "TPU_SPACE_TO_DEPTH", {"block": block, "crd": crd}, want, x)


def test_blocks_that_are_impossible(toolkit: Toolkit) -> None:
    x = sample((1, 8, 6, 6))
    for rows, columns, crd, height in (
        *((0, 1, 0, 0), (1, 0, 0, 0), (3, 3, 0, 0), (2, 2, 2, 0), (40000, 1, 0, 0), (1, 40000, 0, 0)),
        *((2, 1, 0, 10), (2, 1, 0, 13), (2, 1, 0, -1)),
    ):
        param = {"block_h": rows, "block_w": columns, "crd": crd, "height": height}
        refused(toolkit, "TPU_DEPTH_TO_SPACE", param, x)
    for block, crd in ((0, 0), (4, 0), (2, -1)):
        refused(toolkit, "TPU_SPACE_TO_DEPTH", {"block": block, "crd": crd}, x)
    refused(toolkit, "TPU_DEPTH_TO_SPACE", {"block_h": 2, "block_w": 2}, sample((8, 6, 6)))
    refused(toolkit, "TPU_SPACE_TO_DEPTH", {"block": 2}, sample((8, 6, 6)))


# ---- more elements than before ----

PAD_MODES = ("constant", "reflect", "edge", "wrap")


@FEW
@given(x=tensors(most=6, elements=600), mode=st.sampled_from(range(4)), data=st.data())
def test_pad(toolkit: Toolkit, x: Array, mode: int, data: st.DataObject) -> None:
    before, after = [], []
    for extent in x.shape:
        cut = data.draw(st.integers(0, extent - 1))
        before.append(data.draw(st.sampled_from([0, 0, 1, 3, 9, -cut])))
        after.append(data.draw(st.sampled_from([0, 0, 1, 2, 10, -(extent - 1 - max(0, -before[-1]))])))
    inner = x[
        tuple(slice(max(0, -b), s - max(0, -a)) for s, b, a in zip(x.shape, before, after, strict=True))
    ]
    width = [(max(0, b), max(0, a)) for b, a in zip(before, after, strict=True)]
    bits = data.draw(st.integers(0, 2 ** (8 * x.itemsize - 1) - 1))
    constant = np.array(bits, f"u{x.itemsize}").view(x.dtype)
    param: dict[str, Any] = {"mode": mode, "before": before, "after": after, "bits": bits}
    if x.dtype == np.float32:
        constant, param["value"] = np.float32(-1.5), -1.5
    padded: Any = np.pad  # its annotations know one mode at a time
    more = {"constant_values": constant} if mode == 0 else {}
    check(toolkit, "TPU_PAD", param, x, padded(inner, width, PAD_MODES[mode], **more))


@pytest.mark.parametrize(
    ("shape", "before", "after", "where"),
    [
        ((2, 70, 9, 11), (0, 0, 2, 3), (0, 0, 1, 4), "local"),
        ((1, 64, 200, 250), (0, 0, 1, 2), (0, 0, 3, 0), "over"),
        ((1, 3, 2, 3), (0, 0, 40, 0), (0, 0, 30, 200), "local"),
        ((1, 3, 4, 5), (0, 1, 0, 0), (0, 0, 0, 0), "global"),
        ((1, 3, 4, 5), (0, 0, -1, 0), (0, 0, 2, 0), "global"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_pad_in_groups(
    toolkit: Toolkit,
    shape: tuple[int, ...],
    before: tuple[int, ...],
    after: tuple[int, ...],
    where: str,
    dtype: str,
) -> None:
    x = sample(shape, dtype)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape, dtype)
    param = {"mode": 0, "before": before, "after": after, "value": -1.5, "bits": 77}
    once = {"scale_h": 1, "scale_w": 1}  # layers around it, so that it is in a group where it can be
    graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], once, ["a"])
    graph.add_tpu_layer("TPU_PAD", ["a"], param, ["b"], name="it")
    graph.add_tpu_layer("TPU_UPSAMPLE", ["b"], once, ["y"])
    lines: list[str] = []
    graph.compile(log=lines.append)
    assert where in next(line for line in lines if line.startswith("PAD it"))
    inner = x[tuple(slice(max(0, -b), None) for b in before)]
    width = [(max(0, b), max(0, a)) for b, a in zip(before, after, strict=True)]
    want = np.pad(inner, width, constant_values=-1.5 if dtype == "float32" else 77)
    same(graph.run({"x": x})[0], want)


def test_pad_that_is_impossible(toolkit: Toolkit) -> None:
    x = sample((2, 3))
    for param in (
        {"mode": 4},
        {"mode": -1},
        {"before": (0, -3)},
        {"before": (0, -2), "after": (0, -1)},
        {"before": (0, 0, 1)},
        {"after": (0, 2**31 - 1)},
    ):
        refused(toolkit, "TPU_PAD", param, x)


@FEW
@given(x=tensors(most=6, elements=400), data=st.data())
def test_expand(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    thin = tuple(data.draw(st.sampled_from([1, s])) for s in x.shape)
    x = np.ascontiguousarray(x[tuple(slice(s) for s in thin)])
    wanted = [s if s > 1 else data.draw(st.integers(1, 6)) for s in thin]
    added = [data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(0, 8 - x.ndim)))]
    want = np.broadcast_to(x, (*added, *wanted))
    asked = [s if t == 1 or data.draw(st.booleans()) else 1 for s, t in zip(wanted, thin, strict=True)]
    shape = [*added, *asked]
    while len(shape) > 1 and shape[0] == 1 and not added:
        shape = shape[1:]  # fewer dimensions than the input are as good
    check(toolkit, "TPU_EXPAND", {"dims": len(shape), "shape": shape}, x, want)


def test_expand_that_is_impossible(toolkit: Toolkit) -> None:
    x = sample((2, 3))
    for shape in ((), (4,), (3, 3), (0, 3), (2, -1), (1,) * 7 + (2,)):
        refused(toolkit, "TPU_EXPAND", {"dims": len(shape), "shape": shape}, x)


@FEW
@given(x=tensors(elements=400), data=st.data())
def test_tile(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    repeats = [data.draw(st.sampled_from([1, 1, 2, 3])) for _ in x.shape]
    check(toolkit, "TPU_TILE", {"repeats": repeats}, x, np.tile(x, repeats))


def test_tile_that_is_impossible(toolkit: Toolkit) -> None:
    for repeats in ((2,), (1, -1), (1, 2**31 - 1)):
        refused(toolkit, "TPU_TILE", {"repeats": repeats}, sample((2, 3)))


# ---- planes by their indices ----


@FEW
@given(x=tensors(most=6), data=st.data())
def test_gather(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, x.ndim - 1))
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    extent, count = x.shape[axis], math.prod(shape)
    values = data.draw(st.lists(st.integers(-extent, extent - 1), min_size=count, max_size=count))
    if data.draw(st.booleans()):  # runs
        values = [(values[0] % extent + i // 2) % extent for i in range(count)]
    indices = np.array(values, np.int32).reshape(shape)
    param = {"axis": axis - data.draw(st.sampled_from([0, x.ndim]))}
    want = np.take(x, indices, axis)
    check(toolkit, "TPU_GATHER", param, x, want, consts=[indices])
    check(toolkit, "TPU_GATHER", param, [x, indices], want, modes=[False])


def test_gather_of_one_plane(toolkit: Toolkit) -> None:
    x, index = sample((3, 4, 5)), np.array([-1], np.int32)
    check(toolkit, "TPU_GATHER", {"axis": 1, "scalar": 1}, x, x[:, -1], consts=[index])
    check(toolkit, "TPU_GATHER", {"axis": 0, "scalar": 1}, x[0, 0], x[0, 0, -1:], consts=[index])


def test_gather_from_a_constant_by_computed_indices(toolkit: Toolkit) -> None:
    table, words = sample((50, 7)), np.array([[3, 49, 0], [-50, 4, 5]], np.int32)
    for indices, dynamic in ((words, False), (words[:1, :2].copy(), True)):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("i", (2, 3), "int32")
        graph.add_const("table", table)
        graph.add_tpu_layer("TPU_COPY", ["i"], None, ["j"])
        graph.add_tpu_layer("TPU_GATHER", ["table", "j"], {"axis": 0}, ["y"])
        lines: list[str] = []
        graph.compile(dynamic=dynamic, log=lines.append)
        assert dynamic or any("must_dynamic_run of GATHER" in line for line in lines)
        same(graph.run({"i": indices})[0], table[indices])


def test_gather_that_is_impossible(toolkit: Toolkit) -> None:
    x, index = sample((2, 3)), np.array([0, 1], np.int32)
    refused(toolkit, "TPU_GATHER", {"axis": 2}, x, index)
    refused(toolkit, "TPU_GATHER", {"axis": 1, "scalar": 1}, x, index)
    refused(toolkit, "TPU_GATHER", {"axis": 1}, x, index.astype(np.float32))
    refused(toolkit, "TPU_GATHER", {"axis": 1}, x)
    for wrong in (3, -4):
        indices = np.array([0, wrong], np.int32)
        with pytest.raises(TpulayerError, match=r"TPU_GATHER.*shape function.*BM_LAYER_PARAM_INVALID"):
            run(toolkit, "TPU_GATHER", {"axis": 1}, [x], consts=[indices])
        with pytest.raises(TpulayerError, match=r"TPU_GATHER.*global function.*BM_LAYER_RUNTIME_ERROR"):
            run(toolkit, "TPU_GATHER", {"axis": 1}, [x, indices])


# ---- rows in other places ----


def moved_boxes(*rows: tuple[int, ...]) -> Array:
    """Of a first row that is written, one that is read, extents, steps in the output, steps in the input."""
    return np.array(rows, np.int32).reshape(-1, 14)


@FEW
@given(
    dtype=st.sampled_from(DTYPES),
    n=st.integers(1, 3),
    picture=st.tuples(*[st.integers(1, 6)] * 4),
    row=st.integers(1, 70),
    data=st.data(),
)
def test_rearrange(
    toolkit: Toolkit, dtype: str, n: int, picture: tuple[int, ...], row: int, data: st.DataObject
) -> None:
    """Dimensions of rows in any order, behind rows of zeros."""
    a, b, c, d = picture
    x = sample((n, a * b * c * d, row), dtype)
    order = data.draw(st.permutations(range(4)))
    zeros = data.draw(st.integers(0, 3))
    steps = np.array([b * c * d, c * d, d, 1])[list(order)]
    extents = np.array(picture)[list(order)]
    to = [int(np.prod(extents[i + 1 :])) for i in range(4)]
    moved = [(zeros, 0, *extents, *to, *steps)]
    filled = [(0, -1, 1, 1, 1, zeros, 0, 0, 0, 1, 0, 0, 0, 0)] if zeros else []
    want = x.reshape(n, a, b, c, d, row).transpose(0, *(1 + i for i in order), 5).reshape(x.shape)
    want = np.concatenate([np.zeros((n, zeros, row), x.dtype), want], 1)
    rows = zeros + x.shape[1]
    check(toolkit, "TPU_REARRANGE", {"rows": rows}, x, want, consts=[moved_boxes(*filled, *moved)])


def test_rearrange_that_is_impossible(toolkit: Toolkit) -> None:
    x, whole = sample((2, 6, 5)), (0, 0, 1, 1, 1, 6, 0, 0, 0, 1, 0, 0, 0, 1)
    one = {"rows": 6}
    check(toolkit, "TPU_REARRANGE", one, x, x, consts=[moved_boxes(whole)])
    wrong: list[tuple[int, Array, dict[str, int]]] = [
        *((at, x, one) for at in (0, 1, 2)),
        (9, x, one), (13, x, one),  # steps that are too large
        (0, x, {"rows": 5}), (0, x, {"rows": 7}), (0, x, {"rows": 0}),
    ]  # fmt: skip
    for at, given_, param in wrong:
        numbers = list(whole)
        numbers[at] = {2: 0}.get(at, 2) if param == one else numbers[at]
        with pytest.raises(TpulayerError, match=r"TPU_REARRANGE.*shape function.*BM_LAYER_PARAM_INVALID"):
            run(toolkit, "TPU_REARRANGE", param, [given_], consts=[moved_boxes(tuple(numbers))])
    for at in (0, 1, 6, 9, 10, 13):
        numbers = list(whole)
        numbers[at] = -1 if at != 1 else -2
        with pytest.raises(TpulayerError, match=r"TPU_REARRANGE.*shape function.*BM_LAYER_PARAM_INVALID"):
            run(toolkit, "TPU_REARRANGE", one, [x], consts=[moved_boxes(tuple(numbers))])
    for shape in ((2, 30), (1, 2, 6, 5)):
        with pytest.raises(TpulayerError, match=r"BM_LAYER_NOT_SUPPORTED"):
            run(toolkit, "TPU_REARRANGE", one, [sample(shape)], consts=[moved_boxes(whole)])
    with pytest.raises(TpulayerError, match=r"TPU_REARRANGE.*of type float32"):
        run(toolkit, "TPU_REARRANGE", one, [x], consts=[moved_boxes(whole).astype(np.float32)])
    with pytest.raises(TpulayerError, match=r"BM_LAYER_PARAM_INVALID"):
        run(toolkit, "TPU_REARRANGE", one, [x], consts=[moved_boxes(whole)[:, :13]])


# ---- large tensors ----


@st.composite
def boxes(draw: st.DrawFn) -> Array:
    """32-bit tensors that are large enough to go through local memory; some extents are long, some short."""
    shape: list[int] = []
    while math.prod(shape) < 1500:
        shape.append(draw(st.sampled_from([2, 3, 4, 5, 8, 17, 64, 100, 129, 300, 1000, 5000])))
        if math.prod(shape) > 300_000:
            shape[-1] = 2
    return sample(draw(st.permutations(shape))[:8], "uint32", draw(st.integers(0, 9)))


@FEW
@given(x=boxes(), data=st.data())
def test_large_transpose(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(x.ndim)))
    check(toolkit, "TPU_TRANSPOSE", {"dims": x.ndim, "order": order}, x, x.transpose(order), modes=[False])


@pytest.mark.parametrize("tokens", [9, 70, 131, 515, 3137])
@pytest.mark.parametrize("channels", [64, 200])
def test_tokens_and_channels(toolkit: Toolkit, tokens: int, channels: int) -> None:
    """Lanes take equal parts of the tokens, as many as make long runs; what is left over goes by itself."""
    x = sample((1, tokens, channels))
    for way in (x, x.transpose(0, 2, 1).copy()):
        param = {"dims": 3, "order": (0, 2, 1)}
        check(toolkit, "TPU_TRANSPOSE", param, way, way.transpose(0, 2, 1), modes=[False])


@FEW
@given(x=boxes(), data=st.data())
def test_large_slice(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    steps = [data.draw(st.sampled_from([1, 1, 2, 3, 12, -1])) if s < 300 else 2 for s in x.shape]
    starts = [
        data.draw(st.integers(0, min(3, s - 1))) if t > 0 else s - 1
        for s, t in zip(x.shape, steps, strict=True)
    ]
    ends = [s if t > 0 else -(2**31) for s, t in zip(x.shape, steps, strict=True)]
    param = {"count": x.ndim, "axes": range(x.ndim), "starts": starts, "ends": ends, "steps": steps}
    index = tuple(slice(a, None, t) for a, t in zip(starts, steps, strict=True))
    check(toolkit, "TPU_SLICE", param, x, x[index], modes=[False])


@FEW
@given(x=boxes(), data=st.data())
def test_large_expand_and_tile(toolkit: Toolkit, x: Array, data: st.DataObject) -> None:
    thin = x[tuple(slice(data.draw(st.sampled_from([1, s]))) for s in x.shape)].copy()
    check(toolkit, "TPU_EXPAND", {"dims": x.ndim, "shape": x.shape}, thin, np.broadcast_to(thin, x.shape))
    repeats = [data.draw(st.sampled_from([1, 1, 2, 3])) if x.size < 100_000 else 1 for _ in x.shape]
    check(toolkit, "TPU_TILE", {"repeats": repeats}, x, np.tile(x, repeats), modes=[False])


def test_transposing_is_faster_through_local_memory(toolkit: Toolkit) -> None:
    """A copy within DDR that steps from element to element takes over three cycles for each."""
    cycles = []
    device: Any = toolkit.device
    for dtype in ("float32", "int16"):
        x = sample((1, 64, 56, 56), dtype)
        before = device.cycles
        check(
            toolkit,
            "TPU_TRANSPOSE",
            {"dims": 4, "order": (0, 2, 3, 1)},
            x,
            x.transpose(0, 2, 3, 1),
            modes=[False],
        )
        cycles.append((device.cycles - before) / x.size)
    assert cycles[0] < 0.6
    assert cycles[1] > 3


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_extents_over_what_one_command_holds(toolkit: Toolkit, dtype: str) -> None:
    x = sample((2, 70_001, 3), dtype)
    check(toolkit, "TPU_TRANSPOSE", {"dims": 3, "order": (2, 1, 0)}, x, x.transpose(2, 1, 0), modes=[False])
    param = {"before": (0, 1, 0), "after": (0, 0, 2), "mode": 2}
    want = np.pad(x, ((0, 0), (1, 0), (0, 2)), "edge")
    check(toolkit, "TPU_PAD", param, x, want, modes=[False])
    want = np.pad(x, ((1, 0), (0, 0), (0, 0)))
    check(toolkit, "TPU_PAD", {"before": (1,)}, x, want, modes=[False])
    every = {"count": 1, "axes": (1,), "starts": (0,), "ends": (70_001,), "steps": (1,)}
    check(toolkit, "TPU_SLICE", every, x, x, modes=[False])
    check(toolkit, "TPU_COPY", {}, x, x, modes=[False])
    check(
        toolkit,
        "TPU_EXPAND",
        {"dims": 2, "shape": (70_001, 3)},
        x[0, :, :1].copy(),
        np.broadcast_to(x[0, :, :1], (70_001, 3)),
        modes=[False],
    )
