"""Graphs with branches for the tests of grouping: built-in layers that all have local versions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.support.window_layers import sample, window_param
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.toolkit import Toolkit

PICKS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=7)
"""What `grown` makes a random net of."""


class Branches:
    """A graph under construction; each method adds one layer and returns its output's name."""

    def __init__(self, toolkit: Toolkit, shape: Sequence[int]) -> None:
        self.graph = Graph(name="net", toolkit=toolkit)
        self.input = self.graph.add_input("x", tuple(shape))
        self._count = 0

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _add(self, op: str, inputs: Sequence[str], param: dict[str, int]) -> str:
        (name,) = self.graph.add_tpu_layer(op, list(inputs), param, [self._name(op[4:].lower())])
        return name

    def channels(self, name: str) -> int:
        return self.graph.shape(name)[1]

    def conv(self, x: str, out: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> str:
        pad = kernel // 2
        weights = sample(out, self.channels(x) // groups, kernel, kernel, seed=self._count)
        consts = [
            self.graph.add_const(self._name("w"), weights),
            self.graph.add_const(self._name("b"), sample(out, seed=self._count)),
        ]
        param = window_param((kernel, kernel), (stride, stride), (pad,) * 4, (1, 1)) | {"groups": groups}
        return self._add("TPU_CONV", [x, *consts], param)

    def pool(self, x: str, kernel: int = 3, stride: int = 1, mode: int = 0) -> str:
        param = window_param((kernel, kernel), (stride, stride), (kernel // 2,) * 4, (1, 1)) | {"mode": mode}
        return self._add("TPU_POOL", [x], param)

    def add(self, a: str, b: str) -> str:
        return self._add("TPU_BINARY", [a, b], {"binary_op": BINARY_ADD})

    def scale(self, x: str, factor: float) -> str:
        return self.graph.add_const_binary_layer(x, factor, self._name("scale"), BINARY_MUL)

    def concat(self, *parts: str) -> str:
        return self._add("TPU_CONCAT", parts, {"axis": 1})


def residual(toolkit: Toolkit, shape: Sequence[int]) -> Graph:
    """Two blocks: 1x1, 3x3 and 1x1 convolutions beside the input, the second with stride 2."""
    b = Branches(toolkit, shape)
    x = b.conv(b.input, 128, 1)
    y = b.add(b.conv(b.conv(b.conv(x, 32, 1), 32), 128, 1), x)
    b.add(b.conv(b.conv(b.conv(y, 64, 1), 64, 3, 2), 128, 1), b.conv(y, 128, 1, 2))
    return b.graph


def fire(toolkit: Toolkit, shape: Sequence[int]) -> Graph:
    """Two fire modules of squeezenet."""
    b = Branches(toolkit, shape)
    x = b.input
    for _ in range(2):
        squeezed = b.conv(x, 16, 1)
        x = b.concat(b.conv(squeezed, 64, 1), b.conv(squeezed, 64))
    return b.graph


def inception(toolkit: Toolkit, shape: Sequence[int]) -> Graph:
    """Four branches, one of which begins amid the NPUs when they are joined."""
    b = Branches(toolkit, shape)
    x = b.input
    parts = [b.conv(x, 64, 1), b.conv(b.conv(x, 24, 1), 96), b.conv(b.conv(x, 8, 1), 32, 5)]
    b.scale(b.concat(*parts, b.conv(b.pool(x), 32, 1)), 0.5)
    return b.graph


def dense(toolkit: Toolkit, shape: Sequence[int]) -> Graph:
    """A dense block: each layer reads all that the others made."""
    b = Branches(toolkit, shape)
    x = b.input
    for _ in range(4):
        x = b.concat(x, b.conv(b.scale(x, 1.5), 32))
    return b.graph


def grown(toolkit: Toolkit, shape: Sequence[int], picks: Sequence[tuple[int, int, int]]) -> Graph:
    """Any net with branches. picks: of each layer its kind, which tensor it takes, what else."""
    b = Branches(toolkit, shape)
    names = [b.input]
    large = shape[2] * shape[3] * shape[0] > 2000
    for kind, first, second in picks:
        x = names[-1 - first % len(names)]
        same = [n for n in names if b.graph.shape(n) == b.graph.shape(x)]
        beside = [
            n
            for n in names
            if b.graph.shape(n)[2:] == b.graph.shape(x)[2:] and b.channels(n) + b.channels(x) < 300
        ]
        out = 4 if large else (16, 64, 33, 8)[second]
        if kind == 0:
            names.append(b.conv(x, out, 1))
        elif kind == 1:
            names.append(b.conv(x, out, 3))
        elif kind == 2:
            names.append(b.add(x, same[second % len(same)]))
        elif kind == 3 and b.channels(x) + b.channels(beside[second % len(beside)]) < 300:
            names.append(b.concat(x, beside[second % len(beside)]))
        elif kind == 4:
            names.append(b.pool(x))
        else:
            names.append(b.scale(x, 0.5 + second))
    return b.graph


GRAPHS = {"residual": residual, "fire": fire, "inception": inception, "dense": dense}


def run_input(graph: Graph) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {"x": sample(*graph.shape("x"), seed=7)}
