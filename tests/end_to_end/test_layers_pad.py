"""TPU_PAD in local memory: what is mirrored or repeated around rows and columns, in any tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.wire import SHRINKS, StepOp
from tests.support.examples import examples
from tests.support.layer_checks import Array, same, sample
from tests.support.window_layers import window_param
from tpulayer import Graph
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.pipeline import compile_graph, plan_net
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.tiling import Ends
from user_layers.graph import BINARY_ADD
from user_layers.graph.shapes import infer_shapes
from user_layers.runtime.references import run_net
from user_layers.toolkit import Toolkit

MODES = {1: "reflect", 2: "edge", 3: "wrap"}
Pads = tuple[int, int, int, int]  # above, below, left, right


def param_of(mode: int, pads: Pads) -> dict[str, Any]:
    top, bottom, left, right = pads
    return {"mode": mode, "before": (0, 0, top, left), "after": (0, 0, bottom, right)}


def padded(x: Array, mode: int, pads: Pads) -> Array:
    width = ((0, 0), (0, 0), pads[:2], pads[2:])
    numpy: Any = np.pad  # its annotations know one mode at a time
    found: Array = numpy(x, width[: x.ndim], MODES[mode])
    return found


def between(toolkit: Toolkit, x: Array, mode: int, pads: Pads) -> Graph:
    """The layer with others around it, so that it is in a group where it can be."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape, x.dtype, scale=0.5 if x.itemsize == 1 else None)
    once = {"scale_h": 1, "scale_w": 1}
    graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], once, ["a"])
    graph.add_tpu_layer("TPU_PAD", ["a"], param_of(mode, pads), ["b"], name="it")
    graph.add_tpu_layer("TPU_UPSAMPLE", ["b"], once, ["y"])
    return graph


@st.composite
def ends(draw: st.DrawFn, extent: int, unit: int = 1) -> tuple[int, ...]:
    """Up to five slices, some of a single element."""
    places = draw(st.sets(st.integers(1, max(1, (extent - 1) // unit)), max_size=4))
    return (*(p * unit for p in sorted(places) if p * unit < extent), extent)


@examples(60)
@given(
    shape=st.tuples(st.integers(1, 5), st.sampled_from([1, 3, 65]), st.integers(1, 9), st.integers(1, 9)),
    mode=st.sampled_from([1, 2]),
    pads=st.tuples(*[st.sampled_from([0, 0, 1, 2, 3, 8, 11])] * 4),
    dtype=st.sampled_from(["float32", "int32", "int8"]),
    data=st.data(),
)
def test_any_tiles(
    toolkit: Toolkit, shape: tuple[int, ...], mode: int, pads: Pads, dtype: str, data: st.DataObject
) -> None:
    """Some lie wholly in what is around the tensor, whose extent may be less than that."""
    x = sample(shape, dtype)
    want = padded(x, mode, pads)
    n, h, w = (data.draw(ends(want.shape[d], 4 if dtype == "int8" and d == 0 else 1)) for d in (0, 2, 3))
    in_tiles(toolkit, x, mode, pads, Ends(n, h, w))


def in_tiles(toolkit: Toolkit, x: Array, mode: int, pads: Pads, cut: Ends) -> None:
    net = compile_graph(between(toolkit, x, mode, pads), opt=1, ends=cut)
    assert "static, local, group 0" in next(line for line in net.log if line.startswith("PAD it"))
    same(run_net(net, toolkit, {"x": x})[0], padded(x, mode, pads))


def test_tiles_with_some_of_the_columns_that_are_mirrored_twice(toolkit: Toolkit) -> None:
    """All five stand in order at the beginning of the first tile, which has only two of them else."""
    in_tiles(toolkit, sample((1, 3, 4, 5)), 1, (0, 0, 8, 0), Ends((1,), (4,), (10, 13)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "pads", "where"),
    [
        ((1, 64, 250, 300), (3, 3, 3, 3), "over h"),
        ((1, 3, 2, 3), (40, 30, 0, 200), "local"),
        ((2, 70, 900), (3, 4, 0, 0), "local"),
        ((1, 3, 4, 5), (-1, 2, 0, 0), "global"),
    ],
)
def test_in_groups(toolkit: Toolkit, shape: tuple[int, ...], pads: Pads, where: str, mode: int) -> None:
    """What is wrapped around never is."""
    x = numbers(*shape)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape)
    graph.add_tpu_layer("TPU_PAD", ["x"], param_of(mode, pads), ["a"], name="it")
    graph.add_const_binary_layer("a", 1.0, "y", BINARY_ADD)
    lines: list[str] = []
    graph.compile(log=lines.append)
    assert ("global" if mode == 3 else where) in next(line for line in lines if line.startswith("PAD it"))
    inner = x[:, :, max(0, -pads[0]) :]
    want = padded(inner, mode, (max(0, pads[0]), *pads[1:]))
    same(graph.run({"x": x})[0], want + np.float32(1))


def pooled(graph: Graph, x: str, mode: int, reach: int) -> str:
    """The largest in each window, padded so that the extent stays."""
    (wide,) = graph.add_tpu_layer("TPU_PAD", [x], param_of(mode, (reach,) * 4), [f"{x}_p{reach}"])
    param = {"mode": 0, **window_param((2 * reach + 1,) * 2, (1, 1), (0,) * 4, (1, 1))}
    (y,) = graph.add_tpu_layer("TPU_POOL", [wide], param, [f"{x}_m{reach}"])
    return y


def largest(x: Array, mode: int, reach: int) -> Array:
    """The same."""
    wide, side = padded(x, mode, (reach,) * 4), 2 * reach + 1
    found: Array = np.lib.stride_tricks.sliding_window_view(wide, (side, side), (2, 3)).max((4, 5))
    return found


def residual(toolkit: Toolkit, shape: tuple[int, ...], mode: int) -> Graph:
    """Two windows beside a shortcut."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape)
    y = pooled(graph, pooled(graph, "x", mode, 1), mode, 1)
    graph.add_tpu_layer("TPU_BINARY", [y, "x"], {"binary_op": BINARY_ADD}, ["y"])
    return graph


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("mode", [1, 2])
def test_shared_tiles(toolkit: Toolkit, mode: int) -> None:
    """Pads of one tensor that need different tiles of it take one that holds them all."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 5, 31, 20))
    graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], {"scale_h": 1, "scale_w": 1}, ["a"])
    both = [pooled(graph, "a", mode, reach) for reach in (1, 2)]
    graph.add_tpu_layer("TPU_BINARY", both, {"binary_op": BINARY_ADD}, ["y"])
    net = compile_graph(graph, opt=1, ends=Ends((1,), (1, 9, 30, 31), (4, 20)))
    assert sum("local, group 0" in line for line in net.log) == 6
    x = numbers(1, 5, 31, 20)
    same(run_net(net, toolkit, {"x": x})[0], largest(x, mode, 1) + largest(x, mode, 2))


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize(("shape", "shrinks"), [((2, 40, 20, 21), True), ((1, 3, 300, 260), False)])
def test_smaller_heights_and_widths(
    toolkit: Toolkit, shape: tuple[int, ...], shrinks: bool, mode: int
) -> None:
    """In a dynamic net tiles get smaller with the tensor where all of them begin at its first element; those
    that are cut would need other rows then."""
    graph = residual(toolkit, shape, mode)
    described = prepare_constants(gather_attributes(infer_shapes(graph), toolkit))
    plan = plan_net(described, dynamic=True, opt=1)
    (program,) = plan.programs
    assert program is not None
    kinds = [step.op_type for step in program.steps if step.opcode is StepOp.GROUP]
    assert kinds and all(kind == SHRINKS for kind in kinds) is shrinks
    graph.compile(dynamic=True, opt=1)
    n, c, h, w = shape
    for now in ((n, c, h, w), (1, c, h - 1, w), (n, c, h, w - 3), (1, c, 2, 3), (n, c, 1, 1)):
        x = numbers(*now)
        same(graph.run({"x": x})[0], largest(largest(x, mode, 1), mode, 1) + x)
