"""Rows in the orders of windows: blocks of transformers of windows, beside onnxruntime, and what moves in
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import equals_onnxruntime, make_model
from tpulayer import Graph
from user_layers.onnx.load import load_model
from user_layers.onnx.row_orders import REARRANGE, keep_orders
from user_layers.toolkit import Toolkit

HEADS = 2


class Net:
    """Blocks on pictures [N, H, W, C] whose channels come last; `y` is what was made last."""

    def __init__(self, batch: int, height: int, width: int, channels: int) -> None:
        self.x = (batch, height, width, channels)
        self.now, self.shape = "x", self.x
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._random = np.random.default_rng(3)
        self._names = 0

    def add(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> str:
        """A node; arrays among its inputs become constants."""
        self._names += 1
        made, names = f"v{self._names}", []
        for i, given_ in enumerate(inputs):
            names.append(given_ if isinstance(given_, str) else f"{made}c{i}")
            if not isinstance(given_, str):
                self.constants[names[-1]] = np.asarray(given_)
        parts = [made, *(f"{made}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, names, parts, **attributes))
        return made

    def numbers(self, *shape: int) -> Any:
        return (self._random.standard_normal(shape) * 0.4).astype(np.float32)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, np.array(shape))

    def norm(self, x: str) -> str:
        c = self.shape[-1]
        return self.add("LayerNormalization", x, self.numbers(c), self.numbers(c), axis=-1)

    def product(self, x: str, ins: int, outs: int) -> str:
        return self.add("Add", self.add("MatMul", x, self.numbers(ins, outs)), self.numbers(outs))

    def rolled(self, x: str, by: int) -> str:
        for axis in (1, 2):
            first = self.add("Slice", x, [by], [2**31], [axis])
            x = self.add("Concat", first, self.add("Slice", x, [0], [by], [axis]), axis=axis)
        return x

    def windows(self, x: str, size: int) -> str:
        _, h, w, c = self.shape
        x = self.reshape(x, -1, h // size, size, w // size, size, c)
        x = self.add("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
        return self.reshape(x, -1, size * size, c)

    def back(self, x: str, size: int) -> str:
        _, h, w, c = self.shape
        x = self.reshape(x, -1, h // size, w // size, size, size, c)
        x = self.add("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
        return self.reshape(x, -1, h, w, c)

    def attention(self, x: str, tokens: int, mask: bool = False) -> str:
        c = self.shape[-1]
        parts = []
        for _ in range(3):
            part = self.reshape(self.product(x, c, c), -1, tokens, HEADS, c // HEADS)
            parts.append(self.add("Transpose", part, perm=[0, 2, 1, 3]))
        scores = self.add("MatMul", parts[0], self.add("Transpose", parts[1], perm=[0, 1, 3, 2]))
        scores = self.add("Mul", scores, np.float32((c // HEADS) ** -0.5))
        if mask:
            scores = self.add("Add", scores, self.numbers(1, HEADS, tokens, tokens))
        made = self.add("MatMul", self.add("Softmax", scores, axis=-1), parts[2])
        made = self.reshape(self.add("Transpose", made, perm=[0, 2, 1, 3]), -1, tokens, c)
        return self.product(made, c, c)

    def block(self, size: int, roll: int = 0, *, post: bool = False, mask: bool = False) -> None:
        """Attention of windows and a perceptron; normalised before, or behind."""
        x, c = self.now, self.shape[-1]
        _, h, w, _ = self.shape
        y = x if post else self.norm(x)
        y = self.windows(self.rolled(y, roll) if roll else y, size)
        y = self.back(self.attention(y, size * size, mask), size)
        if roll:
            y = self.add("Identity", y)
            for axis, extent in ((1, h), (2, w)):
                first = self.add("Slice", y, [extent - roll], [2**31], [axis])
                y = self.add("Concat", first, self.add("Slice", y, [0], [extent - roll], [axis]), axis=axis)
        y = self.add("Add", x, self.norm(y) if post else y)
        z = self.product(self.add("Relu", self.product(self.norm(y), c, 2 * c)), 2 * c, c)
        self.now = self.add("Add", y, z)

    def merge(self, outs: int) -> None:
        """Four pixels as one."""
        n, h, w, c = self.shape
        parts = [
            self.add("Slice", self.now, [a, b], [2**31] * 2, [1, 2], [2, 2]) for b in (0, 1) for a in (0, 1)
        ]
        y = self.add("Concat", *parts, axis=-1)
        self.now = self.add("MatMul", y, self.numbers(4 * c, outs))
        self.shape = (n, h // 2, w // 2, outs)

    def proto(self, outputs: Sequence[str] = ()) -> Any:
        named = [*outputs, self.add("Neg", self.now)]
        return make_model(self.nodes, {"x": self.x}, named, self.constants, opset=17)

    def given(self) -> dict[str, Any]:
        return {"x": np.random.default_rng(5).standard_normal(self.x).astype(np.float32)}


def moves(toolkit: Toolkit, proto: Any) -> dict[str, int]:
    """How many layers there are of those that copy."""
    found: dict[str, int] = {}
    for node in Graph.from_onnx(proto, toolkit=toolkit).nodes:
        if node.op.short in ("REARRANGE", "TRANSPOSE", "SLICE", "CONCAT", "GATHER", "PAD"):
            found[node.op.short] = found.get(node.op.short, 0) + 1
    return found


def blocks(*rolls: int, batch: int = 1, post: bool = False) -> Net:
    net = Net(batch, 8, 12, 64)
    for roll in rolls:
        net.block(4, roll, post=post)
    return net


@pytest.mark.parametrize("post", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_one_move_for_each_block(toolkit: Toolkit, batch: int, post: bool) -> None:
    """From the picture to windows, to rolled ones, to windows, and back."""
    net = blocks(0, 1, 0, batch=batch, post=post)
    proto = net.proto()
    assert moves(toolkit, proto) == {"REARRANGE": 4}
    equals_onnxruntime(toolkit, proto, net.given())


def test_windows_alike_are_not_moved_between_blocks(toolkit: Toolkit) -> None:
    net = blocks(0, 0, 0)
    proto = net.proto()
    assert moves(toolkit, proto) == {"REARRANGE": 2}
    equals_onnxruntime(toolkit, proto, net.given())


def test_four_pixels_as_one(toolkit: Toolkit) -> None:
    """What is merged of windows is one move; and nothing lies between the two stages' blocks."""
    net = blocks(0)
    net.merge(32)
    net.block(2)
    proto = net.proto()
    assert set(moves(toolkit, proto)) == {"REARRANGE"}
    equals_onnxruntime(toolkit, proto, net.given())


def test_outputs_keep_their_order(toolkit: Toolkit) -> None:
    net = blocks(0, 1)
    between = net.nodes[-1].output[0]
    net.block(4)
    equals_onnxruntime(toolkit, net.proto([between]), net.given())


def test_constants_of_each_row_go_along(toolkit: Toolkit) -> None:
    net = blocks(0)
    net.now = net.add("Add", net.now, net.numbers(1, 8, 12, 64))
    net.now = net.add("Mul", net.numbers(1, 1, 1, 1, 64)[0], net.now)
    net.block(4)
    proto = net.proto()
    assert moves(toolkit, proto) == {"REARRANGE": 2}
    equals_onnxruntime(toolkit, proto, net.given())


def test_padded_windows(toolkit: Toolkit) -> None:
    """Windows that reach beyond the picture: zeros are filled in on the way."""
    net = Net(1, 7, 10, 64)
    x = net.norm("x")
    y = net.add("Pad", x, np.array([0, 0, 0, 0, 0, 1, 2, 0]), np.float32(0))
    net.shape = (1, 8, 12, 64)
    y = net.back(net.attention(net.windows(y, 4), 16), 4)
    y = net.add("Slice", y, [0, 0], [7, 10], [1, 2])
    net.now = net.add("Add", x, y)
    proto = net.proto()
    found = moves(toolkit, proto)
    assert found == {"REARRANGE": 2}
    equals_onnxruntime(toolkit, proto, net.given())


def test_mapped_nodes_see_the_models_order(toolkit: Toolkit) -> None:
    """A part that looks at rows reads them as the model has them."""
    net = blocks(0)
    net.now = net.add("CumSum", net.now, np.int64(1))
    net.block(4)
    equals_onnxruntime(toolkit, net.proto(), net.given())


def test_pictures_of_convolutions_stay(toolkit: Toolkit) -> None:
    """Channels that are shuffled between convolutions are no rows."""
    net = Net(1, 8, 6, 6)
    x = net.add("Conv", "x", net.numbers(8, 8, 1, 1))
    x = net.reshape(x, 1, 2, 4, 6, 6)
    x = net.reshape(net.add("Transpose", x, perm=[0, 2, 1, 3, 4]), 1, 8, 6, 6)
    net.now = net.add("Conv", net.add("Relu", x), net.numbers(4, 8, 3, 3), pads=[1] * 4)
    model = load_model(net.proto())
    assert keep_orders(model) is model


def test_rows_of_another_batch_are_no_zeros(toolkit: Toolkit) -> None:
    """All rows are moved on by one: the first of the second batch is the first one's last."""
    net = Net(2, 6, 8, 64)
    y = net.reshape(net.norm("x"), 96, 64)
    y = net.add("Slice", net.add("Pad", y, np.array([1, 0, 0, 0]), np.float32(0)), [0], [96], [0])
    net.now = net.add("MatMul", net.reshape(y, 2, 48, 64), net.numbers(64, 64))
    equals_onnxruntime(toolkit, net.proto(), net.given())


@pytest.mark.parametrize("turned", [False, True])
def test_the_same_rows_of_two_sizes(toolkit: Toolkit, turned: bool) -> None:
    """Rows alike by number are of one batch here, of both there."""
    net = Net(2, 6, 16, 64)

    def both() -> str:
        y = net.add("MatMul", "x", net.numbers(64, 64))
        z = net.reshape(net.add("Slice", y, [0], [1], [0]), 2, 48, 64)
        return net.add("MatMul", rolled(net, z, 5), net.numbers(64, 64))

    def each() -> str:
        y = net.reshape(net.add("MatMul", "x", net.numbers(64, 64)), 2, 96, 64)
        y = net.add("Slice", y, [0], [48], [1])
        y = net.add("Relu", net.add("MatMul", y, net.numbers(64, 64)))
        return net.add("MatMul", rolled(net, y, 5), net.numbers(64, 64))

    made = [part() for part in ((both, each) if turned else (each, both))]
    net.now = made[0]
    equals_onnxruntime(toolkit, net.proto(made[1:]), net.given())


def rolled(net: Net, x: str, by: int) -> str:
    """Rows [N, T, C], twice by so many."""
    for _ in range(2):
        x = net.add(
            "Concat", net.add("Slice", x, [by], [2**31], [1]), net.add("Slice", x, [0], [by], [1]), axis=1
        )
    return x


def test_products_of_six_dimensions(toolkit: Toolkit) -> None:
    net = Net(1, 8, 12, 64)
    order = [0, 1, 3, 2, 4, 5]
    y = net.add("Transpose", net.reshape(net.norm("x"), 1, 2, 4, 3, 4, 64), perm=order)
    y = net.add("Transpose", net.add("MatMul", y, net.numbers(64, 64)), perm=order)
    net.now = net.add("MatMul", net.reshape(y, 1, 8, 12, 64), net.numbers(64, 64))
    equals_onnxruntime(toolkit, net.proto(), net.given())


def test_rows_without_number() -> None:
    """More than memory would hold are not looked at, beside some that are."""
    huge = 1 << 36
    nodes = [
        helper.make_node("Transpose", ["x"], ["v"], perm=[0, 2, 1, 3]),
        helper.make_node("Relu", ["v"], ["w"]),
        helper.make_node("Relu", ["h"], ["i"]),
        helper.make_node("Concat", ["i", "i"], ["j"], axis=0),
    ]
    shapes = {"x": (1, 4, 6, 8), "h": (huge, 2)}
    model = load_model(make_model(nodes, shapes, ["w", "j"], {}, opset=17))
    assert keep_orders(model) is model


def test_names_that_a_model_has_itself() -> None:
    """None of those that are made is one of the model's."""
    net = blocks(0, 1)
    net.now = net.add("Add", net.now, net.numbers(1, 8, 12, 64))
    net.block(4)
    model = load_model(net.proto())
    made = {*keep_orders(model).values} - {*model.values}
    made |= {*keep_orders(model).constants} - {*model.constants}
    assert any("rearranged" in name for name in made)
    for name in sorted(made):
        inner = next(one for one in net.nodes if one.op_type == "Relu").output[0]
        other = load_model(renamed(net.proto(), inner, name))
        assert name in other.values
        assert not {
            one for node in keep_orders(other).nodes for one in node.outputs if node.op == REARRANGE
        } & {name}
        kept = keep_orders(other)
        assert name not in kept.constants
        assert sum(name in node.outputs for node in kept.nodes) == 1


def renamed(proto: Any, old: str, new: str) -> Any:
    """The model with another name for a value."""
    for node in proto.graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
    for value in proto.graph.value_info:
        value.name = new if value.name == old else value.name
    return proto


@examples(12)
@given(data=st.data())
def test_any_blocks(toolkit: Toolkit, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([2, 3, 4]))
    net = Net(data.draw(st.integers(1, 3)), 2 * size, size * data.draw(st.integers(1, 3)), 4)
    outputs = []
    for _ in range(data.draw(st.integers(1, 3))):
        roll = data.draw(st.integers(0, size - 1))
        net.block(size, roll, post=data.draw(st.booleans()), mask=data.draw(st.booleans()))
        if data.draw(st.integers(0, 4)) == 0:
            outputs.append(net.now)
    if net.shape[1] % 2 == net.shape[2] % 2 == 0 and data.draw(st.booleans()):
        net.merge(6)
    equals_onnxruntime(toolkit, net.proto(outputs), net.given())


def test_moves_are_one_operation_of_this_compiler() -> None:
    model = keep_orders(load_model(blocks(0, 1).proto()))
    assert sum(node.op == REARRANGE for node in model.nodes) > 0
