"""Matrices of several heads as batches, around products of two computed ones, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import equals_onnxruntime, make_model, normal_input
from user_layers.onnx.head_batches import heads_as_batches
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

Shape = tuple[int, int]


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


MOVING = ("slice", "split", "pad", "concat", "turn")
KINDS = ("product", "unary", "number", "head", "same", "row", "softmax", *MOVING)


class Chain:
    """A random net of matrices [1, H, R, C]. old: as opset 11 writes it."""

    def __init__(self, draw: st.DrawFn, heads: int, old: bool) -> None:
        self.draw, self.heads, self.old = draw, heads, old
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.shapes: dict[str, Shape] = {}
        self.count = 0

    def add(self, op: str, inputs: str, shape: Shape, **attributes: Any) -> str:
        self.count += 1
        made = f"v{self.count}"
        self.nodes.append(node(op, inputs, made, **attributes))
        self.shapes[made] = shape
        return made

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def numbers(self, shape: tuple[int, ...]) -> str:
        values = np.random.default_rng(len(self.constants)).uniform(0.5, 1.5, shape)
        return self.constant(values.astype(np.float32))

    def product(self, left: str, right: str) -> str:
        """Of two matrices, one of them transposed or cut where they do not fit."""
        (rows, inner), (a, b) = self.shapes[left], self.shapes[right]
        if a != inner and b == inner:
            right, (a, b) = self.add("Transpose", right, (b, a), perm=[0, 1, 3, 2]), (b, a)
        if a != inner:
            right = self.add("Transpose", left, (inner, rows), perm=[0, 1, 3, 2])
            b = rows
        return self.add("MatMul", f"{left} {right}", (rows, b))

    def step(self) -> None:
        name = self.draw(st.sampled_from(sorted(self.shapes)))
        rows, columns = shape = self.shapes[name]
        kind = self.draw(st.sampled_from(KINDS))
        match kind:
            case "product":
                self.product(name, self.draw(st.sampled_from(sorted(self.shapes))))
            case "unary":
                self.add(self.draw(st.sampled_from(["Relu", "Sigmoid", "Tanh"])), name, shape)
            case "number" | "head" | "row":
                one = {"number": (), "head": (self.heads, 1, 1), "row": (1, 1, 1, columns)}[kind]
                pair = [name, self.numbers(one)]
                op = self.draw(st.sampled_from(["Mul", "Add", "Sub"]))
                self.add(op, " ".join(pair if self.draw(st.booleans()) else pair[::-1]), shape)
            case "same":
                others = [other for other, own in self.shapes.items() if own == shape]
                self.add("Add", f"{name} {self.draw(st.sampled_from(others))}", shape)
            case "softmax":
                self.add("Softmax", name, shape, axis=self.draw(st.sampled_from([-1, 3])))
            case "slice" | "split":
                axis = self.draw(st.sampled_from([2, 3, -1, -2]))
                extent = shape[axis % 2]
                if extent > 1:
                    at = self.draw(st.integers(1, extent - 1))
                    parts = (at, columns) if axis % 2 == 0 else (rows, at)
                    rest = (extent - at, columns) if axis % 2 == 0 else (rows, extent - at)
                    if kind == "slice":
                        cut = " ".join(self.constant(np.array([v])) for v in (0, at, axis))
                        self.add("Slice", f"{name} {cut}", parts)
                    elif self.old:
                        made = self.add("Split", name, parts, axis=axis, split=[at, extent - at])
                        self.nodes[-1].output.append(f"{made}b")
                        self.shapes[f"{made}b"] = rest
                    else:
                        sizes = self.constant(np.array([at, extent - at]))
                        made = self.add("Split", f"{name} {sizes}", parts, axis=axis)
                        self.nodes[-1].output.append(f"{made}b")
                        self.shapes[f"{made}b"] = rest
            case "pad":
                pads = self.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2]))
                value = self.constant(np.float32(1))
                self.add("Pad", f"{name} {pads} {value}", (rows + 1, columns + 2))
            case "concat":
                others = [other for other, own in self.shapes.items() if own[1] == columns]
                other = self.draw(st.sampled_from(others))
                self.add("Concat", f"{name} {other}", (rows + self.shapes[other][0], columns), axis=2)
            case "turn":
                self.add("Transpose", name, (columns, rows), perm=[0, 1, 3, 2])


@st.composite
def chains(draw: st.DrawFn) -> Any:
    old = draw(st.booleans())
    chain = Chain(draw, draw(st.sampled_from([1, 3, 12])), old)
    rows, columns = draw(st.sampled_from([(5, 7), (17, 8), (33, 4)]))
    chain.nodes.append(node("Reshape", f"x {chain.constant(np.array([1, chain.heads, rows, columns]))}", "v"))
    chain.shapes["v"] = rows, columns
    chain.product("v", "v")
    for _ in range(draw(st.integers(1, 8))):
        chain.step()
    read = {name for one in chain.nodes for name in one.input}
    ends = [name for name in chain.shapes if name not in read]
    if draw(st.booleans()):  # a layer on pictures behind one of them
        weights = chain.numbers((2, chain.heads, 3, 3))
        chain.nodes.append(node("Conv", f"{ends[0]} {weights}", "picture", pads=[1, 1, 1, 1]))
        ends.append("picture")
    size = chain.heads * rows * columns
    return make_model(chain.nodes, {"x": (1, size)}, ends, chain.constants, opset=11 if old else 17)


@examples(40)
@given(chains(), st.sampled_from([{}, {"opt": 1}, {"dynamic": True}]))
def test_any_chain_equals_onnxruntime(toolkit: Toolkit, proto: Any, how: dict[str, Any]) -> None:
    equals_onnxruntime(toolkit, proto, normal_input(proto, 3), **how)


def linear_attention(heads: int = 12, tokens: int = 49, size: int = 8) -> Any:
    """As EfficientViT has it, between two convolutions of pictures."""
    side, channels = int(tokens**0.5), 3 * size * heads
    rng = np.random.default_rng(0)
    constants = {
        "w": (rng.standard_normal((channels, 16, 1, 1)) / 4).astype(np.float32),
        "back": (rng.standard_normal((16, size * heads, 1, 1)) / 16).astype(np.float32),
        "heads": np.array([1, heads, 3 * size, tokens]),
        "picture": np.array([1, size * heads, side, side]),
        "sizes": np.array([size] * 3),
        "pads": np.array([0, 0, 0, 0, 0, 0, 0, 1]),
        "one": np.float32(1),
        "least": np.float32(1e-3),
        **{name: np.array([value]) for name, value in (("a0", 0), ("a1", -1), ("a2", 2**31 - 1), ("a3", 3))},
    }
    nodes = [
        node("Conv", "x w", "qkv"),
        node("Reshape", "qkv heads", "a"),
        node("Transpose", "a", "b", perm=[0, 1, 3, 2]),
        node("Split", "b sizes", "q0 k0 v0", axis=-1),
        node("Relu", "q0", "q"),
        node("Relu", "k0", "k"),
        node("Pad", "v0 pads one", "v"),
        node("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "kt v", "kv"),
        node("MatMul", "q kv", "o"),
        node("Slice", "o a0 a1 a3", "numerator"),
        node("Slice", "o a1 a2 a3", "sum"),
        node("Add", "sum least", "denominator"),
        node("Div", "numerator denominator", "out"),
        node("Transpose", "out", "turned", perm=[0, 1, 3, 2]),
        node("Reshape", "turned picture", "back0"),
        node("Conv", "back0 back", "y"),
    ]
    return make_model(nodes, {"x": (1, 16, side, side)}, ["y"], constants)


def test_linear_attention_is_in_local_memory(toolkit: Toolkit) -> None:
    proto = linear_attention()
    lines: list[str] = []
    equals_onnxruntime(toolkit, proto, normal_input(proto, 0), log=lines.append)
    layers = [line for line in lines if not line.startswith(("RESHAPE", "net"))]
    products = [line for line in layers if line.startswith("MATMUL")]
    assert len(products) == 2
    assert all(
        ", local, group" in line for line in layers if line.split()[0] in ("MATMUL", "SLICE", "PAD", "TURN")
    )


def regions(proto: Any) -> set[str]:
    """Outputs of the nodes that are written with three dimensions."""
    before = load_model(proto)
    after = heads_as_batches(before)
    return {
        name.removesuffix(":heads")
        for one in after.nodes
        for name in one.makes
        if one.op not in ("Squeeze", "Unsqueeze")
        and len(after.value(name).fixed or ()) == 3
        and len(before.value(name.removesuffix(":heads")).fixed or ()) == 4
    }


def test_layers_beside_pictures_stay_with_them() -> None:
    """A function of one element behind a convolution, and before one, is part of its group."""
    constants = {
        "w": np.ones((3, 3, 1, 1), np.float32),
        "masks": np.ones((3, 1, 1), np.float32),
    }
    nodes = [
        node("Conv", "x w", "a"),
        node("Relu", "a", "b"),
        node("Transpose", "b", "bt", perm=[0, 1, 3, 2]),
        node("MatMul", "b bt", "c"),
        node("Mul", "c masks", "d"),
        node("Softmax", "d", "e", axis=-1),
        node("MatMul", "e b", "f"),
        node("Add", "f b", "g"),
        node("Sigmoid", "g", "h"),
        node("Conv", "h w", "y"),
    ]
    proto = make_model(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants)
    assert regions(proto) == {"bt", "c", "d", "e", "f"}


@pytest.mark.parametrize(
    "case", ["no product", "constant matrices", "batches", "masks of batches", "softmax of heads"]
)
def test_what_stays(case: str) -> None:
    shape = (2, 3, 4, 4) if case == "batches" else (1, 3, 4, 4)
    constants = {"w": np.ones((1, 3, 4, 4), np.float32), "mask": np.ones((1, 3, 4, 4), np.float32)}
    product = node("MatMul", "x w" if case == "constant matrices" else "x x", "a")
    nodes = {
        "no product": [node("Transpose", "x", "a", perm=[0, 1, 3, 2]), node("Softmax", "a", "y", axis=-1)],
        "constant matrices": [product, node("Relu", "a", "y")],
        "batches": [product, node("Relu", "a", "y")],
        "masks of batches": [product, node("Add", "a mask", "y")],
        "softmax of heads": [product, node("Softmax", "a", "y", axis=1)],
    }[case]
    got = regions(make_model(nodes, {"x": shape}, ["y"], constants))
    assert got == {"masks of batches": {"a", "y"}, "softmax of heads": {"a"}}.get(case, set())


def brought(shared: bool) -> Any:
    """Heads of rows that come to the front for a product; shared: and for something else."""
    constants = {
        "shape": np.array([1, 40, 6, 8]),
        "w": np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x w", "a"),
        node("Reshape", "a shape", "b"),
        node("Transpose", "b", "q", perm=[0, 2, 1, 3]),
        node("Transpose", "q", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "t q", "s"),
        node("Tanh", "s", "y"),
        *([node("ReduceMax", "q", "z", axes=[1], keepdims=1)] if shared else []),
    ]
    return make_model(nodes, {"x": (1, 40, 48)}, ["y", "z"] if shared else ["y"], constants)


def test_heads_that_are_brought_to_the_front_are_loaded_so(toolkit: Toolkit) -> None:
    proto = brought(shared=False)
    for opt in (1, 2):
        lines: list[str] = []
        equals_onnxruntime(toolkit, proto, normal_input(proto, 0), log=lines.append, opt=opt)
        loads = [line for line in lines if "[40, 6, 8] -> [6, 40, 8]" in line]
        assert len(loads) == 1
        assert opt > 1 or ", local, group" in loads[0]


@pytest.mark.parametrize("shared", [False, True])
def test_heads_are_not_brought_twice(shared: bool) -> None:
    model = heads_as_batches(load_model(brought(shared)))
    orders = [one.attributes["perm"] for one in model.nodes if one.op == "Transpose"]
    assert ([1, 0, 2] in orders, [0, 2, 1, 3] in orders) == (not shared, shared)


def test_normalisations_with_more_results_stay(toolkit: Toolkit) -> None:
    """Nothing makes a mean, so such a node is written out in operations."""
    nodes = [
        node("LayerNormalization", "x g", "a m"),
        node("Add", "a m", "t"),
        node("MatMul", "t t", "y"),
    ]
    proto = make_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], {"g": np.linspace(1, 2, 5).astype(np.float32)})
    equals_onnxruntime(toolkit, proto, normal_input(proto, 3))


@pytest.mark.parametrize("name", ["head batches:axis", "x:heads", "b:heads", "y:heads", "b:pads"])
@pytest.mark.parametrize("constant", [False, True])
def test_names_that_the_model_has(toolkit: Toolkit, name: str, constant: bool) -> None:
    sizes = {"pads": np.array([0, 0, 0, 0, 0, 0, 0, 2])}
    own = [] if constant else [helper.make_node("Relu", ["x"], [name])]
    nodes = [
        *own,
        node("Pad", "x pads", "b"),
        node("Transpose", "x", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "t b", "c"),
        helper.make_node("Add", ["x", name], ["d"]),
        node("MatMul", "d c", "y"),
    ]
    numbers = np.random.default_rng(1).standard_normal((1, 3, 5, 5)).astype(np.float32)
    constants = {**sizes, **({name: numbers} if constant else {})}
    proto = make_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants)
    equals_onnxruntime(toolkit, proto, normal_input(proto, 3))


def test_heads_beside_those_of_attention(toolkit: Toolkit) -> None:
    """Attention that is one layer has a result of three dimensions, whose name is taken."""
    heads, tokens, size = 3, 10, 8
    constants = {
        "shape": np.array([1, tokens, heads, size]),
        "scale": np.float32(0.3),
        "other": np.array([1, 2, tokens // 2, heads * size]),
    }
    nodes = [
        node("Reshape", "x shape", "h"),
        node("Transpose", "h", "q", perm=[0, 2, 1, 3]),
        node("Transpose", "h", "kt", perm=[0, 2, 3, 1]),
        node("Mul", "q scale", "qs"),
        node("MatMul", "qs kt", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p q", "o"),
        node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        node("Reshape", "ot other", "r"),
        node("Transpose", "r", "rt", perm=[0, 1, 3, 2]),
        node("MatMul", "rt r", "y"),
    ]
    proto = make_model(nodes, {"x": (1, tokens, heads * size)}, ["y"], constants)
    lines: list[str] = []
    equals_onnxruntime(toolkit, proto, normal_input(proto, 3), log=lines.append, opt=1)
    assert any(line.startswith("ATTENTION") for line in lines)
