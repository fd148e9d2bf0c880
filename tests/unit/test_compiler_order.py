"""The order of nodes: valid, the same each time, and branches one after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.compiler_fakes import FakeToolkit, local_layer
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.compiler.order import alive_bytes, order_nodes
from user_layers.graph.shapes import infer_shapes
from user_layers.net.net import Net


def net(links: list[tuple[int, ...]], shape: tuple[int, ...] = (1, 64, 16, 16)) -> Net:
    """Node i reads the outputs of the nodes links[i], or the input where there are none; what nobody reads is
    an output."""
    graph = Graph(toolkit=FakeToolkit(local_layer("TPU_A", 0)))
    graph.add_input("x", shape)
    for i, sources in enumerate(links):
        graph.add_tpu_layer("TPU_A", [f"t{s}" for s in sources] or ["x"], None, [f"t{i}"])
    return infer_shapes(graph)


def names(order: tuple[int, ...]) -> str:
    return " ".join(map(str, order))


def test_a_chain_stays_as_it_is() -> None:
    assert order_nodes(net([(), (0,), (1,), (2,)])) == (0, 1, 2, 3)


def test_interleaved_branches_are_taken_one_by_one() -> None:
    # Three branches of three nodes, given layer by layer, and their join.
    links = [(), (), (), (0,), (1,), (2,), (3,), (4,), (5,), (6, 7, 8)]
    order = order_nodes(net(links))
    assert names(order) == "0 3 6 1 4 7 2 5 8 9"
    assert alive_bytes(net(links), order) < alive_bytes(net(links), range(10))


def test_what_is_left_alone_keeps_its_place() -> None:
    links = [(), (0,), (1,), (0, 2), (3,), (3, 4)]
    assert order_nodes(net(links)) == (0, 1, 2, 3, 4, 5)


@st.composite
def nets(draw: st.DrawFn) -> Net:
    links: list[tuple[int, ...]] = []
    for i in range(draw(st.integers(1, 12))):
        count = draw(st.integers(0, min(i, 3)))
        links.append(tuple(draw(st.permutations(range(i)))[:count]))
    return net(links)


@examples(80)
@given(nets())
def test_every_order_is_valid_and_no_worse(drawn: Net) -> None:
    order = order_nodes(drawn)
    assert sorted(order) == list(range(len(drawn.nodes)))
    at = {k: i for i, k in enumerate(order)}
    for k, node in enumerate(drawn.nodes):
        assert all(at[drawn.producer[n]] < at[k] for n in node.inputs if n in drawn.producer)
    assert alive_bytes(drawn, order) <= alive_bytes(drawn, range(len(drawn.nodes)))
    assert order_nodes(drawn) == order
