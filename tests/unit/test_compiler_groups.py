"""Groups chosen by modelled cycles: what is chosen, what it costs, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.timeline import Timer
from tests.support.compiler_fakes import FakeLayer, FakeToolkit, global_layer, local_layer, window_layer
from tests.support.examples import examples
from tests.support.group_graphs import GRAPHS, PICKS, Branches, grown, run_input
from tpulayer import Graph
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.fitting import Group, fit_counts, fit_group
from user_layers.compiler.flow import OpKind
from user_layers.compiler.grouping import Alone, Elided
from user_layers.compiler.pipeline import plan_net
from user_layers.compiler.plan import Plan
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.stacked import stack_rows
from user_layers.graph.shapes import infer_shapes
from user_layers.net.compiled import StaticBody
from user_layers.toolkit import Toolkit


def planned(graph: Graph, opt: int = 2) -> Plan:
    return plan_net(prepare_constants(gather_attributes(infer_shapes(graph), graph.toolkit)), opt=opt)


def modelled(graph: Graph, opt: int) -> float:
    """Cycles of the commands that compiling gives."""
    net = graph.compile(opt=opt)
    (body,) = (subnet.body for subnet in net.stages[0].subnets)
    assert isinstance(body, StaticBody)
    timer = Timer()
    return sum(timer.timeline(group).cycles for group in body.groups)


def text(plan: Plan) -> str:
    """The schedule, a line for each op of a group, without cycles."""
    net, lines = plan.described.net, []
    for segment in plan.schedule.segments:
        if isinstance(segment, Elided):
            lines.append(f"elided {net.nodes[segment.node].name}")
        elif isinstance(segment, Alone):
            lines.append(f"alone {net.nodes[segment.node].name}: {segment.reason}")
        else:
            local = segment.local
            cut = " ".join(f"{axis}={count}" for axis, count in zip("nhw", segment.counts, strict=True))
            lines.append(f"group {cut}, {local.used} bytes")
            for v in local.values:
                marks = [w for w, on in (("loaded", v.loaded), ("once", v.once), ("stored", v.stored)) if on]
                lines.append(f"  {v.tensor} {v.ttype.name} {' '.join(marks)} {v.nbytes} at {list(v.offsets)}")
            for i, op in enumerate(local.ops):
                name = (
                    local.values[op.which].tensor
                    if op.kind in (OpKind.LOAD, OpKind.STORE)
                    else net.nodes[op.which].name + (f" {op.index}" if op.kind is OpKind.MOVE else "")
                )
                wait = f", after {op.after}" if op.after >= 0 else ""
                lines.append(f"  {i}: {op.kind.value} {name} tile {op.tile}{wait}")
    return "\n".join(lines) + "\n"


def windows(plan: Plan) -> str:
    """What each tile of the groups has of every tensor: first and extent along n, h, w."""
    lines = []
    for segment in plan.schedule.segments:
        if isinstance(segment, Group):
            for number, axes in enumerate(segment.tiling.tiles()):
                lines.append(f"tile {number}")
                for name in axes[0].made:
                    lines.append(f"  {name} made {[axis.made[name].region for axis in axes]}")
                for k, i in axes[0].read:
                    name = plan.described.net.nodes[k].inputs[i]
                    parts = [(w.first, w.extent, w.pad) for w in (axis.read[k, i] for axis in axes)]
                    lines.append(f"  {name} read by {plan.described.net.nodes[k].name} {parts}")
    return "\n".join(lines) + "\n"


# ---- what is chosen ----


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_schedules_of_small_nets(toolkit: Toolkit, golden: Callable[[str, str], None], name: str) -> None:
    graph = GRAPHS[name](toolkit, (1, 64, 14, 14))
    plan = planned(graph)
    golden(f"compiler/groups_{name}.txt", text(plan))
    assert text(planned(GRAPHS[name](toolkit, (1, 64, 14, 14)))) == text(plan)


@pytest.mark.parametrize("name", sorted(GRAPHS))
@pytest.mark.parametrize(
    "shape", [(1, 64, 14, 14), pytest.param((4, 64, 28, 28), marks=pytest.mark.slow, id="large")]
)
def test_the_model_is_what_the_commands_take(toolkit: Toolkit, name: str, shape: tuple[int, ...]) -> None:
    graph = GRAPHS[name](toolkit, shape)
    plan = planned(stack_rows(graph, infer_shapes(graph)) or graph)  # compiling plans what is rewritten
    want = sum(s.cycles for s in plan.schedule.segments if not isinstance(s, Elided))
    assert modelled(graph, 2) == pytest.approx(want, rel=0.02)
    assert modelled(graph, 2) <= modelled(graph, 0)


def test_a_layer_that_is_slower_in_tiles_runs_alone(toolkit: Toolkit) -> None:
    b = Branches(toolkit, (1, 1500, 7, 7))
    b.conv(b.input, 2000, 1)
    graph = b.graph
    (segment,) = planned(graph).schedule.segments
    assert min(modelled(graph, opt) for opt in (0, 1)) >= modelled(graph, 2) * 0.999
    assert segment.cycles == pytest.approx(modelled(graph, 2), rel=0.02)  # type: ignore[union-attr]


@pytest.mark.parametrize("axis", ["n", "h"])
def test_branches_are_cut_with_their_group(
    toolkit: Toolkit, golden: Callable[[str, str], None], axis: str
) -> None:
    shape = (6, 64, 110, 110) if axis == "n" else (1, 8, 330, 320)
    b = Branches(toolkit, shape)
    c = shape[1]
    b.add(b.conv(b.conv(b.conv(b.input, c, 1), c), c, 1), b.input)
    described = gather_attributes(infer_shapes(b.graph), toolkit)
    counts = (3, 1, 1) if axis == "n" else (1, 5, 1)
    group = fit_counts(described, tuple(range(len(described.net.nodes))), counts, None)
    assert isinstance(group, Group) and group.tiling.count == max(counts)
    x = [v for v in group.local.values if v.tensor == "x"]
    assert len(x) == 1  # one tile for both readers
    plan = planned(b.graph, opt=1)
    assert any(isinstance(s, Group) and s.tiling.count > 1 for s in plan.schedule.segments)
    golden(f"compiler/cut_over_{axis}.txt", text(plan) + windows(plan))


# ---- concatenations ----


def join_layer() -> FakeLayer:
    from firmware_sim.wire import TensorRecord

    def shape(inputs: Sequence[TensorRecord], param: bytes) -> list[TensorRecord]:
        n, _, *rest = inputs[0].shape
        return [TensorRecord((n, sum(t.shape[1] for t in inputs), *rest), inputs[0].dtype)]

    layer = global_layer("TPU_JOIN", 6, is_concat_layer=lambda: True)
    layer.shape = shape
    return layer


def grow_layer(op_type: int, channels: int) -> FakeLayer:
    """A local layer that gives so many channels."""
    from firmware_sim.wire import TensorRecord

    layer = local_layer(f"TPU_C{channels}", op_type)
    layer.shape = lambda inputs, param: [
        TensorRecord((inputs[0].shape[0], channels, *inputs[0].shape[2:]), inputs[0].dtype)
    ]
    return layer


WIDTHS = (16, 48, 64, 96, 128)
LAYERS = (
    join_layer(),
    local_layer("TPU_IN", 7, can_inplace=True),
    window_layer("TPU_WIN", 8, kernel=3, pad=1, accepts_larger_tiles=True),
    *(grow_layer(10 + i, c) for i, c in enumerate(WIDTHS)),
)


@st.composite
def nets(draw: st.DrawFn) -> Graph:
    """Random nets of concatenations, windows and layers that work in place."""
    graph = Graph(toolkit=FakeToolkit(*LAYERS))
    side = draw(st.sampled_from([9, 40, 150]))
    names = [
        graph.add_input("x", (draw(st.sampled_from([1, 1, 3])), draw(st.sampled_from(WIDTHS)), side, side))
    ]
    for i in range(draw(st.integers(2, 9))):
        a, b = (names[draw(st.integers(max(0, len(names) - 4), len(names) - 1))] for _ in range(2))
        kind = draw(st.sampled_from(["join", "join", "TPU_IN", "TPU_WIN", "grow", "grow"]))
        if kind == "grow":
            kind = f"TPU_C{draw(st.sampled_from(WIDTHS))}"
        inputs = [a, b] if kind == "join" and len(names) > 1 else [a]
        op = "TPU_JOIN" if kind == "join" else kind
        graph.add_tpu_layer(op, inputs, None, [f"t{i}"])
        if graph_channels(graph, f"t{i}") > 1000:
            break
        names.append(f"t{i}")
    return graph


def graph_channels(graph: Graph, name: str) -> int:
    return infer_shapes(graph).tensors[name].shape[1]


@examples(60)
@given(nets(), st.sampled_from([1, 2]))
def test_concatenated_parts_are_where_readers_expect_them(graph: Graph, opt: int) -> None:
    planned(graph, opt)  # the compiler verifies its program


def test_a_part_that_begins_on_the_first_npu_is_made_in_place() -> None:
    graph = Graph(toolkit=FakeToolkit(*LAYERS))
    graph.add_input("x", (1, 64, 8, 8))
    for i, op in enumerate(("TPU_C64", "TPU_C96", "TPU_C16")):
        graph.add_tpu_layer(op, ["x"], None, [f"p{i}"])
    graph.add_tpu_layer("TPU_JOIN", ["p0", "p1", "p2"], None, ["y"])
    described = gather_attributes(infer_shapes(graph), graph.toolkit)
    group = fit_group(described, (0, 1, 2, 3))
    assert isinstance(group, Group)
    places = {v.tensor: v.offsets[0] for v in group.local.values}
    plane = 256
    assert places["p0"] == places["y"] and places["p1"] == places["y"] + plane
    moves = [op for op in group.local.ops if op.kind is OpKind.MOVE]
    assert [op.index for op in moves] == [2]


# ---- results ----


@pytest.mark.slow
@examples(12)
@given(
    shape=st.sampled_from(
        [(1, 32, 12, 13), (2, 48, 9, 9), (3, 70, 8, 8), (1, 3, 250, 260), (5, 64, 90, 100)]
    ),
    picks=PICKS,
)
def test_grouped_nets_give_the_same_bits(
    toolkit: Toolkit, shape: tuple[int, ...], picks: list[tuple[int, int, int]]
) -> None:
    """Random nets with branches, on the emulator: alone, by the cheap rule and by cycles."""
    graph = grown(toolkit, shape, picks)
    data = run_input(graph)
    results = []
    for opt in (0, 1, 2):
        graph.compile(opt=opt)
        results.append(graph.run(data))
    for other in results[1:]:
        for a, c in zip(results[0], other, strict=True):
            assert np.array_equal(a.view(np.uint32), c.view(np.uint32))


def test_a_layer_beside_a_part_that_is_there_already(toolkit: Toolkit) -> None:
    """A concatenation's second part, of 24 channels, is made first and copied behind the 104 of the first,
    into the last lanes of the memory in which that one is made then."""
    b = Branches(toolkit, (1, 16, 14, 14))
    second = b.scale(b.conv(b.input, 24, 1), 2.0)
    first = b._add("TPU_UNARY", [b.conv(b.input, 104, 1)], {"unary_op": 0, "a": 0, "b": 0})
    b.conv(b.concat(first, second), 32, 1)
    results = []
    for opt in (0, 2):
        b.graph.compile(opt=opt)
        results.append(b.graph.run(run_input(b.graph)))
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_nets_with_branches_give_the_same_bits(toolkit: Toolkit, name: str) -> None:
    """But where opt 2 makes several rows at once, whose sums have another order."""
    graph = GRAPHS[name](toolkit, (2, 64, 20, 18))
    data = run_input(graph)
    results, logs = [], list[str]()
    for opt in (0, 1, 2):
        logs.clear()
        graph.compile(opt=opt, log=logs.append)
        results.append(graph.run(data))
    stacked = any("DEPTH_TO_SPACE" in line for line in logs)
    assert stacked or name != "inception"
    for x, y, z in zip(*results, strict=True):
        assert np.array_equal(x.view(np.uint32), y.view(np.uint32))
        if stacked:
            assert np.abs(y - z).max() <= 2e-6 * np.abs(y).max()
        else:
            assert np.array_equal(y.view(np.uint32), z.view(np.uint32))
