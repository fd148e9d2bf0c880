"""Convolutions of one value that are summed become one; what differs from that stays as it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

CHANNELS, SIZE = 12, 10
X = (2, CHANNELS, SIZE, SIZE)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def numbers(shape: Sequence[int], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Net:
    """Nodes and constants of a sum of branches."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def conv(
        self,
        made: str,
        kernel: Sequence[int],
        *,
        x: str = "x",
        outputs: int = CHANNELS,
        pads: Any = None,
        **more: Any,
    ) -> str:
        dilations, groups = more.get("dilations", [1, 1]), more.get("group", 1)
        same = [(k - 1) * d // 2 for k, d in zip(kernel, dilations, strict=True)]
        shape = (outputs, CHANNELS // groups, *kernel)
        self.constants |= {f"{made}w": numbers(shape, len(self.nodes)), f"{made}b": numbers(shape[:1], 50)}
        inputs = f"{x} {made}w {made}b" if len(self.nodes) % 2 else f"{x} {made}w"
        self.nodes.append(node("Conv", inputs, made, pads=pads or [*same, *same], **more))
        return made

    def batch(self, made: str, x: str) -> str:
        for i, what in enumerate("sbmv"):
            self.constants[f"{made}{what}"] = numbers((CHANNELS,), i + 20)
        self.constants[f"{made}v"] = self.constants[f"{made}v"] ** 2 + np.float32(0.5)
        self.nodes.append(node("BatchNormalization", f"{x} {made}s {made}b {made}m {made}v", made))
        return made

    def scaled(self, made: str, x: str) -> str:
        self.constants[f"{made}f"] = numbers((CHANNELS, 1, 1), 30)
        self.nodes.append(node("Mul", f"{made}f {x}", made))
        return made

    def add(self, *terms: str, made: str = "y") -> None:
        so_far = terms[0]
        for i, name in enumerate(terms[1:], 2):
            end = made if i == len(terms) else f"{made}{i}"
            self.nodes.append(node("Add", f"{so_far} {name}", end))
            so_far = end


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def check(toolkit: Toolkit, net: Net, outputs: Sequence[str] = ("y",)) -> list[str]:
    """The layers of a net whose values are right."""
    proto = make_model(net.nodes, {"x": X}, outputs, net.constants)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    made = [layer.op.op.removeprefix("TPU_") for layer in graph.resolve().nodes]
    graph.compile()
    x = {"x": numbers(X, 7)}
    for difference in compare(list(outputs), graph.run(x), reference(load_model(proto), x)):
        assert difference.relative <= TOLERANCE
    return made


@pytest.mark.parametrize("group", [1, 3, CHANNELS])
@pytest.mark.parametrize("dilations", [[1, 1], [2, 1]])
def test_one_convolution(toolkit: Toolkit, group: int, dilations: list[int]) -> None:
    net = Net()
    terms = [
        net.conv("a", (3, 3), group=group, dilations=dilations),
        net.conv("b", (1, 1), group=group),
        net.scaled("e", net.batch("d", net.conv("c", (3, 1), group=group, dilations=dilations))),
        net.batch("f", "x"),
    ]
    net.add(*terms)
    assert check(toolkit, net) == ["CONV"]


def test_something_is_added_to_all(toolkit: Toolkit) -> None:
    """A constant of each channel, behind the sum."""
    net = Net()
    net.add(net.conv("a", (3, 3)), net.conv("b", (1, 1)), made="s")
    net.constants["k"] = numbers((CHANNELS, 1, 1), 40)
    net.nodes.append(node("Add", "s k", "y"))
    assert check(toolkit, net) == ["CONV"]


def test_strides(toolkit: Toolkit) -> None:
    net = Net()
    net.add(net.conv("a", (3, 3), strides=[2, 2]), net.conv("b", (1, 1), strides=[2, 2]))
    assert check(toolkit, net) == ["CONV"]


def test_the_rest_is_summed(toolkit: Toolkit) -> None:
    """Two sums of convolutions of two values, of which one is a term itself, and one that is alone."""
    net = Net()
    net.nodes.append(node("Tanh", "x", "t"))
    terms = [net.conv("a", (3, 3)), net.conv("b", (3, 3), x="t"), net.conv("c", (1, 1)),
             net.conv("d", (1, 1), x="t"), "t", net.conv("e", (3, 3), group=3)]  # fmt: skip
    net.add(*terms)
    made = check(toolkit, net)
    assert made.count("CONV") == 3 and made.count("BINARY") == 3


OTHERS: dict[str, Any] = {
    "other values": lambda n: n.add(n.conv("a", (3, 3)), n.conv("b", (1, 1), x=n.conv("c", (1, 1)))),
    "other taps": lambda n: n.add(n.conv("a", (3, 1)), n.conv("b", (1, 3))),
    "taps between": lambda n: n.add(n.conv("a", (3, 3), dilations=[2, 2]), n.conv("b", (3, 3))),
    "groups": lambda n: n.add(n.conv("a", (3, 3)), n.conv("b", (3, 3), group=3)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(toolkit: Toolkit, name: str) -> None:
    net = Net()
    OTHERS[name](net)
    assert check(toolkit, net).count("CONV") == (3 if name == "other values" else 2)


def test_what_others_read_stays(toolkit: Toolkit) -> None:
    net = Net()
    net.add(net.conv("a", (3, 3)), net.conv("b", (1, 1)))
    assert check(toolkit, net, ("y", "b")).count("CONV") == 2


@examples(20)
@given(
    kernels=st.lists(
        st.tuples(st.sampled_from([1, 3, 5]), st.sampled_from([1, 3, 5])), min_size=2, max_size=4
    ),
    group=st.sampled_from([1, 2, CHANNELS]),
    stride=st.sampled_from([1, 1, 2]),
    dilation=st.sampled_from([1, 2]),
    scales=st.booleans(),
)
def test_random_branches(
    toolkit: Toolkit, kernels: list[tuple[int, int]], group: int, stride: int, dilation: int, scales: bool
) -> None:
    net = Net()
    terms = [
        net.conv(f"c{i}", k, group=group, strides=[stride] * 2, dilations=[dilation, 1])
        for i, k in enumerate(kernels)
    ]
    if scales and stride == 1:
        terms.insert(1, net.batch("n", "x"))
    net.add(*terms)
    sums = 0
    while kernels:
        covered = max(([k for k in kernels if k[0] <= a and k[1] <= b] for a, b in kernels), key=len)
        sums, kernels = sums + 1, [k for k in kernels if k not in covered]
    assert check(toolkit, net).count("CONV") == sums
