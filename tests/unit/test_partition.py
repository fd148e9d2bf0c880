"""Cutting a net into subnets: every order it gives can run, and each part is of one kind."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.chip import MAX_TENSORS
from firmware_sim.wire import DType
from tests.support.compiler_fakes import FakeToolkit, global_layer, local_layer
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.mode import Kind, choose_mode
from user_layers.compiler.partition import part_net, partition
from user_layers.compiler.pipeline import plan_net
from user_layers.graph.shapes import infer_shapes

STATIC, DYNAMIC, CPU = Kind.STATIC, Kind.DYNAMIC, Kind.CPU
LAYERS = (
    local_layer("TPU_LOC", 0),
    global_layer("TPU_DYN", 1, must_dynamic_run=True),
    global_layer("TPU_VAR", 2, output_shape_is_dynamic=True),
)
SHAPE = (1, 3, 8, 8)


def graph() -> Graph:
    g = Graph(name="net", toolkit=FakeToolkit(*LAYERS))
    g.add_input("x", SHAPE)
    return g


def add(g: Graph, kind: str, inputs: list[str], output: str) -> None:
    if kind == "CPU":
        g.add_cpu_layer(b"model", inputs, [output], [SHAPE], [DType.FP32], reason="a test")
    else:
        g.add_tpu_layer(kind, inputs, None, [output])


def describe(g: Graph) -> DescribedNet:
    return gather_attributes(infer_shapes(g), g.toolkit)


def kinds_of(g: Graph) -> list[Kind]:
    described = describe(g)
    return [part.kind for part in partition(described, choose_mode(described, False).kinds)[1]]


def test_nodes_that_can_wait_are_put_together() -> None:
    """Two branches, each through the host: the static layers of both run before and after it."""
    g = graph()
    for side in "ab":
        add(g, "TPU_LOC", ["x"], f"{side}1")
        add(g, "CPU", [f"{side}1"], f"{side}2")
        add(g, "TPU_LOC", [f"{side}2"], f"{side}3")
    add(g, "TPU_LOC", ["a3", "b3"], "y")
    assert kinds_of(g) == [STATIC, CPU, CPU, STATIC]


def test_what_follows_a_varying_shape_is_dynamic() -> None:
    g = graph()
    add(g, "TPU_VAR", ["x"], "a")
    add(g, "CPU", ["a"], "b")
    add(g, "TPU_LOC", ["b"], "c")
    add(g, "TPU_LOC", ["x"], "d")
    described = describe(g)
    mode = choose_mode(described, False)
    assert mode.kinds == (DYNAMIC, CPU, DYNAMIC, STATIC) and not mode.dynamic
    assert any("takes what" in reason for reason in mode.reasons)


def test_a_part_on_the_host_can_vary_too() -> None:
    g = graph()
    g.add_cpu_layer(b"model", ["x"], ["a"], [SHAPE], [DType.FP32], shape_varies=True)
    add(g, "TPU_LOC", ["a"], "y")
    assert choose_mode(describe(g), False).kinds == (CPU, DYNAMIC)


def test_a_dynamic_part_with_many_tensors_is_cut() -> None:
    g = graph()
    for i in range(MAX_TENSORS + 4):
        add(g, "TPU_LOC", ["x"], f"s{i}")
        add(g, "TPU_DYN", [f"s{i}"], f"d{i}")
    joined = [f"d{i}" for i in range(MAX_TENSORS + 4)]
    add(g, "TPU_LOC", joined[:10], "y0")
    add(g, "TPU_LOC", joined[10:], "y1")
    described = describe(g)
    _, parts = partition(described, choose_mode(described, False).kinds)
    assert [part.kind for part in parts] == [STATIC, DYNAMIC, DYNAMIC, STATIC]
    assert all(max(len(p.inputs), len(p.outputs)) <= MAX_TENSORS for p in parts if p.kind == DYNAMIC)


@examples(80)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["TPU_LOC", "TPU_LOC", "TPU_DYN", "TPU_VAR", "CPU"]),
            st.lists(st.integers(0, 20), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
def test_parts_cover_the_net_in_an_order_that_can_run(
    nodes: list[tuple[str, list[int]]], dynamic: bool
) -> None:
    g = graph()
    names = ["x"]
    for i, (kind, sources) in enumerate(nodes):
        add(g, kind, list(dict.fromkeys(names[s % len(names)] for s in sources)), f"t{i}")
        names.append(f"t{i}")
    described = describe(g)
    mode = choose_mode(described, dynamic)
    ordered, parts = partition(described, mode.kinds)
    net = ordered.net
    assert sorted(n.name for n in net.nodes) == sorted(n.name for n in described.net.nodes)
    assert [f.node for f in ordered.attrs] == list(net.nodes)
    assert [k for part in parts for k in part.nodes] == list(range(len(net.nodes)))
    kind_of = dict(zip((n.name for n in described.net.nodes), mode.kinds, strict=True))
    made = set(net.inputs)
    for part in parts:
        own = net.nodes[part.nodes.start : part.nodes.stop]
        assert {kind_of[n.name] for n in own} == {part.kind}
        assert len(own) == 1 or part.kind != CPU
        assert set(part.inputs) <= made
        for node in own:
            assert set(node.inputs) <= made | {o for n in own for o in n.outputs}
        made |= set(part.outputs)
        assert part_net(ordered, part).net.inputs == part.inputs
    assert set(net.outputs) <= made
    # The memory of tensors that are needed at the same time does not overlap.
    plan = plan_net(described, dynamic=dynamic)
    assert plan.ddr.address.keys() >= {n for p in parts for n in p.inputs} - set(net.inputs)


def test_lives_of_tensors_between_subnets() -> None:
    """What a later subnet reads is not written over by one in between."""
    g = graph()
    add(g, "TPU_LOC", ["x"], "a")
    add(g, "CPU", ["a"], "b")
    add(g, "TPU_DYN", ["b"], "c")
    add(g, "CPU", ["c"], "d")
    add(g, "TPU_LOC", ["d", "a"], "y")
    plan = plan_net(describe(g))
    assert [p.part.kind for p in plan.schedule.parts] == [STATIC, CPU, DYNAMIC, CPU, STATIC]
    spans = [(plan.ddr.address[n], plan.ddr.address[n] + 4096) for n in ("x", "y", "a", "b")]
    spans += [(a, a + plan.schedule.parts[i].arena_bytes) for i, a in plan.ddr.arena.items()]
    spans.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_and_outputs_of_dynamic_nets_have_no_address(dynamic: bool) -> None:
    g = graph()
    add(g, "TPU_LOC", ["x"], "a")
    add(g, "CPU", ["a"], "y")
    net = g.compile(dynamic)
    (stage,) = net.stages
    assert stage.is_dynamic is dynamic
    assert all((t.addr == 0) is dynamic for t in (*stage.inputs, *stage.outputs))
    between = stage.subnets[0].outputs[0]
    assert stage.ctx_addr <= between.addr <= stage.ctx_addr + stage.ctx_bytes - between.nbytes
    assert replace(between, addr=0) == replace(stage.subnets[1].inputs[0], addr=0)
