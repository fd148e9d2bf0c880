"""Layers that put their inputs one after the other: where tensors lie, and what is not run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import CompileError
from firmware_sim.wire import TensorRecord
from tests.support.compiler_fakes import FakeLayer, global_layer, local_layer, reshape_layer
from tests.support.examples import examples
from tests.unit.test_compiler import calls, graph, shared, static
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.toolkit import Toolkit


def join() -> FakeLayer:
    def shape(inputs: Sequence[TensorRecord], param: bytes) -> list[TensorRecord]:
        n, _, h, w = inputs[0].shape
        return [TensorRecord((n, sum(t.shape[1] for t in inputs), h, w), inputs[0].dtype)]

    layer = global_layer("TPU_JOIN", 6, is_concat_layer=True)
    layer.shape = shape
    return layer


BYTES = 3 * 8 * 8 * 4  # of the input x


def test_inputs_are_made_where_they_lie_in_the_output() -> None:
    g = graph(global_layer(), local_layer(), join())
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_LOC", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_JOIN", ["a", "b"], None, ["ab"])
    g.add_tpu_layer("TPU_GLOB", ["ab"], None, ["c"])
    g.add_tpu_layer("TPU_JOIN", ["ab", "c"], None, ["abc"])
    g.add_tpu_layer("TPU_GLOB", ["abc"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["glob_0", "loc_0", "glob_1", "glob_2"]
    start = ddr.address["abc"]
    assert [ddr.address[n] - start for n in ("ab", "a", "b", "c")] == [0, 0, BYTES, 2 * BYTES]


def test_an_output_of_the_net_is_concatenated_in_place() -> None:
    g = graph(global_layer(), join())
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_GLOB", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_JOIN", ["b", "a"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["glob_0", "glob_1"]
    assert ddr.address["a"] == ddr.address["y"] + BYTES


def test_what_is_reshaped_or_overwritten_is_concatenated_too() -> None:
    g = graph(global_layer(), shared(), join(), reshape_layer((1, 6, 4, 8)))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_SHARE", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_GLOB", ["b"], None, ["c"])
    g.add_tpu_layer("TPU_RESHAPE", ["b"], None, ["r"])
    g.add_tpu_layer("TPU_RESHAPE", ["c"], None, ["s"])
    g.add_tpu_layer("TPU_JOIN", ["r", "s"], None, ["y"])
    ddr, program = static(g)
    assert calls(program) == ["glob_0", "share_0", "glob_1"]
    assert ddr.address["a"] == ddr.address["b"] == ddr.address["r"] == ddr.address["y"]
    assert ddr.address["c"] == ddr.address["y"] + BYTES


@pytest.mark.parametrize("case", ["input", "constant", "output", "twice", "in two"])
def test_layers_that_run_because_an_input_lies_elsewhere(case: str) -> None:
    g = graph(global_layer(), join())
    g.add_const("k", np.zeros((1, 3, 8, 8), np.float32))
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_GLOB", ["a", "k"], None, ["b"])
    if case == "in two":
        g.add_tpu_layer("TPU_JOIN", ["a", "b"], None, ["first"])
    second = {"input": "x", "constant": "k", "twice": "a"}.get(case, "b")
    g.add_tpu_layer("TPU_JOIN", ["a", second], None, ["y"])
    if case == "output":
        g.add_output("y")
        g.add_output("b")
    ddr, program = static(g, opt=0)
    assert calls(program)[-1].startswith("join")
    assert calls(program).count("join_0") == (case != "in two")
    assert ddr.address["y"] != ddr.address["a"]


def test_concatenated_memory_is_not_overwritten() -> None:
    g = graph(global_layer(), shared(), join())
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["b"])
    g.add_tpu_layer("TPU_JOIN", ["a", "b"], None, ["ab"])
    g.add_tpu_layer("TPU_SHARE", ["a"], None, ["c"])
    g.add_tpu_layer("TPU_GLOB", ["ab", "c"], None, ["y"])
    ddr, _ = static(g)
    assert ddr.address["a"] == ddr.address["ab"] != ddr.address["c"]


def test_dynamic_nets_elide_no_concatenation() -> None:
    g = graph(global_layer(), join())
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_GLOB", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_JOIN", ["a", "b"], None, ["y"])
    assert any("join_0" in line for line in g.compile(dynamic=True).log)


def test_outputs_that_are_more_than_their_inputs() -> None:
    odd = global_layer("TPU_JOIN", 6, is_concat_layer=True)
    g = graph(global_layer(), odd)
    g.add_tpu_layer("TPU_GLOB", ["x"], None, ["a"])
    g.add_tpu_layer("TPU_GLOB", ["a"], None, ["b"])
    g.add_tpu_layer("TPU_JOIN", ["a", "b"], None, ["y"])
    with pytest.raises(
        CompileError, match=r"join_0 .*is_concat_layer\(\).* have 1536 bytes and its output 768"
    ):
        static(g)


@examples(12)
@given(
    picks=st.lists(
        st.tuples(st.sampled_from(["add", "join", "join", "reshape"]), st.integers(0, 9), st.integers(0, 9)),
        min_size=2,
        max_size=8,
    ),
    opt=st.sampled_from([0, 2]),
)
def test_random_graphs_give_what_numpy_gives(
    toolkit: Toolkit, picks: list[tuple[str, int, int]], opt: int
) -> None:
    """Sums and concatenations of what there is so far, on the emulator."""
    x = np.random.default_rng(5).integers(-8, 8, (1, 5, 4, 6)).astype(np.float32)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    values = {"x": x}
    for i, (kind, first, second) in enumerate(picks):
        names = list(values)
        a, b, made = names[first % len(names)], names[second % len(names)], f"t{i}"
        if kind == "add":
            graph.add_const_binary_layer(a, float(i), made, BINARY_ADD)
            values[made] = values[a] + np.float32(i)
        elif kind == "reshape":
            shape = (1, 2 * values[a].shape[1], 2, 6) if values[a].shape[2] == 4 else values[a].shape
            graph.add_tpu_layer("TPU_RESHAPE", [a], {"dims": 4, "shape": [*shape, 0, 0, 0, 0]}, [made])
            values[made] = values[a].reshape(shape)
        else:
            if values[a].shape[2] != values[b].shape[2]:
                b = a
            graph.add_tpu_layer("TPU_CONCAT", [a, b], {"axis": -3}, [made])
            values[made] = np.concatenate([values[a], values[b]], 1)
    last = list(values)[-1]
    graph.add_const_binary_layer(last, 2.0, "y", BINARY_MUL)
    outputs = [name for name in graph.outputs if name != "x"]
    for name in outputs:
        graph.add_output(name)
    if "x" not in {name for node in graph.nodes for name in node.inputs}:
        return
    values["y"] = values[last] * 2
    graph.compile(opt=opt)
    for name, got in zip(outputs, graph.run({"x": x}), strict=True):
        assert np.array_equal(got, values[name]), name
