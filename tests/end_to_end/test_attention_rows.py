"""Attention of pictures, whose heads lie apart: between convolutions, in local memory, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.compiler.attention_rows import heads_as_columns
from user_layers.compiler.turned_keys import turn_keys
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.report.model import Runs
from user_layers.toolkit import Toolkit

CHANNELS = 10  # of the picture that is given


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def numbers(shape: Sequence[int], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Net:
    """One head of pictures after another: convolutions of a picture, attention, a convolution."""

    def __init__(self, batch: int, heads: int, size: int, height: int, width: int) -> None:
        self.x = (batch, CHANNELS, height, width)
        self.heads, self.size, self.tokens = heads, size, height * width
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {"at0": np.array([0]), "scale": np.float32(size**-0.5)}

    def conv(self, made: str, channels: int, x: str = "x", kernel: int = 1) -> None:
        shape = (channels, CHANNELS if x == "x" else self.heads * self.size, kernel, kernel)
        self.constants |= {
            f"{made}w": numbers(shape, len(made)) * np.float32(0.3),
            f"{made}b": numbers(shape[:1], 7),
        }
        pads = [kernel // 2] * 4
        self.nodes.append(node("Conv", f"{x} {made}w {made}b", made, kernel_shape=[kernel] * 2, pads=pads))

    def shaped(self, source: str, made: str, *shape: int) -> None:
        self.constants[f"{made}s"] = np.array(shape)
        self.nodes.append(node("Reshape", f"{source} {made}s", made))

    def turned(self, source: str, made: str, *order: int) -> None:
        self.nodes.append(node("Transpose", source, made, perm=order))

    def three(self) -> None:
        """Of three convolutions."""
        for i, name in enumerate("qkv"):
            self.conv(f"{name}c", self.heads * self.size, kernel=1 + 2 * (i == 1))
            self.shaped(f"{name}c", f"{name}r", self.x[0], self.heads, self.size, self.tokens)
            self.turned(f"{name}r", name, 0, 1, 3, 2)

    def sliced(self) -> None:
        """All of one convolution, one operand after the other."""
        self.conv("c", 3 * self.heads * self.size)
        self.shaped("c", "r", self.x[0], 3, self.heads, self.size, self.tokens)
        self.turned("r", "t", 1, 0, 2, 4, 3)
        for i, name in enumerate("qkv"):
            self.constants[f"at{i + 1}"] = np.array([i + 1])
            self.nodes.append(node("Slice", f"t at{i} at{i + 1} at0", f"{name}0"))
            self.nodes.append(node("Squeeze", f"{name}0 at0", name))

    def split(self) -> None:
        """The same, head by head."""
        self.conv("c", 3 * self.heads * self.size)
        self.shaped("c", "r", self.x[0], self.heads, 3 * self.size, self.tokens)
        self.nodes.append(node("Split", "r", "q0 k0 v0", axis=2))
        for name in "qkv":
            self.turned(f"{name}0", name, 0, 1, 3, 2)

    def attend(self, mask: Any = None) -> None:
        self.turned("k", "kt", 0, 1, 3, 2)
        self.nodes += [node("MatMul", "q kt", "z0"), node("Mul", "z0 scale", "z1")]
        scores = "z1"
        if mask is not None:
            self.constants["mask"] = mask
            self.nodes.append(node("Add", "z1 mask", "z2"))
            scores = "z2"
        self.nodes += [node("Softmax", scores, "p", axis=-1), node("MatMul", "p v", "o")]
        self.turned("o", "ot", 0, 1, 3, 2)
        self.shaped("ot", "a", self.x[0], self.heads * self.size, *self.x[2:])
        self.conv("y", 7, "a")

    def check(self, toolkit: Toolkit, outputs: Sequence[str] = ("y",)) -> list[tuple[str, Runs]]:
        """What runs where, of operations that move and attention."""
        proto = make_model(self.nodes, {"x": self.x}, list(outputs), self.constants, opset=13)
        graph = Graph.from_onnx(proto, toolkit=toolkit)
        turned = turn_keys(graph, graph.resolve())
        assert turned is not None
        x = {"x": numbers(self.x, 3)}
        found: list[tuple[str, Runs]] = []
        for one, opt in ((graph, 2), (turned, 2), (turned, 0)):
            (stage,) = one.compile(opt=opt, report=True).report
            for difference in compare(list(outputs), one.run(x), reference(load_model(proto), x)):
                assert difference.relative <= TOLERANCE
            if one is turned and opt == 2:
                found = [(n.operation, n.runs) for n in stage.nodes if n.operation in KINDS]
        return found


KINDS = ("ATTENTION", "TURN", "TRANSPOSE", "SLICE", "SPLIT", "CONV")


@pytest.mark.parametrize("form", ["three", "sliced", "split"])
@pytest.mark.parametrize("size", [32, 64])
def test_nothing_is_moved_but_turned(toolkit: Toolkit, form: str, size: int) -> None:
    net = Net(1, 2, size, 9, 8)
    getattr(net, form)()
    net.attend()
    found = net.check(toolkit)
    assert all(runs is Runs.GROUP for _, runs in found)
    wanted = [*["CONV"] * 4, *["TURN"] * 3, "ATTENTION"]
    assert sorted(op for op, _ in found) == sorted(wanted)


def test_channels_that_others_read_are_not_made_twice(toolkit: Toolkit) -> None:
    net = Net(1, 2, 16, 6, 5)
    net.split()
    net.attend()
    net.nodes.append(node("Relu", "c", "z"))
    assert [op for op, _ in net.check(toolkit, ("y", "z"))].count("SLICE") == 3


def test_heads_that_others_read_stay(toolkit: Toolkit) -> None:
    net = Net(1, 2, 16, 6, 5)
    net.three()
    net.attend()
    proto = make_model(net.nodes, {"x": net.x}, ["o"], net.constants, opset=13)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    assert heads_as_columns(graph, graph.resolve()) is None


def test_keys_that_are_queries(toolkit: Toolkit) -> None:
    """One tensor that is two operands, and of two attentions."""
    net = Net(1, 2, 16, 6, 5)
    net.three()
    net.turned("k", "kt", 0, 1, 3, 2)
    net.nodes += [
        node("MatMul", "k kt", "z0"),
        node("Softmax", "z0", "p", axis=-1),
        node("MatMul", "p v", "o"),
    ]
    net.nodes += [
        node("MatMul", "q kt", "z1"),
        node("Softmax", "z1", "p1", axis=-1),
        node("MatMul", "p1 v", "o1"),
    ]
    net.nodes.append(node("Add", "o o1", "s"))
    net.turned("s", "st", 0, 1, 3, 2)
    net.shaped("st", "y", *net.x[:1], 32, 6, 5)
    right(toolkit, net.nodes, net.x, net.constants)


def right(toolkit: Toolkit, nodes: Sequence[Any], shape: Sequence[int], constants: dict[str, Any]) -> None:
    """Whether what is compiled gives onnxruntime's values, in its shape."""
    proto = make_model(list(nodes), {"x": shape}, ["y"], constants, opset=13)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile()
    x = {"x": numbers(shape, 3)}
    got, want = graph.run(x), reference(load_model(proto), x)
    (difference,) = compare(["y"], got, want)
    assert difference.relative <= TOLERANCE and got[0].shape == want[0].shape


def attended(query: str, keys: str, value: str, made: str) -> list[Any]:
    """Without a factor. keys: columns."""
    products = [node("MatMul", f"{query} {keys}", f"{made}z"), node("MatMul", f"{made}p {value}", made)]
    return [products[0], node("Softmax", f"{made}z", f"{made}p", axis=-1), products[1]]


@pytest.mark.parametrize("shape", [(1, 32, 2, 3, 5), (1, 32, 30), (1, 32, 5, 6)])
def test_pixels_of_any_dimensions(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    """Also such as local memory does not take; and keys that are a constant, of what attention made."""
    constants = {"rows": np.array([1, 2, 16, 30]), "keys": numbers((1, 2, 16, 30), 2), "all": np.array(shape)}
    nodes = [
        node("Reshape", "x rows", "r"), node("Transpose", "r", "q", perm=[0, 1, 3, 2]),
        *attended("q", "r", "q", "o"), *attended("o", "keys", "q", "o1"),
        node("Transpose", "o1", "ot", perm=[0, 1, 3, 2]), node("Reshape", "ot all", "y"),
    ]  # fmt: skip
    right(toolkit, nodes, shape, constants)


@pytest.mark.parametrize("back", [False, True])
def test_attention_of_what_attention_made(toolkit: Toolkit, back: bool) -> None:
    """Through views alone, which the first one's result then does not go through any more."""
    constants = {"rows": np.array([1, 2, 16, 30]), "all": np.array([1, 32, 5, 6])}
    views = [node("Transpose", "o", "ot", perm=[0, 1, 3, 2])]
    if back:
        views += [node("Reshape", "ot all", "picture"), node("Reshape", "picture rows", "again")]
    views.append(node("Transpose", "again" if back else "ot", "q1", perm=[0, 1, 3, 2]))
    nodes = [
        node("Reshape", "x rows", "r"), node("Transpose", "r", "q", perm=[0, 1, 3, 2]),
        *attended("q", "r", "q", "o"), *views, *attended("q1", "r", "q", "o1"),
        node("Transpose", "o1", "o1t", perm=[0, 1, 3, 2]), node("Reshape", "o1t all", "y"),
    ]  # fmt: skip
    right(toolkit, nodes, (1, 32, 5, 6), constants)


def test_one_token(toolkit: Toolkit) -> None:
    """Rows and pixels are the same: a token that looks at all others, with a result of two dimensions."""
    constants = {"rows": np.array([3, 2, 16, 30]), "flat": np.array([3, 32]), "first": np.array([1]),
                 "at": np.array([0]), "axis": np.array([2]), "w": numbers((32, 5), 1)}  # fmt: skip
    nodes = [
        node("Reshape", "x rows", "r"), node("Transpose", "r", "k", perm=[0, 1, 3, 2]),
        node("Slice", "k at first axis", "q"), *attended("q", "r", "k", "o"),
        node("Transpose", "o", "ot", perm=[0, 2, 1, 3]), node("Reshape", "ot flat", "f"),
        node("MatMul", "f w", "y"),
    ]  # fmt: skip
    right(toolkit, nodes, (3, 32, 5, 6), constants)


def test_keys_as_columns_with_a_factor(toolkit: Toolkit) -> None:
    """Channels of heads between one another, fewer than pixels."""
    constants = {
        "apart": np.array([1, 16, 2, 70]),
        "s": numbers((1, 1, 1, 70), 4),
        "all": np.array([1, 32, 70]),
    }
    nodes = [
        node("Reshape", "x apart", "r"), node("Transpose", "r", "k0", perm=[0, 2, 1, 3]),
        node("Mul", "k0 s", "k"), node("Transpose", "r", "q", perm=[0, 2, 3, 1]),
        *attended("q", "k", "q", "o"), node("Transpose", "o", "ot", perm=[0, 3, 1, 2]),
        node("Reshape", "ot all", "y"),
    ]  # fmt: skip
    right(toolkit, nodes, (1, 32, 70), constants)


@examples(25)
@given(st.data())
def test_any(toolkit: Toolkit, data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    net = Net(draw(1, 3), draw(2, 4), 2 * draw(2, 40), draw(1, 12), draw(2, 12))
    getattr(net, data.draw(st.sampled_from(["three", "sliced", "split"])))()
    extents = (net.x[0], net.heads, net.tokens, net.tokens)
    net.attend(numbers([n if draw(0, 1) else 1 for n in extents], 9) if draw(0, 1) else None)
    net.check(toolkit)
