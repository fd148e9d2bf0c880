"""Compiled nets on the emulator against numpy, bit for bit: global = local = dynamic, whatever the slices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.errors import CompileError, UsageError
from tests.support.examples import examples
from tests.support.workspaces import layers_toolkit
from tpulayer import Graph
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.grouping import Group
from user_layers.compiler.pipeline import plan_net
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit

Array = NDArray[np.float32]


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """A built workspace with the layers crop, double and rows."""
    with layers_toolkit(tmp_path_factory, "compiler_layers") as toolkit:  # TPU_ROWS: a layer with a halo
        yield toolkit


def sample(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def rows(x: Array) -> Array:
    y: Array = x.copy()
    y[:, :, 1:] += x[:, :, :-1]
    y[:, :, :-1] += x[:, :, 1:]
    return y


def same(got: NDArray[np.generic], want: Array) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def groups(graph: Graph) -> list[Group]:
    described = gather_attributes(infer_shapes(graph), graph.toolkit)
    return [s for s in plan_net(described).schedule.segments if isinstance(s, Group)]


@examples(10)
@given(
    n=st.integers(1, 4),
    c=st.sampled_from([1, 3, 64, 65]),
    h=st.integers(6, 60),
    w=st.integers(6, 60),
    cut=st.tuples(*[st.integers(0, 2)] * 4),
    scratch=st.sampled_from([0, 20_000, 60_000, 200_000]),
    seed=st.integers(0, 999),
)
def test_global_local_and_dynamic_equal_numpy(
    toolkit: Toolkit, n: int, c: int, h: int, w: int, cut: tuple[int, int, int, int], scratch: int, seed: int
) -> None:
    top, bottom, left, right = cut
    x = sample((n, c, h, w), seed)
    graph = Graph(name="chain", toolkit=toolkit)
    graph.add_input("x", x.shape)
    crop = {"before": (0, 0, top, left), "after": (0, 0, bottom, right)}
    graph.add_tpu_layer("TPU_CROP", ["x"], crop, ["cut"])
    graph.add_const_binary_layer("cut", 0.75, "scaled", BINARY_MUL)
    graph.add_tpu_layer("TPU_ROWS", ["scaled"], {"scratch": scratch}, ["summed"])
    graph.add_tpu_layer("TPU_DOUBLE", ["summed"], None, ["y"])
    want = rows(x[:, :, top : h - bottom, left : w - right] * np.float32(0.75)) * np.float32(2)
    for dynamic, opt in ((False, 0), (False, 1), (False, 2), (True, 2)):
        graph.compile(dynamic, opt=opt)
        (y,) = graph.run({"x": x})
        same(y, want)


def test_a_halo_group_in_many_slices(toolkit: Toolkit) -> None:
    x = sample((2, 70, 90, 200))
    graph = Graph(name="halo", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_tpu_layer("TPU_ROWS", ["x"], {"scratch": 30_000}, ["a"])
    graph.add_tpu_layer("TPU_ROWS", ["a"], None, ["b"])
    graph.add_const_binary_layer("b", 1.5, "y", BINARY_ADD)
    (group,) = groups(graph)
    assert len(group.tiling.n) == 2 and len(group.tiling.h) > 4 and group.local.overlapped
    graph.compile()
    (y,) = graph.run({"x": x})
    same(y, rows(rows(x)) + np.float32(1.5))


@pytest.mark.parametrize(("extent", "kernel"), [(255, 1), (256, 2)])
def test_rows_between_the_tiles_of_an_output_are_stored(toolkit: Toolkit, extent: int, kernel: int) -> None:
    """A pool that skips rows wants tiles with a row between them; that row of an output is made, too."""
    x = sample((1, 64, extent, 255))
    graph = Graph(name="skips", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_const_binary_layer("x", 0.75, "t", BINARY_MUL)
    window = {
        "kernel_h": kernel,
        "kernel_w": 1,
        "stride_h": 2,
        "stride_w": 2,
        "dilation_h": 1,
        "dilation_w": 1,
    }
    graph.add_tpu_layer("TPU_POOL", ["t"], {"mode": 0, **window}, ["y"])
    graph.add_output("t")
    graph.add_output("y")
    graph.compile()
    t, y = graph.run({"x": x})
    want = x * np.float32(0.75)
    same(t, want)
    rows_ = want[:, :, ::2] if kernel == 1 else np.maximum(want[:, :, ::2], want[:, :, 1::2])
    same(y, rows_[:, :, :, ::2].copy())


def test_overlapping_saves_modelled_time(toolkit: Toolkit) -> None:
    """One group of two layers must be faster than the layers one after the other through DDR."""
    from firmware_sim.device.client import Device

    device = toolkit.device
    assert isinstance(device, Device)
    cycles = []
    x = sample((1, 64, 256, 256))
    for opt in (0, 2):
        graph = Graph(name="pair", toolkit=toolkit)
        graph.add_input("x", x.shape)
        graph.add_const_binary_layer("x", 1.5, "t", BINARY_MUL)
        graph.add_tpu_layer("TPU_DOUBLE", ["t"], None, ["y"])
        graph.compile(opt=opt)
        before = device.cycles
        (y,) = graph.run({"x": x})
        cycles.append(device.cycles - before)
        same(y, x * np.float32(1.5) * np.float32(2))
    assert cycles[1] < 0.75 * cycles[0], cycles


def test_several_outputs_constants_and_a_reshape(toolkit: Toolkit) -> None:
    x = sample((4, 6, 10))
    graph = Graph(name="outs", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_const("k", sample((4, 6, 10), 5))
    graph.add_expand_dims_layer("x", -1, "e")
    graph.add_const_binary_layer("e", 3, "a", BINARY_ADD)
    graph.add_tpu_layer("TPU_DOUBLE", ["a"], None, ["b"])
    graph.add_tpu_layer("TPU_DOUBLE", ["k"], None, ["c"])
    for name in ("c", "a", "b"):
        graph.add_output(name)
    a = x[..., None] + np.float32(3)
    for dynamic in (False, True):
        graph.compile(dynamic)
        for got, want in zip(graph.run({"x": x}), (sample((4, 6, 10), 5) * 2, a, a * 2), strict=True):
            same(got, want)


def test_a_dynamic_net_takes_smaller_shapes(toolkit: Toolkit) -> None:
    graph = Graph(name="dyn", toolkit=toolkit)
    graph.add_input("x", (4, 64, 40, 30))
    graph.add_tpu_layer("TPU_ROWS", ["x"], None, ["t"])
    graph.add_tpu_layer("TPU_DOUBLE", ["t"], None, ["y"])
    graph.compile(dynamic=True)
    for shape in ((4, 64, 40, 30), (1, 64, 7, 30), (3, 64, 1, 1)):
        x = sample(shape)
        (y,) = graph.run({"x": x})
        same(y, rows(x) * np.float32(2))


def test_the_directory_holds_what_the_emulator_computes(toolkit: Toolkit, tmp_path: Path) -> None:
    x = sample((2, 3, 4, 5))
    graph = Graph(name="dir", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_tpu_layer("TPU_DOUBLE", ["x"], None, ["y"])
    graph.compile(directory=tmp_path / "out", ref_inputs={"x": x})
    assert (tmp_path / "out" / "output_ref_data.dat").read_bytes() == (x * np.float32(2)).tobytes()
    graph.compile(directory=tmp_path / "random")
    made = np.fromfile(tmp_path / "random" / "input_ref_data.dat", np.float32)
    want = made * np.float32(2)
    assert (tmp_path / "random" / "output_ref_data.dat").read_bytes() == want.tobytes()


def test_builtin_layers_need_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("TPULAYER_WORKSPACE", "BMCOMPILER_PLUGIN_PATH", "BMRUNTIME_FIRMWARE_PATH"):
        monkeypatch.delenv(variable, raising=False)
    x = sample((2, 3, 4))
    with Graph() as graph:
        graph.add_input("x", x.shape)
        graph.add_const_binary_layer("x", 2.5, "y", BINARY_ADD)
        graph.compile()
        same(graph.run({"x": x})[0], x + np.float32(2.5))
        with pytest.raises(UsageError, match="workspace's layers are \\(none\\)"):
            graph.add_tpu_layer("TPU_DOUBLE", ["y"], None, ["z"])


def test_a_layer_that_refuses_its_parameters_is_named(toolkit: Toolkit) -> None:
    graph = Graph(toolkit=toolkit)
    graph.add_input("x", (3, 4))
    graph.add_tpu_layer("TPU_CROP", ["x"], {"before": (5,)}, ["y"])
    with pytest.raises(CompileError, match=r"crop_0 \(TPU_CROP, test_compiler_end_to_end.py:\d+\)"):
        graph.compile()
    with pytest.raises(UsageError, match=r"test_compiler_end_to_end.py:\d+: layer .*befor"):
        graph.add_tpu_layer("TPU_CROP", ["x"], {"befor": (1,)}, ["z"])
