"""Dynamic nets whose layers run in groups: results for the largest shape and smaller ones, commands, time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.device.client import Device
from firmware_sim.isa import timing
from firmware_sim.wire import SHRINKS, StepOp
from tests.support.examples import examples
from tests.support.group_graphs import GRAPHS, PICKS, Branches, grown
from tests.support.window_layers import sample, window_param
from tests.support.workspaces import layers_toolkit
from tpulayer import Graph
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.grouping import Alone, Group
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.plan import Plan
from user_layers.compiler.prepare import prepare_constants
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit

Array = NDArray[np.float32]


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """A built workspace with the layers crop, double and rows."""
    with layers_toolkit(tmp_path_factory, "compiler_layers") as toolkit:
        yield toolkit


def planned(graph: Graph, opt: int = 2) -> Plan:
    described = prepare_constants(gather_attributes(infer_shapes(graph), graph.toolkit))
    return plan_net(described, dynamic=True, opt=opt)


def groups(plan: Plan) -> list[Group]:
    return [s for s in plan.schedule.segments if isinstance(s, Group)]


def group_types(plan: Plan) -> list[int]:
    """What the program says of each group (SHRINKS or -1)."""
    (program,) = plan.programs
    assert program is not None
    return [step.op_type for step in program.steps if step.opcode is StepOp.GROUP]


def timed(graph: Graph, x: Array) -> tuple[list[NDArray[np.generic]], float]:
    """The results, and modelled cycles."""
    device = graph.toolkit.device
    assert isinstance(device, Device)
    before = device.cycles
    return graph.run({"x": x}), device.cycles - before


def same(got: list[NDArray[np.generic]], want: list[NDArray[np.generic]]) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32))


def reference(graph: Graph, shape: tuple[int, ...], build: object, x: Array) -> list[NDArray[np.generic]]:
    """What a static net for this shape gives, layer by layer in DDR."""
    assert callable(build)
    static = build(graph.toolkit, shape)
    static.compile(opt=0)
    results: list[NDArray[np.generic]] = static.run({"x": x})
    return results


def smaller(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every batch, and shapes that differ in more."""
    n, c, h, w = shape
    return [
        *((i, c, h, w) for i in range(n, 0, -1)),
        (n, c, h - 1, w),
        (n, c, h, w - 3),
        (n, c, h // 2, w),
        (max(n - 1, 1), c, h, w - 2),
        (1, c, h - 3, w - 1),
    ]


@pytest.mark.parametrize("opt", [1, 2])
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_groups_for_every_batch(toolkit: Toolkit, name: str, opt: int) -> None:
    """Smaller batches never take more time than the largest, which takes less than layer by layer."""
    shape = (3, 64, 14, 14)
    graph = GRAPHS[name](toolkit, shape)
    assert groups(planned(graph, opt))
    graph.compile(dynamic=True, opt=opt)
    cycles = []
    for n in (3, 2, 1):
        x = sample(n, *shape[1:], seed=n)
        got, time = timed(graph, x)
        same(got, reference(graph, x.shape, GRAPHS[name], x))
        cycles.append(time)
    assert cycles[0] >= cycles[1] >= cycles[2]
    ungrouped = GRAPHS[name](toolkit, shape)
    ungrouped.compile(dynamic=True, opt=0)
    assert cycles[0] < timed(ungrouped, sample(*shape, seed=3))[1]


def windows(toolkit: Toolkit, shape: tuple[int, ...]) -> Graph:
    """Strides that leave rows and columns over at the end, pads, pools and a transposed convolution."""
    b = Branches(toolkit, shape)
    x = b.conv(b.input, 70, 3, 2)
    x = b.conv(x, 70, 3, 2, groups=70)
    y = b.pool(x, 2, 2)
    y = b.concat(b.pool(y, 3, 1, 1), b.conv(y, 64, 1))
    (y,) = b.graph.add_tpu_layer("TPU_UPSAMPLE", [y], {"scale_h": 2, "scale_w": 2}, ["up"])
    weights = b.graph.add_const("dw", sample(134, 24, 3, 3, seed=3))
    turned = window_param((3, 3), (2, 2), (1,) * 4, (1, 1)) | {"groups": 1}
    (y,) = b.graph.add_tpu_layer("TPU_DECONV", [y, weights], turned, ["turned"])
    around = {"mode": 0, "before": (0, 0, 1, 0), "after": (0, 0, 0, 2), "value": 0.5}
    b.graph.add_tpu_layer("TPU_PAD", [y], around, ["y"])
    return b.graph


SIZES = {**GRAPHS, "windows": windows}


@pytest.mark.parametrize("name", sorted(SIZES))
def test_smaller_heights_and_widths(toolkit: Toolkit, name: str) -> None:
    """In tiles too, cut over h: never slower than the largest shape, nor than layer by layer."""
    shape = (1, 64, 60, 52)
    graph, ungrouped = (SIZES[name](toolkit, shape) for _ in range(2))
    graph.compile(dynamic=True, opt=1)
    ungrouped.compile(dynamic=True, opt=0)
    largest = timed(graph, sample(*shape, seed=1))[1]
    for height, width in ((59, 51), (45, 52), (60, 27), (26, 25), (9, 8)):
        x = sample(1, 64, height, width, seed=height)
        got, cycles = timed(graph, x)
        want, alone = timed(ungrouped, x)
        same(got, want)
        assert cycles <= largest and cycles < alone


def test_inputs_that_are_not_alike_any_more_run_in_ddr(toolkit: Toolkit) -> None:
    """One of them is repeated now, for which tiles were not planned."""
    graph = Graph(name="sum", toolkit=toolkit)
    names = [graph.add_input(name, (1, 5, 6, 7)) for name in "ab"]
    graph.add_tpu_layer("TPU_BINARY", names, {"binary_op": BINARY_ADD}, ["sum"])
    graph.add_const_binary_layer("sum", 2.0, "y", BINARY_MUL)
    assert group_types(planned(graph, 1)) == [SHRINKS]
    graph.compile(dynamic=True, opt=1)
    for a, b in (((3, 7), (3, 7)), ((3, 7), (1, 7)), ((6, 1), (6, 7)), ((1, 1), (1, 1))):
        values = {"a": sample(1, 5, *a), "b": sample(1, 5, *b, seed=1)}
        same(graph.run(values), [(values["a"] + values["b"]) * np.float32(2)])


def test_which_layers_of_the_user_shrink(layers: Toolkit) -> None:
    """Those that need the same rows of their input that they make: not a window of three."""
    shape = (1, 65, 12, 13)
    assert group_types(planned(chain(layers, shape), 1)) == [-1]
    graph = Graph(name="twice", toolkit=layers)
    graph.add_input("x", shape)
    graph.add_tpu_layer("TPU_DOUBLE", ["x"], None, ["doubled"])
    graph.add_tpu_layer("TPU_DOUBLE", ["doubled"], None, ["y"])
    assert group_types(planned(graph, 1)) == [SHRINKS]
    graph.compile(dynamic=True, opt=1)
    for now in ((1, 65, 12, 13), (1, 65, 7, 13), (1, 65, 12, 1)):
        x = sample(*now)
        same(graph.run({"x": x}), [x * np.float32(4)])


@pytest.mark.slow
@examples(12)
@given(
    shape=st.sampled_from(
        [(2, 32, 12, 13), (5, 48, 9, 9), (3, 70, 8, 8), (2, 3, 250, 260), (5, 64, 90, 100)]
    ),
    picks=PICKS,
    opt=st.sampled_from([1, 2]),
)
def test_random_nets(
    toolkit: Toolkit, shape: tuple[int, ...], picks: list[tuple[int, int, int]], opt: int
) -> None:
    graph = grown(toolkit, shape, picks)
    graph.compile(dynamic=True, opt=opt)
    for now in smaller(shape):
        x = sample(*now, seed=sum(now))
        same(graph.run({"x": x}), reference(graph, now, lambda t, s: grown(t, s, picks), x))


def chain(toolkit: Toolkit, shape: tuple[int, ...]) -> Graph:
    """The user's own layers between built-in ones; crop's tiles have a window of another place."""
    graph = Graph(name="chain", toolkit=toolkit)
    graph.add_input("x", shape)
    graph.add_tpu_layer("TPU_CROP", ["x"], {"before": (0, 0, 1, 2), "after": (0, 0, 1, 0)}, ["cut"])
    graph.add_const_binary_layer("cut", 0.75, "scaled", BINARY_MUL)
    graph.add_tpu_layer("TPU_ROWS", ["scaled"], {"scratch": 20_000}, ["summed"])
    graph.add_tpu_layer("TPU_DOUBLE", ["summed"], None, ["y"])
    return graph


@pytest.mark.parametrize("firmware", ["native", "arm"])
def test_layers_of_the_user(layers: Toolkit, firmware: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In tiles over n and over h, with every check."""
    monkeypatch.setenv("TPULAYER_CHECK", "all")
    with Toolkit(layers.workspace, firmware=firmware) as toolkit:
        shape = (3, 65, 40, 60)
        graph = chain(toolkit, shape)
        (group,) = groups(planned(graph, opt=1))
        assert group.counts[0] == 3
        graph.compile(dynamic=True, opt=1)
        for now in smaller(shape):
            x = sample(*now, seed=sum(now))
            same(graph.run({"x": x}), reference(graph, now, chain, x))


def test_batches_end_inside_of_tiles(toolkit: Toolkit) -> None:
    """Those of the parts of concatenations do too."""
    shape = (5, 70, 56, 60)
    b = Branches(toolkit, shape)
    x = b.scale(b.input, 1.5)
    b.pool(b.concat(b.conv(x, 24, 1), b.conv(x, 96), x))
    graph = b.graph
    found = groups(planned(graph, opt=1))
    assert any(group.counts[0] > 1 for group in found)
    graph.compile(dynamic=True, opt=1)
    x5 = sample(*shape, seed=5)
    (want,) = graph.run({"x": x5})
    for n in range(1, 5):
        (got,) = graph.run({"x": x5[:n]})
        same([got], [want[:n]])


def test_what_stays_outside(layers: Toolkit) -> None:
    """A layer without a local function and a reshape are called on DDR data between groups."""
    graph = Graph(name="mixed", toolkit=layers)
    graph.add_input("x", (2, 8, 6, 6))
    graph.add_tpu_layer("TPU_DOUBLE", ["x"], None, ["a"])
    graph.add_tpu_layer("TPU_RESHAPE", ["a"], {"dims": 4, "shape": (2, 8, 36, 1)}, ["b"])
    graph.add_tpu_layer("TPU_DOUBLE", ["b"], None, ["y"])
    plan = planned(graph, opt=1)
    (program,) = plan.programs
    assert program is not None
    opcodes = [step.opcode for step in program.steps]
    assert opcodes.count(StepOp.GROUP) == 2 and opcodes.count(StepOp.GLOBAL) == 3
    assert not any(isinstance(segment, Alone) for segment in plan.schedule.segments)
    graph.compile(dynamic=True, opt=1)
    x = sample(2, 8, 6, 6)
    same(graph.run({"x": x}), [(x * np.float32(4)).reshape(2, 8, 36, 1)])


def test_opt_0_has_no_groups(toolkit: Toolkit) -> None:
    plan = planned(GRAPHS["fire"](toolkit, (2, 64, 14, 14)), opt=0)
    (program,) = plan.programs
    assert program is not None and {step.opcode for step in program.steps} == {StepOp.GLOBAL}


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_the_clock_of_the_search_is_the_one_of_the_run(toolkit: Toolkit, name: str) -> None:
    """The controller's time for each command is in what groups are chosen by, and in the report."""
    shape = (2, 64, 28, 28)
    graph = GRAPHS[name](toolkit, shape)
    found = groups(planned(graph))
    (stage,) = graph.compile(dynamic=True, report=True).report
    reports = stage.parts[0].groups
    _, cycles = timed(graph, sample(*shape))
    if sum(len(group.nodes) for group in found) == len(graph.nodes):
        launch = timing.launch(sum(report.work.traffic.read for report in reports))
        together = sum(report.work.cycles for report in reports)
        assert cycles == pytest.approx(together + launch, rel=0.06)
    for group, report in zip(found, reports, strict=True):
        assert group.cycles == pytest.approx(report.work.cycles, rel=0.06)


def test_log_and_report_show_groups(toolkit: Toolkit) -> None:
    graph = GRAPHS["residual"](toolkit, (2, 64, 14, 14))
    net = graph.compile(dynamic=True, report=True)
    plan = planned(graph)
    nodes = plan.described.net.nodes
    assert any(line.count("dynamic, local, group 0, ") for line in net.log)
    (stage,) = net.report
    (part,) = stage.parts
    assert [report.nodes for report in part.groups] == [
        tuple(nodes[k].name for k in group.nodes) for group in groups(plan)
    ]
    assert part.kind == "dynamic" and part.work is None and not stage.recorded
    assert all(report.work.cycles > 0 for report in part.groups)
