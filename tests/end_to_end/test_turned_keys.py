"""Attention between its products in local memory, with keys that are turned: in groups and alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.end_to_end.test_layers_attention import Array, attention, near, packed, sample
from tests.support.examples import examples
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.compiler.turned_keys import turn_keys
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.report.model import Runs
from user_layers.toolkit import Toolkit

INNER = 36  # channels of the tokens that products take


class Net:
    """Tokens, products of them, attention, and something behind it."""

    def __init__(self, toolkit: Toolkit, batch: int, queries: int, keys: int) -> None:
        self.graph = Graph(name="net", toolkit=toolkit)
        self.tokens = {"x": sample((batch, queries, INNER)), "z": sample((batch, keys, INNER), 1)}
        self.given: dict[str, Array] = {}  # of these, what is read
        self.values: dict[str, Array] = {}

    def product(self, source: str, made: str, columns: int, bias: bool = True) -> str:
        seed = len(self.values)
        if source not in self.given:
            self.given[source] = self.tokens[source]
            self.graph.add_input(source, self.given[source].shape)
        weights, added = sample((INNER, columns), seed) * np.float32(0.2), sample((columns,), seed + 50)
        names = [source, self.graph.add_const(f"{made}w", weights)]
        self.values[made] = self.given[source].astype(np.float64) @ weights
        if bias:
            names.append(self.graph.add_const(f"{made}b", added))
            self.values[made] += added
        self.graph.add_tpu_layer("TPU_MATMUL", names, {"alpha": 1.0}, [made])
        return made

    def attend(self, names: Sequence[str], mask: Array | None, param: dict[str, Any]) -> None:
        inputs = list(names)
        if mask is not None:
            inputs.append(self.graph.add_const("mask", mask))
        # A layer may have a tensor's name.
        self.graph.add_tpu_layer("TPU_ATTENTION", inputs, param, ["a"], name=names[0])
        self.graph.add_const_binary_layer("a", 0.5, "out", 2)
        self.values["out"] = attention([self.values[n] for n in names], mask, param) * 0.5

    def check(self, *, grouped: bool | None = True) -> None:
        """grouped: whether the layer runs on tiles, where keys are turned; None: either."""
        turned = turn_keys(self.graph, self.graph.resolve())
        assert turned is not None
        for graph, opt in ((self.graph, 2), (turned, 2), (turned, 0)):
            compiled = graph.compile(opt=opt, report=True)
            near(dict(zip(graph.outputs, graph.run(self.given), strict=True))["out"], self.values["out"])
            (stage,) = compiled.report
            runs = [n.runs for n in stage.nodes if n.operation == "ATTENTION"]
            if graph is turned and opt == 2 and grouped is not None:
                assert runs == [Runs.GROUP if grouped else Runs.ALONE]
            if opt == 0:
                assert runs == [Runs.ALONE]


@pytest.mark.parametrize("size", [16, 24, 48, 64, 96])
def test_one_product_of_all(toolkit: Toolkit, size: int) -> None:
    net = Net(toolkit, 1, 70, 70)
    net.product("x", "p", 9 * size)
    net.attend(["p"] * 3, None, packed(3, size))
    net.check()


def test_queries_of_other_tokens(toolkit: Toolkit) -> None:
    """Keys and values come from one product, in which each head has its own beside one another."""
    net = Net(toolkit, 2, 40, 131)
    net.product("x", "q", 3 * 32), net.product("z", "p", 3 * 64, bias=False)
    place = {"from": (0, 0, 32), "step": (32, 64, 64)}
    net.attend(["q", "p", "p"], None, packed(3, 32, **place))
    net.check()


def test_what_comes_next_reads_the_keys(toolkit: Toolkit) -> None:
    """They are turned as they are, then."""
    net = Net(toolkit, 1, 66, 66)
    for name in "qkv":
        net.product("x", name, 64)
    net.graph.add_const_binary_layer("k", 2.0, "other", 2)
    net.attend(list("qkv"), None, packed(2, 32, **{"from": (0, 0, 0)}))
    net.check()


MASKS = [(1, 1, 70, 70), (1, 3, 70, 70), (2, 3, 70, 70), (2, 1, 1, 70), (70, 70), (70, 1), (1,)]


@pytest.mark.parametrize("shape", MASKS)
def test_masks(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    net = Net(toolkit, 2, 70, 70)
    net.product("x", "p", 9 * 32)
    net.attend(["p"] * 3, sample(shape, 4), packed(3, 32))
    net.check()


def test_scores_that_do_not_fit_at_once(toolkit: Toolkit) -> None:
    net = Net(toolkit, 1, 300, 2100)
    net.product("x", "q", 64), net.product("z", "p", 128)
    net.attend(["q", "p", "p"], sample((300, 2100), 3), packed(2, 32, **{"from": (0, 0, 64)}))
    net.check(grouped=None)


def test_others_stay(toolkit: Toolkit) -> None:
    """Keys beside queries, where something else reads them, too."""
    net = Net(toolkit, 1, 9, 9)
    net.product("x", "p", 3 * 8)
    net.graph.add_const_binary_layer("p", 2.0, "other", 2)
    net.attend(["p"] * 3, None, packed(1, 8))
    assert turn_keys(net.graph, net.graph.resolve()) is None


def test_a_block_with_tokens_first(toolkit: Toolkit) -> None:
    """As torch's MultiheadAttention turns the batch behind the tokens for its products, and back: nothing of
    a batch of one is a view, and the whole block is a group."""
    tokens, heads, size = 70, 2, 32
    width = heads * size
    shapes = {"all": (width, 3 * width), "b": (3 * width,), "out": (width, width), "c": (width,)}
    constants: dict[str, Any] = {name: sample(shape, 5) * np.float32(0.1) for name, shape in shapes.items()}
    constants |= {"scale": np.float32(size**-0.5), "heads": np.array([tokens, heads, size])}
    constants |= {"flat": np.array([tokens, width]), "batch": np.array([tokens, 1, width])}
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("MatMul", ["t", "all"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["mb"]),
        helper.make_node("Split", ["mb"], ["q0", "k0", "v0"], axis=2),
        *(helper.make_node("Reshape", [f"{n}0", "heads"], [f"{n}1"]) for n in "qkv"),
        *(helper.make_node("Transpose", [f"{n}1"], [n], perm=[1, 0, 2]) for n in "qv"),
        helper.make_node("Transpose", ["k1"], ["k"], perm=[1, 2, 0]),
        helper.make_node("Mul", ["q", "scale"], ["qs"]),
        helper.make_node("MatMul", ["qs", "k"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["o"]),
        helper.make_node("Transpose", ["o"], ["o1"], perm=[1, 0, 2]),
        helper.make_node("Reshape", ["o1", "flat"], ["o2"]),
        helper.make_node("Gemm", ["o2", "out", "c"], ["o3"]),
        helper.make_node("Reshape", ["o3", "batch"], ["o4"]),
        helper.make_node("Transpose", ["o4"], ["o5"], perm=[1, 0, 2]),
        helper.make_node("Add", ["o5", "x"], ["y"]),
    ]
    proto = make_model(nodes, {"x": (1, tokens, width)}, ["y"], constants, opset=13)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    (stage,) = graph.compile(report=True).report
    x = {"x": sample((1, tokens, width), 9)}
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE
    assert {n.runs for n in stage.nodes} == {Runs.GROUP} and len({n.group for n in stage.nodes}) == 1


@examples(40)
@given(st.data())
def test_any(toolkit: Toolkit, data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    batch, queries, groups = draw(1, 3), draw(1, 200), draw(1, 4)
    shared = data.draw(st.sampled_from([1, 1, 2, 3]))
    size, value, heads = 2 * draw(1, 40), draw(1, 70), groups * shared
    one = data.draw(st.booleans())
    keys = queries if one else draw(1, 200)
    net = Net(toolkit, batch, queries, keys)
    begin, step = [draw(0, 3) for _ in range(3)], [size + draw(0, 2), size + draw(0, 2), value + draw(0, 2)]
    if one:
        begin[1] += begin[0] + heads * step[0]
        begin[2] += begin[1] + groups * step[1]
        names = [net.product("x", "p", begin[2] + groups * step[2] + draw(0, 3))] * 3
    else:
        begin[1], step[1] = 0, size
        names = [net.product("x", "q", begin[0] + heads * step[0]), net.product("z", "k", groups * size),
                 net.product("z", "v", begin[2] + groups * step[2])]  # fmt: skip
    extents = (batch, heads, queries, keys)
    mask = sample([e if data.draw(st.booleans()) else 1 for e in extents], 9) if draw(0, 1) else None
    place = {"from": begin, "step": step, "shared": shared}
    param = {"heads": heads, "size": size, "value_size": value, "apart": 0, "scale": 0.3, **place}
    if draw(0, 1):
        param |= {"scaled": 1, "scales": [float(v) for v in np.linspace(0.5, 1.5, 64, dtype=np.float32)]}
    net.attend(names, mask, param)
    net.check(grouped=None)
