"""Limits of the compiler, each one below, at and one beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from firmware_sim.chip import DDR_BASE, DDR_BYTES, L2_USER_BYTES, LOCAL_BYTES
from firmware_sim.errors import CompileError
from firmware_sim.wire import TensorRecord
from tests.support.compiler_fakes import FakeLayer, FakeToolkit, global_layer, local_layer, window_layer
from tpulayer import Graph
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.fitting import fit_counts, fit_group
from user_layers.compiler.flow import Buffer, choose_loads
from user_layers.compiler.grouping import Alone, Group
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.tiling import Infeasible, Tiling, tile_group
from user_layers.graph.shapes import infer_shapes


def net(layers: list[FakeLayer], shape: tuple[int, ...], *outputs: str) -> DescribedNet:
    """x -> layer 0 -> t0 -> layer 1 -> t1 ..., with these outputs or the last."""
    graph = Graph(toolkit=FakeToolkit(*layers))
    name = graph.add_input("x", shape)
    for i, layer in enumerate(layers):
        (name,) = graph.add_tpu_layer(layer.op, [name], None, [f"t{i}"])
    for output in outputs:
        graph.add_output(output)
    return gather_attributes(infer_shapes(graph), graph.toolkit)


def cut(described: DescribedNet, axis: str, count: int) -> Tiling | Infeasible:
    counts = tuple(count if name == axis else 1 for name in "nhw")
    return tile_group(described, range(len(described.net.nodes)), (counts[0], counts[1], counts[2]))


# ---- what tiles leave out ----


@pytest.mark.parametrize("axis", ["h", "w"])
@pytest.mark.parametrize(
    ("kernel", "stride", "whole"),
    [(1, 1, True), (2, 1, True), (2, 2, True), (1, 2, False), (3, 3, True), (2, 3, False), (1, 3, False)],
)
def test_a_hole_between_tiles_of_an_output(kernel: int, stride: int, whole: bool, axis: str) -> None:
    """t0 is an output and read by windows that leave out `stride - kernel` rows: between the rows of a tile
    they are computed all the same, between two tiles they are not."""
    skip = window_layer("TPU_SKIP", 1, kernel=kernel, stride=stride, axes=axis)
    extent = 9 * stride + kernel  # of which ten windows reach the last element
    shape = (1, 3, extent, 5) if axis == "h" else (1, 3, 5, extent)
    described = net([local_layer(), skip], shape, "t0", "t1")
    assert isinstance(cut(described, axis, 1), Tiling)
    for count in (2, 3):
        made = cut(described, axis, count)
        assert isinstance(made, Tiling) == whole
        if isinstance(made, Infeasible):
            assert f"along {axis} leave out part of t0" in made.reason and not made.lacks_room


@pytest.mark.parametrize(("rest", "whole"), [(0, True), (1, False), (2, False)])
def test_a_hole_behind_the_last_tile_of_an_output(rest: int, whole: bool) -> None:
    skip = window_layer("TPU_SKIP", 1, kernel=2, stride=3, axes="h")
    described = net([local_layer(), skip], (1, 3, 9 * 3 + 2 + rest, 5), "t0", "t1")
    assert isinstance(cut(described, "h", 1), Tiling) == whole


def test_what_only_the_group_reads_may_have_holes() -> None:
    skip = window_layer("TPU_SKIP", 1, kernel=1, stride=2, axes="h")
    described = net([local_layer(), skip], (1, 3, 20, 5), "t1")
    assert isinstance(cut(described, "h", 5), Tiling)


@pytest.mark.parametrize(("count", "feasible"), [(1, True), (6, True), (7, True), (8, False)])
@pytest.mark.parametrize("axis", ["n", "h", "w"])
def test_as_many_tiles_as_elements(axis: str, count: int, feasible: bool) -> None:
    made = cut(net([local_layer()], (7, 3, 7, 7)), axis, count)
    assert isinstance(made, Tiling) == feasible
    if isinstance(made, Infeasible):
        assert made.reason == f"t0 has fewer than 8 elements along {axis}"


@pytest.mark.parametrize(("kernel", "feasible"), [(1, False), (2, True), (3, True)])
def test_a_tile_that_lies_in_the_padding(kernel: int, feasible: bool) -> None:
    """The first output row reads rows -1 to kernel - 2 of the input."""
    pad = window_layer("TPU_PAD", 0, kernel=kernel, pad=1, axes="h")
    described = net([pad], (1, 3, 6, 5))
    made = cut(described, "h", described.net.tensors["t0"].shape[2])
    assert isinstance(made, Tiling) == feasible
    if isinstance(made, Infeasible):
        assert made.reason.endswith("along h needs nothing of x")
    else:
        first = made.h[0].read[0, 0]
        assert (first.first, first.extent, first.pad) == (0, kernel - 1, 1)


# ---- what runs on tiles ----


@pytest.mark.parametrize(
    ("shape", "alone"),
    [
        ((1, 4094, 1, 1), ""),
        ((1, 4095, 1, 1), ""),
        ((1, 4096, 1, 1), "more than 4095 channels"),
        ((65535, 1, 1, 1), ""),
        ((65536, 1, 1, 1), "an extent over 65535"),
        ((1, 1, 65535, 1), ""),
        ((1, 1, 65536, 1), "an extent over 65535"),
        ((1, 1, 1, 65535), ""),
        ((1, 1, 1, 65536), "an extent over 65535"),
        ((1, 2, 3, 4), ""),
        ((1, 2, 3, 4, 1), "5 dimensions"),
    ],
)
def test_the_tensors_of_a_group(shape: tuple[int, ...], alone: str) -> None:
    (segment,) = plan_net(net([local_layer()], shape), opt=1).schedule.segments
    if alone:
        assert isinstance(segment, Alone) and alone in segment.reason
    else:
        assert isinstance(segment, Group)


def test_a_constant_that_a_layer_prepares_has_the_users_name() -> None:
    described = net([local_layer()], (1, 4096, 1, 1))
    tensors = dict(described.net.tensors)
    tensors["x"] = replace(tensors["x"], plain=replace(tensors["x"], name="w"))
    (segment,) = plan_net(
        replace(described, net=replace(described.net, tensors=tensors)), opt=1
    ).schedule.segments
    assert isinstance(segment, Alone)
    assert segment.reason.startswith("the constant w as the layer prepares it has more than 4095 channels")


@pytest.mark.parametrize(("room", "fits"), [(1, True), (0, True), (-1, False)])
def test_a_work_buffer_fills_local_memory(room: int, fits: bool) -> None:
    """Input and output are of one element, which takes 128 bytes; the buffer has the rest."""
    room_for = LOCAL_BYTES - 2 * 128 - room
    described = net([local_layer(get_local_buffer_size=room_for)], (1, 1, 1, 1))
    made = fit_group(described, (0,))
    assert isinstance(made, Group) == fits
    if isinstance(made, Group):
        assert made.local.used <= LOCAL_BYTES
    else:
        assert made.lacks_room


@pytest.mark.parametrize(("more", "fits"), [(-4, True), (0, True), (4, False)])
def test_inputs_that_fill_l2(more: int, fits: bool) -> None:
    layer = local_layer(should_input_on_l2mem=lambda i: i == 1)
    graph = Graph(toolkit=FakeToolkit(layer))
    graph.add_input("x", (1, 1, 1, 1))
    graph.add_const("k", np.zeros((L2_USER_BYTES + more) // 4, np.float32))
    graph.add_tpu_layer(layer.op, ["x", "k"], None, ["y"])
    made = fit_counts(gather_attributes(infer_shapes(graph), graph.toolkit), (0,), (1, 1, 1), None)
    assert isinstance(made, Group) == fits
    if isinstance(made, Infeasible):
        assert "L2" in made.reason


@pytest.mark.parametrize(("rows", "slices"), [(1, 1), (2, 2), (3, 3)])
def test_one_row_for_each_tile(rows: int, slices: int) -> None:
    """Two rows never fit: as many tiles as rows, which is the most there can be."""
    width = LOCAL_BYTES // 2 // 4 // 2 + 1000  # of input and output together more than half
    made = fit_group(net([local_layer()], (1, 64, rows, width)), (0,))
    assert isinstance(made, Group) and made.counts == (1, slices, 1)


@pytest.mark.parametrize(("dims", "concatenates"), [(1, False), (2, True), (3, True), (4, True), (5, False)])
def test_dimensions_of_a_concatenation(dims: int, concatenates: bool) -> None:
    """Of any more or fewer dimensions it has no channels."""
    shape = (1, 2, 3, 4, 5)[:dims]

    def concat_shape(inputs: Any, param: bytes) -> list[TensorRecord]:
        whole = list(inputs[0].shape)
        whole[min(1, dims - 1)] *= 2
        return [TensorRecord(tuple(whole), inputs[0].dtype)]

    layer = FakeLayer("TPU_JOIN", 0, has_local=False, shape=concat_shape, says={"is_concat_layer": True})
    graph = Graph(toolkit=FakeToolkit(layer))
    for name in ("a", "b"):
        graph.add_input(name, shape)
    graph.add_tpu_layer(layer.op, ["a", "b"], None, ["y"])
    described = gather_attributes(infer_shapes(graph), graph.toolkit)
    assert concat_channels(described, 0) == ((0, 2) if concatenates else None)


# ---- where things lie ----


@pytest.mark.parametrize(("limit", "fits"), [(129, True), (128, True), (127, False)])
def test_placing_up_to_the_limit(limit: int, fits: bool) -> None:
    placed = place([Request(64, 0, 1), Request(64, 1, 2)], align=64, limit=limit)
    assert (placed is not None) == fits
    if placed is not None:
        assert sorted(placed.offsets) == [0, 64] and placed.used == 128


@pytest.mark.parametrize(("first", "shared"), [(1, False), (2, False), (3, True)])
def test_memory_is_shared_from_the_step_after_the_last(first: int, shared: bool) -> None:
    placed = place([Request(64, 0, 2), Request(64, first, 9)], align=64)
    assert placed is not None and (placed.used == 64) == shared


@pytest.mark.parametrize(("size", "offset"), [(99, 200), (100, 200), (101, 420)])
def test_a_gap_of_just_the_size(size: int, offset: int) -> None:
    """Of 300 bytes the first 200 are taken again, with what lives on behind them: 100 are free between."""
    held = Request(300, 0, 0), Request(200, 1, 1), Request(120, 0, 1)
    placed = place([*held, Request(size, 1, 1)], align=1)
    assert placed is not None and placed.offsets == (0, 0, 300, offset)


@pytest.mark.parametrize(("more", "fits"), [(-1, True), (0, True), (1, False)])
def test_a_net_that_fills_the_ddr(more: int, fits: bool) -> None:
    small = plan_net(net([global_layer(get_global_buffer_size=4096)], (1, 1, 1, 1)), opt=0).ddr
    room = DDR_BASE + DDR_BYTES - small.ctx_addr - (small.ctx_bytes - 4096)
    described = net([global_layer(get_global_buffer_size=room + more)], (1, 1, 1, 1))
    if fits:
        ddr = plan_net(described, opt=0).ddr
        assert ddr.ctx_addr + ddr.ctx_bytes == DDR_BASE + DDR_BYTES
    else:
        with pytest.raises(CompileError, match="more than the 12 GB of DDR"):
            plan_net(described, opt=0)


@pytest.mark.parametrize(("limit", "fits"), [(257, True), (256, True), (255, False)])
def test_what_is_needed_at_one_step(limit: int, fits: bool) -> None:
    buffers = [Buffer(128, need=0, last=1), Buffer(128, need=1, last=2)]  # both in step 1
    assert choose_loads(buffers, [], [1.0] * 3, limit, 0, 0) == fits


@pytest.mark.parametrize(("room", "first"), [(257, 0), (256, 0), (255, 1)])
def test_how_much_prefetching_takes(room: int, first: int) -> None:
    """The second is needed in step 1, where the first is gone, and its load takes as long as step 0."""
    buffers = [Buffer(128, need=0, last=0), Buffer(128, need=1, last=1, load=1.0)]
    assert choose_loads(buffers, [], [1.0] * 2, 1000, room, 0)
    assert buffers[1].first == first


# ---- what descriptors may answer ----


@pytest.mark.parametrize(
    ("method", "least"),
    [
        ("get_global_buffer_size", 0),
        ("get_local_buffer_size", 0),
        ("backward_hslice", 1),
        ("backward_wslice", 1),
        ("backward_kh", 1),
        ("backward_stride_h", 1),
    ],
)
def test_the_least_that_a_descriptor_may_answer(method: str, least: int) -> None:
    for answer in (least + 1, least):
        plan_net(net([FakeLayer("TPU_LOC", 0, says={method: answer})], (1, 1, 1, 1)))
    with pytest.raises(
        CompileError, match=rf"{method}\(.*\) of its descriptor returns {least - 1}; expected"
    ):
        plan_net(net([FakeLayer("TPU_LOC", 0, says={method: least - 1})], (1, 1, 1, 1)))


@pytest.mark.parametrize(
    ("answer", "good"), [(9, False), (8, True), (7, False), (6, False), (5, True), (4, False)]
)
def test_forward_height_is_that_of_the_input_or_output(answer: int, good: bool) -> None:
    """An input of 8 rows, an output of 5."""
    layer = window_layer("TPU_W", 0, kernel=4, axes="h", forward_height=answer)
    if good:
        net([layer], (1, 3, 8, 8))
    else:
        with pytest.raises(CompileError, match=rf"forward_height\(8\) of its descriptor returns {answer}"):
            net([layer], (1, 3, 8, 8))


@pytest.mark.parametrize(("extent", "good"), [(7, True), (8, True), (9, False)])
def test_an_output_that_takes_its_inputs_memory(extent: int, good: bool) -> None:
    """It is at most as large."""
    layers = [
        global_layer(),
        FakeLayer(
            "TPU_SHARE",
            2,
            has_local=False,
            shape=lambda inputs, param: [TensorRecord((1, 1, 1, extent), inputs[0].dtype)],
            says={"is_share_mem_layer": True},
        ),
        global_layer("TPU_LAST", 3),
    ]
    described = net(layers, (1, 1, 1, 8))
    if good:
        address = plan_net(described, opt=0).ddr.address
        assert address["t0"] == address["t1"]
    else:
        with pytest.raises(CompileError, match="36 bytes do not fit into the input's 32"):
            plan_net(described, opt=0)
