"""Rotary embedding by products: the bits of heads that are moved in pieces, where it is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model, normal_input
from user_layers.onnx import rotary
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(
    *,
    n: int = 1,
    tokens: int = 40,
    heads: int = 2,
    size: int = 8,
    turned: int = 8,
    inner: int = 6,
    bias: bool = False,
    split: bool = False,
    swapped: bool = False,
    more: tuple[Any, ...] = (),
    outputs: tuple[str, ...] = ("y",),
) -> Any:
    """Heads behind a product, of which the first `turned` elements are turned."""
    rng = np.random.default_rng(size)
    half, width, product = turned // 2, heads * size, "b" if bias else "p"

    def some(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    constants: dict[str, Any] = {
        "w": some(inner, width),
        "c": some(tokens, turned),
        "s": some(1, 1, tokens, turned),
        "shape": np.array([n, tokens, heads, size]),
    }
    nodes = [node("MatMul", "x w", "p")]
    if bias:
        constants["added"] = some(width)
        nodes.append(node("Add", "p added", "b"))
    nodes += [node("Reshape", f"{product} shape", "v"), node("Transpose", "v", "t", perm=[0, 2, 1, 3])]
    source = "t"
    if turned < size:
        constants["parts"] = np.array([turned, size - turned])
        nodes.append(node("Split", "t parts", "part rest", axis=-1))
        source = "part"
    if split:
        constants["halves"] = np.array([half, half])
        nodes.append(node("Split", f"{source} halves", "low high", axis=3))
    else:
        constants |= {
            "zero": np.array([0]),
            "half": np.array([half]),
            "end": np.array([2**31]),
            "axis": np.array([3]),
        }
        nodes += [
            node("Slice", f"{source} zero half axis", "low"),
            node("Slice", f"{source} half end axis", "high"),
        ]
    first, second = ("sin", "cos") if swapped else ("cos", "sin")
    made = "y" if turned == size else "z"
    nodes += [
        node("Neg", "high", "minus"),
        node("Concat", "minus low", "other", axis=-1),
        node("Mul", f"c {source}" if swapped else f"{source} c", "cos"),
        node("Mul", "other s", "sin"),
        node("Add", f"{first} {second}", made),
    ]
    if turned < size:
        nodes.append(node("Concat", "z rest", "y", axis=-1))
    return make_model([*nodes, *more], {"x": (n, tokens, inner)}, list(outputs), constants)


def ops(toolkit: Toolkit, proto: Any) -> list[str]:
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    return [each.op for each in built.model.nodes]


@examples(8)
@given(data=st.data())
def test_the_same_numbers(toolkit: Toolkit, data: st.DataObject) -> None:
    size = 2 * data.draw(st.integers(1, 9))
    proto = model(
        n=data.draw(st.integers(1, 3)),
        tokens=data.draw(st.integers(1, 20)),
        heads=data.draw(st.integers(1, 3)),
        size=size,
        turned=2 * data.draw(st.integers(1, size // 2)),
        inner=data.draw(st.integers(1, 9)),
        bias=data.draw(st.booleans()),
        split=data.draw(st.booleans()),
        swapped=data.draw(st.booleans()),
    )
    results = []
    for moved in (1e9, 0.0):  # always, never
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rotary, "_MOVED", moved)
            graph, built = build_graph(from_proto(proto), toolkit=toolkit)
        assert ("Neg" in [each.op for each in built.model.nodes]) == (not moved)
        graph.compile(opt=0)
        results += graph.run(normal_input(proto, 1))
    # Bits, but where factors go into products: with one position they are numbers of columns.
    moved_on, kept = (result.astype(np.float64) for result in results)
    assert np.abs(moved_on - kept).max() <= 1e-6 * max(1.0, float(np.abs(kept).max()))


@pytest.mark.parametrize("partly", [False, True])
def test_as_onnxruntime(toolkit: Toolkit, partly: bool) -> None:
    proto = model(bias=True, turned=4 if partly else 8)
    assert "Neg" not in ops(toolkit, proto)
    equals_onnxruntime(toolkit, proto, normal_input(proto, 2))


def _changed(proto: Any, output: str, inputs: str) -> Any:
    """The model in which the node that makes `output` reads something else."""
    (found,) = (each for each in proto.graph.node if output in each.output)
    del found.input[:]
    found.input.extend(inputs.split())
    return proto


STAYS = {
    "the first half negated": lambda: _changed(model(), "other", "low minus"),
    "halves in place": lambda: _changed(_changed(model(), "minus", "low"), "other", "minus high"),
}
TURNS = {
    "heads read elsewhere": lambda: model(more=(node("Relu", "t", "q"),), outputs=("y", "q")),
    "a half read elsewhere": lambda: model(more=(node("Relu", "low", "q"),), outputs=("y", "q")),
    "what is not turned is turned away": lambda: _changed(model(turned=4), "y", "rest z"),
    "few tokens": lambda: model(tokens=4, inner=300),
}


@pytest.mark.parametrize("name", STAYS | TURNS)
def test_others_as_onnxruntime(toolkit: Toolkit, name: str) -> None:
    proto = (STAYS | TURNS)[name]()
    assert ("Neg" in ops(toolkit, proto)) == (name in STAYS)
    equals_onnxruntime(toolkit, proto, normal_input(proto, 2))


def form(kind: str, *, heads_first: bool = True, normed: bool = False, inner: int = 6) -> Any:
    """The same turn as models write it otherwise: heads are 2 of 8 elements for 40 tokens.

    normed: something else stands between the product and the turn. Kinds: `pairs` of neighbours, stacked;
    `complex`: of neighbours, each by itself; `halves`: each by itself; `given`: neighbours, with factors that
    are computed from the input."""
    rng = np.random.default_rng(5)
    n, tokens, heads, size = 1, 40, 2, 8
    angle = rng.uniform(0, 3, (tokens, size // 2)).astype(np.float32)
    angle[0] = 0  # the first token is not turned
    factors = angle if kind in ("halves", "complex") else angle.repeat(2, -1)
    between = (1,) if not heads_first else ()
    factors = factors.reshape(tokens, *between, factors.shape[-1])
    if kind == "complex":
        factors = factors[..., None]
    constants: dict[str, Any] = {
        "w": rng.standard_normal((inner, heads * size)).astype(np.float32),
        "apart": np.array([n, tokens, heads, size]),
        "c": np.cos(factors),
        "s": np.sin(factors),
        "halves": np.array([size // 2, size // 2]),
        "ones": np.array([1, 1]),
        "couples": np.array([n, *((heads, tokens) if heads_first else (tokens, heads)), size // 2, 2]),
        "joined": np.array([n, *((heads, tokens) if heads_first else (tokens, heads)), size]),
        "last": np.array([-1]),
        "even": np.array([0]),
        "odd": np.array([1]),
        "end": np.array([2**31]),
        "two": np.array([2]),
    }
    nodes = [node("MatMul", "x w", "p"), node("Reshape", "p apart", "v")]
    source = "v"
    if heads_first:
        nodes.append(node("Transpose", "v", "t", perm=[0, 2, 1, 3]))
        source = "t"
    if normed:
        nodes.append(node("Relu", source, "r"))
        source = "r"
    if kind == "halves":
        nodes.append(node("Split", f"{source} halves", "a b", axis=-1))
    elif kind == "complex":
        nodes += [node("Reshape", f"{source} couples", "k"), node("Split", "k ones", "a b", axis=-1)]
    else:
        nodes += [
            node("Slice", f"{source} even end last two", "a"),
            node("Slice", f"{source} odd end last two", "b"),
        ]
    if kind in ("halves", "complex"):
        nodes += [
            node("Mul", "a c", "ac"),
            node("Mul", "s b", "bs"),
            node("Sub", "ac bs", "first"),
            node("Mul", "b c", "bc"),
            node("Mul", "a s", "as"),
            node("Add", "bc as", "second"),
            node("Concat", "first second", "y" if kind == "halves" else "z", axis=-1),
        ]
        if kind == "complex":
            nodes.append(node("Reshape", "z joined", "y"))
    else:
        cos, sin = "c", "s"
        if kind == "given":
            nodes += [
                node("Reshape", f"{source} joined", "all"),
                node("Relu", "all", "positive"),
                node("Add", "positive c", "cos_"),
                node("Add", "positive s", "sin_"),
            ]
            cos, sin = "cos_", "sin_"
        nodes += [
            node("Neg", "b", "minus"),
            node("Unsqueeze", "minus last", "m1"),
            node("Unsqueeze", "a last", "a1"),
            node("Concat", "m1 a1", "pairs", axis=-1),
            node("Reshape", "pairs joined", "other"),
            node("Mul", f"{source} {cos}", "straight"),
            node("Mul", f"other {sin}", "crossed"),
            node("Add", "straight crossed", "y"),
        ]
    read = {name for one in nodes for name in one.input}
    kept = {name: array for name, array in constants.items() if name in read}
    return make_model(nodes, {"x": (n, tokens, inner)}, ["y"], kept)


@pytest.mark.parametrize("kind", ["pairs", "complex", "halves", "given"])
@pytest.mark.parametrize("heads_first", [True, False])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("inner", [6, 900])  # other columns of weights, or ones
def test_forms(toolkit: Toolkit, kind: str, heads_first: bool, normed: bool, inner: int) -> None:
    proto = form(kind, heads_first=heads_first, normed=normed, inner=inner)
    assert not {"Neg", "Sub", "Concat", "Slice", "Split"} & {*ops(toolkit, proto)}
    equals_onnxruntime(toolkit, proto, normal_input(proto, 2))


@pytest.mark.parametrize("by_weights", [False, True])
def test_ones_and_weights_give_the_same_bits(toolkit: Toolkit, by_weights: bool) -> None:
    """As the heads that are moved in pieces."""
    proto = model(tokens=20, heads=3, size=8, bias=True, inner=9)
    results = []
    for moved in (1e9, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rotary, "_MOVED", moved)
            patch.setattr(rotary, "PRODUCT_MACS", 1e9 if by_weights else 0.1)
            graph, built = build_graph(from_proto(proto), toolkit=toolkit)
        if moved:
            names = [name for name in built.model.constants if name.endswith((":places", ":turned weights"))]
            assert [name.endswith("weights") for name in names] == [by_weights]
        graph.compile(opt=0)
        results += graph.run(normal_input(proto, 2))
    assert np.array_equal(results[0], results[1])
