"""The search for groups: never worse than the cheap rule, and honest where it was cut short."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.wire import Program
from tests.support.compiler_fakes import FakeToolkit, window_layer
from tests.support.examples import examples
from tests.support.group_graphs import Branches
from tests.unit.test_compiler_groups import modelled, planned, text
from tpulayer import Graph
from user_layers.compiler import local_memory, search
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.cost_model import MeasuredCost
from user_layers.compiler.division import Cost, Way, Ways
from user_layers.compiler.fitting import Group, Work, fit_group
from user_layers.compiler.grouping import Alone
from user_layers.compiler.pipeline import compile_graph
from user_layers.compiler.plan import Plan
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.tiles import CutGroup
from user_layers.compiler.tiling import Infeasible
from user_layers.compiler.trials import Trial, Trials
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit


def described(graph: Graph) -> DescribedNet:
    return prepare_constants(gather_attributes(infer_shapes(graph), graph.toolkit))


def random_net(toolkit: Toolkit, shape: tuple[int, ...], picks: Sequence[tuple[int, int, int]]) -> Graph:
    """Convolutions, sums, pools and scalings that read what was made before."""
    b = Branches(toolkit, shape)
    names = [b.input]
    for kind, first, width in picks:
        x = names[-1 - first % len(names)]
        same = next(n for n in names if b.graph.shape(n) == b.graph.shape(x))
        if kind < 2:
            names.append(b.conv(x, (16, 33, 64)[width], 1 + 2 * kind))
        elif kind == 2:
            names.append(b.add(x, same))
        elif kind == 3:
            names.append(b.pool(x, 3, 1 + width % 2))
        else:
            names.append(b.scale(x, 0.5 + width))
    return b.graph


PICKS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=9)
SHAPES = st.sampled_from([(1, 32, 12, 13), (3, 70, 8, 8), (1, 3, 250, 260), (2, 64, 90, 100)])


@pytest.mark.parametrize("least", [None, 200])
@examples(5)
@given(SHAPES, PICKS)
def test_the_search_is_never_worse_than_the_cheap_rules(
    toolkit: Toolkit, least: int | None, shape: tuple[int, ...], picks: list[tuple[int, int, int]]
) -> None:
    """By the commands that are stored; with all the work it wants, and with hardly any."""
    graph = random_net(toolkit, shape, picks)
    with pytest.MonkeyPatch.context() as patch:
        if least is not None:
            patch.setattr(search, "LEAST", least)
            patch.setattr(search, "PER_LAYER", 1)
        found = modelled(graph, 2)
    assert found <= min(modelled(graph, 0), modelled(graph, 1)) * 1.0001


def deep(toolkit: Toolkit, blocks: int, widths: Sequence[int] = (8,)) -> Graph:
    """Residual blocks, of these widths in turn."""
    b = Branches(toolkit, (1, 8, 6, 6))
    x = b.input
    for _, width in zip(range(blocks), itertools.cycle(widths), strict=False):
        x = b.add(b.conv(b.conv(x, width, 1), 8, 1), x)
    return b.graph


@examples(10)
@given(SHAPES, PICKS, st.data())
def test_equal_groups_are_planned_alike(
    toolkit: Toolkit, shape: tuple[int, ...], picks: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """What is known of a group from another place is what planning it there gives."""
    net = described(random_net(toolkit, shape, [*picks, *picks]))
    size = len(net.net.nodes)
    cost_model = MeasuredCost(net, toolkit.device)
    trials = Trials(net, cost_model, 1e9)
    for _ in range(12):
        start = data.draw(st.integers(0, size - 1))
        end = data.draw(st.integers(start + 1, min(size, start + 5)))
        tried = trials.fit(start, end, (1, 1, 1))
        fresh = fit_group(net, tuple(range(start, end)), cost_model)
        if isinstance(fresh, Infeasible):
            assert isinstance(tried, Infeasible) and tried.lacks_room == fresh.lacks_room
        else:
            assert isinstance(tried, Trial)
            assert (tried.counts, tried.cycles) == (fresh.counts, fresh.cycles)
            assert trials.group(start, end, tried) == fresh


def test_repeated_blocks_are_planned_once(toolkit: Toolkit) -> None:
    net = described(deep(toolkit, 6))
    trials = Trials(net, MeasuredCost(net, toolkit.device), 1e9)
    known = {trials.fit(start, start + 6, (1, 1, 1)) for start in range(0, 13, 3)}
    assert trials.planned == len(known) == 1
    trials.fit(12, 18, (1, 1, 1))  # the last two: their result is the net's output
    assert trials.planned == 1
    trials.fit(1, 7, (1, 1, 1))
    assert trials.planned == 2


def by_formula(self: MeasuredCost, program: Program) -> float:
    """Cycles that the elements of all tiles and tensors of a step give."""
    return 100 + sum(math.prod(t.tensor.slice_shape or t.tensor.shape) for t in program.tensors) / 64


def planned_calls(monkeypatch: pytest.MonkeyPatch, layers: int) -> int:
    """How many layer calls opt 2 plans for a net of so many different layers, the cheap rule's among them."""
    kinds = [
        window_layer(f"TPU_K{i}", i, kernel=1 + 2 * (i % 2), pad=i % 2, get_local_buffer_size=128 * i)
        for i in range(layers)
    ]
    graph = Graph(toolkit=FakeToolkit(*kinds))
    name = graph.add_input("x", (1, 64, 60, 60))
    for kind in kinds:
        (name,) = graph.add_tpu_layer(kind.op, [name], None, [f"t{kind.op_type}"])
    calls = 0
    init = local_memory._Planner.__init__

    def counting(self: local_memory._Planner, cut: CutGroup) -> None:
        nonlocal calls
        calls += len(cut.nodes) * cut.tiling.count
        init(self, cut)

    with monkeypatch.context() as patch:
        patch.setattr(local_memory._Planner, "__init__", counting)
        patch.setattr(MeasuredCost, "_measure", by_formula)
        planned(graph)
    return calls


def test_work_grows_as_the_net_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LEAST", 0)
    monkeypatch.setattr(search, "PER_LAYER", 20)
    few, more, most = (planned_calls(monkeypatch, n) for n in (50, 100, 200))
    assert few > 0 and more <= 2.5 * few and most <= 2.5 * more


def test_a_search_that_is_cut_short_says_so(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LEAST", 100)
    monkeypatch.setattr(search, "PER_LAYER", 1)
    graph = deep(toolkit, 8, (8, 16, 24, 40, 12))
    compiled = compile_graph(graph, report=True)
    (note,) = compiled.report[0].notes
    assert note.startswith("the search was at its limit (100 layer calls planned): not all groups of ")
    assert " of 24 layers" in note
    assert compiled.log[0] == note
    assert text(planned(graph)) == text(planned(graph))


def test_a_search_that_tried_all_says_nothing(toolkit: Toolkit) -> None:
    compiled = compile_graph(deep(toolkit, 2), report=True)
    assert compiled.report[0].notes == ()
    assert len(compiled.log) == len(compiled.report[0].nodes)


def test_why_a_layer_is_alone_where_the_search_did_not_look(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone it is slower than in the groups that nobody looked for."""
    b = Branches(toolkit, (1, 1500, 7, 7))
    b.scale(b.conv(b.scale(b.input, 2.0), 2000, 1), 2.0)
    reasons = alone(planned(b.graph))
    assert reasons and set(reasons) == {"faster alone, by modelled cycles"}
    monkeypatch.setattr(search, "LEAST", 1)
    monkeypatch.setattr(search, "PER_LAYER", 0)
    reasons = alone(planned(b.graph))
    assert reasons and set(reasons) == {"the search was at its limit"}


def alone(plan: Plan) -> list[str]:
    return [segment.reason for segment in plan.schedule.segments if isinstance(segment, Alone)]


def test_the_cheap_rule_is_known_to_a_search_without_work(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LEAST", 0)
    monkeypatch.setattr(search, "PER_LAYER", 0)
    graph = deep(toolkit, 3)
    (group,) = planned(graph).schedule.segments
    (cheap,) = planned(graph, opt=1).schedule.segments
    assert isinstance(group, Group) and isinstance(cheap, Group)
    assert group.nodes == cheap.nodes and group.counts == cheap.counts


@given(st.data())
def test_the_best_division_is_the_best_of_all(data: st.DataObject) -> None:
    """Against trying every one."""
    size = data.draw(st.integers(1, 6))
    costs = st.builds(Cost, st.integers(0, 9).map(float), st.integers(0, 2))
    single = {k: data.draw(costs) for k in range(size)}
    ways = Ways(single)
    known = {}
    for start, end in itertools.combinations(range(size + 1), 2):
        if data.draw(st.booleans()):
            known[start, end] = data.draw(costs)
            ways.add(Way(start, end, known[start, end], Trial((1, 1, 1), (1, 1, 1), 0.0, 0.0)))

    def every(at: int) -> list[Cost]:
        if at == size:
            return [Cost(0.0, 0)]
        found = [single[at] + rest for rest in every(at + 1)]
        return found + [
            cost + rest for (start, end), cost in known.items() if start == at for rest in every(end)
        ]

    best = ways.best(range(size))
    assert sum(best.costs, Cost(0.0, 0)) == min(every(0), key=lambda c: (c.cycles, c.traffic))
    for way in best.ways:
        assert best.around(range(way.start, way.end)) == (way.cost, range(way.start, way.end))


def test_work_that_is_set_aside_comes_back() -> None:
    work = Work(10)
    with work.at_most(4):
        assert not work.take(5) and work.take(3)
    assert work.left == 7
    with work.at_most(100):
        assert work.take(7)
    assert work.left == 0


def test_the_floor_of_a_group_is_below_its_cycles(toolkit: Toolkit) -> None:
    """What the search does not plan, because it could not be faster, is not."""
    net = described(deep(toolkit, 3, (8, 64)))
    trials = Trials(net, MeasuredCost(net, toolkit.device), 1e9)
    ones = [trials.fit(k, k + 1, (1, 1, 1)) for k in range(9)]
    for start, end in itertools.combinations(range(10), 2):
        whole = trials.fit(start, end, (1, 1, 1))
        assert isinstance(whole, Trial)
        compute = sum(one.compute for one in ones[start:end] if isinstance(one, Trial))
        assert compute <= whole.cycles * (1 + 1e-9)
