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
    assert "SPLIT" in [op for op, _ in net.check(toolkit, ("y", "z"))]


def test_heads_that_others_read_stay(toolkit: Toolkit) -> None:
    net = Net(1, 2, 16, 6, 5)
    net.three()
    net.attend()
    proto = make_model(net.nodes, {"x": net.x}, ["o"], net.constants, opset=13)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    assert heads_as_columns(graph, graph.resolve()) is None


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
