"""Work that grows as the net does, counted, not timed; what is found faster is what looking at all finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.chip import LOCAL_BYTES
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from tests.support.examples import examples
from tests.unit.test_compiler_search import PICKS, SHAPES, described, random_net
from user_layers.compiler.allocate import Request, _Placed
from user_layers.compiler.fitting import Group
from user_layers.compiler.flow import choose_loads
from user_layers.compiler.grouping import _longest
from user_layers.compiler.local_memory import LocalPlan, _Planner
from user_layers.compiler.tiles import cut_group
from user_layers.compiler.tiling import Infeasible, Tiling, tile_group
from user_layers.toolkit import Toolkit


def tried(layers: int, most: int) -> int:
    """Layers of all groups that the cheap rule tries where `most` fit together."""
    calls = 0

    def fit(run: range) -> Group | Infeasible:
        nonlocal calls
        calls += len(run)
        if len(run) > most:
            return Infeasible("", lacks_room=True)
        local = LocalPlan((), {}, {}, {}, (), True, 0, 0.0)
        return Group(tuple(run), Tiling((), (), ()), local)

    at = 0
    while at < layers:
        found = _longest(fit, at, layers)
        assert isinstance(found, Group) and len(found.nodes) == min(most, layers - at)
        at += len(found.nodes)
    return calls


@pytest.mark.parametrize("most", [1, 3, 5, 12, 40])
def test_the_cheap_rule_grows_as_the_net_does(most: int) -> None:
    few, many = tried(250, most), tried(1000, most)
    assert many <= 5 * few
    assert many <= 1000 * (60 + 2 * most)


def test_a_group_may_begin_with_one_that_does_not_fit() -> None:
    local = LocalPlan((), {}, {}, {}, (), True, 0, 0.0)

    def fit(run: range) -> Group | Infeasible:
        if len(run) in (2, 6, 7, 8, 9):
            return Group(tuple(run), Tiling((), (), ()), local)
        return Infeasible(f"{len(run)}")

    found = _longest(fit, 0, 100)
    assert isinstance(found, Group) and len(found.nodes) == 9
    assert _longest(lambda run: Infeasible(f"{len(run)}"), 0, 100) == Infeasible("1")


TIMES = st.tuples(st.integers(0, 3000), st.sampled_from([0, 1, 7, 8, 64, 500, 3000]))


@given(st.lists(TIMES, max_size=60), TIMES)
def test_places_of_a_moment_are_those_of_all(times: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    placed = _Placed()
    requests = [Request(1, first, first + length) for first, length in times]
    for offset, request in enumerate(requests):
        placed.add(offset, request)
    since, until = asked[0], sum(asked)
    found = sorted(start for start, _, _ in placed.during(since, until))
    assert found == [i for i, r in enumerate(requests) if r.last >= since and until >= r.first]


@examples(5)
@given(SHAPES, PICKS, st.integers(1, 7), st.integers(1, 3))
def test_three_tiles_tell_whether_all_have_room(
    toolkit: Toolkit, shape: tuple[int, ...], picks: list[tuple[int, int, int]], rows: int, columns: int
) -> None:
    net = described(random_net(toolkit, shape, picks))
    nodes = range(len(net.net.nodes))
    tiling = tile_group(net, nodes, (1, rows, columns))
    if isinstance(tiling, Tiling):
        plan = _Planner(cut_group(net, nodes, tiling))
        assert plan.fits() == choose_loads(plan.buffers, plan.copies, plan.compute, LOCAL_BYTES, 0, 0)


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(Engine)))
def test_few_descriptors_are_decoded_as_many(seed: int, engine: Engine) -> None:
    words = np.random.default_rng(seed).integers(0, 2**32, (3, 32), dtype=np.uint32)
    layout = LAYOUTS[engine]
    one_by_one, together = layout.columns(words), layout.columns(words)
    for field in layout.fields:
        assert one_by_one.ints(field.name) == together[field.name].tolist()
