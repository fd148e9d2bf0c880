"""Which nodes run where, as data: no compiler, no device."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import CompileError
from tests.support.examples import examples
from user_layers.onnx.model import Model, Node, Value
from user_layers.onnx.partition import Part, Reason, partition

WHY = Reason("there is no layer for this operation")


def model(nodes: dict[str, str], outputs: str, constants: str = "") -> Model:
    """nodes: {"y z": "a b"}, outputs to inputs; what nobody makes is an input of the model."""
    made = {name for names in nodes for name in names.split()}
    read = dict.fromkeys(name for names in nodes.values() for name in names.split())
    given = [n for n in read if n not in made and n not in constants.split()]
    return Model(
        "m",
        17,
        tuple(Value(name, (2,), np.dtype(np.float32)) for name in given),
        tuple(Value(name, (2,), np.dtype(np.float32)) for name in outputs.split()),
        {name: np.zeros(2, np.float32) for name in constants.split()},
        tuple(Node("Op", "", outs, tuple(ins.split()), tuple(outs.split())) for outs, ins in nodes.items()),
        {},
    )


def cut(
    net: Model, cpu: str, held: str = "", most: int = 16, operands: dict[int, list[str]] | None = None
) -> list[Part]:
    """cpu: nodes without a layer, by name; held: values that the device cannot hold."""
    refused = {i: WHY for i, node in enumerate(net.nodes) if node.name in cpu.split()}
    return partition(net, refused, lambda n: "is float64" if n in held.split() else None, most, operands)


def shape(parts: list[Part]) -> list[str]:
    return [("cpu: " if p.on_cpu else "tpu: ") + ", ".join(n.name for n in p.nodes) for p in parts]


CHAIN = {"a": "x", "b": "a", "c": "b", "d": "c", "e": "d"}


def test_a_model_without_refused_nodes_is_one_part() -> None:
    (part,) = cut(model(CHAIN, "e"), "")
    assert not part.on_cpu and part.inputs == ("x",) and part.outputs == ("e",)


def test_a_node_in_the_middle() -> None:
    parts = cut(model(CHAIN, "e b"), "c")
    assert shape(parts) == ["tpu: a, b", "cpu: c", "tpu: d, e"]
    assert parts[1].inputs == ("b",) and parts[1].outputs == ("c",) and parts[1].reasons == (WHY,)
    assert parts[0].outputs == ("b",)  # for the part on the CPU, and as an output of the model


def test_branches_share_parts() -> None:
    """Two branches with a node on the CPU each: one part, since all that can run before it does."""
    net = model({"a": "x", "p": "a", "b": "x", "c": "b", "q": "c", "y": "p q"}, "y")
    assert shape(cut(net, "p q")) == ["tpu: a, b, c", "cpu: p, q", "tpu: y"]


def test_the_first_nodes_and_the_last() -> None:
    assert shape(cut(model(CHAIN, "e"), "a e")) == ["cpu: a", "tpu: b, c, d", "cpu: e"]


def test_values_that_the_device_cannot_hold_stay_inside() -> None:
    parts = cut(model(CHAIN, "e"), "b", held="b c")
    assert shape(parts) == ["tpu: a", "cpu: b, c, d", "tpu: e"]
    assert parts[1].reasons[0] == WHY
    assert parts[1].reasons[1].follows and parts[1].reasons[1].text == "'b' is float64"


def test_what_lies_between_comes_along() -> None:
    """p makes a value for q that the device cannot hold, and q needs r, which needs p."""
    net = model({"h v": "x", "r": "v", "s": "r", "q": "h s", "z": "x"}, "q z")
    parts = cut(net, "h", held="h")
    assert shape(parts) == ["tpu: z", "cpu: h v, r, s, q"]
    assert [r.text for r in parts[1].reasons[2:3]] == ["it lies between nodes that cannot be parted"]


def test_parts_have_few_inputs_and_outputs() -> None:
    net = model({f"y{i}": f"x{i}" for i in range(5)}, " ".join(f"y{i}" for i in range(5)))
    parts = cut(net, "y0 y1 y2 y3 y4", most=2)
    assert shape(parts) == ["cpu: y0, y1", "cpu: y2, y3", "cpu: y4"]
    wide = model({"y": "x0 x1 x2"}, "y")
    with pytest.raises(CompileError, match=r"Op y on the CPU: 3 inputs and 1 outputs; .* at most 2"):
        cut(wide, "y", most=2)


def test_operands_that_a_layer_does_not_take_are_not_made() -> None:
    """A Reshape whose result has a known shape does not need the nodes that compute it."""
    net = model({"s": "x", "t": "s", "y": "x t"}, "y")
    assert shape(cut(net, "s t")) == ["cpu: s, t", "tpu: y"]
    assert shape(cut(net, "s t", operands={2: ["x"]})) == ["tpu: y"]
    # but on the CPU it is the original node, with all that it reads
    net = model({"s": "x", "d": "x", "y": "d s", "z": "y"}, "z")
    assert shape(cut(net, "d", held="d", operands={0: ["x"], 2: ["d"]})) == ["tpu: s", "cpu: d, y", "tpu: z"]


def test_constants_are_no_inputs_of_parts() -> None:
    parts = cut(model({"a": "x k", "b": "a k"}, "b", constants="k"), "b")
    assert [p.inputs for p in parts] == [("x",), ("a",)]


@st.composite
def nets(draw: st.DrawFn) -> tuple[Model, str, str]:
    count = draw(st.integers(1, 14))
    nodes = {}
    for i in range(count):
        sources = draw(
            st.lists(st.sampled_from(["x", "k", *(f"v{j}" for j in range(i))]), min_size=1, max_size=3)
        )
        nodes[f"v{i}"] = " ".join(sources)
    names = list(nodes)
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    cpu = " ".join(n for n in names if draw(st.integers(0, 3)) == 0)
    held = " ".join(n for n in names if n not in outputs and draw(st.integers(0, 5)) == 0)
    return model(nodes, " ".join(outputs), constants="k"), cpu, held


@given(nets())
@examples(150)
def test_any_net(drawn: tuple[Model, str, str]) -> None:
    net, cpu, held = drawn
    parts = cut(net, cpu, held)
    known = {"k", *(v.name for v in net.inputs)}
    ran = []
    for part in parts:
        assert known.issuperset(part.inputs)  # in an order in which they can run
        for node in part.nodes:
            assert part.on_cpu or node.name not in cpu.split()
            ran.append(node.name)
        assert not set(part.outputs).intersection(held.split())  # nothing crosses that cannot be held
        assert part.on_cpu or not any(
            n in held.split() for node in part.nodes for n in (*node.reads, *node.makes)
        )
        known.update(part.outputs)
    assert len(ran) == len(set(ran)) and known.issuperset(net.results)
    sides = [part.on_cpu for part in parts]
    assert all(a != b for a, b in itertools.pairwise(sides))  # neighbours of one side would be one
