"""Rotary embedding by turned weights: the bits of heads that are moved in pieces, where it is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
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
    x = np.random.default_rng(1).standard_normal(
        [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    )
    results = []
    for moved in (1e9, 0.0):  # always, never
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rotary, "_MOVED", moved)
            graph, built = build_graph(from_proto(proto), toolkit=toolkit)
        assert ("Neg" in [each.op for each in built.model.nodes]) == (not moved)
        graph.compile(opt=0)
        results += graph.run({"x": x.astype(np.float32)})
    # Bits, but where factors go into products: with one position they are numbers of columns.
    moved_on, kept = (result.astype(np.float64) for result in results)
    assert np.abs(moved_on - kept).max() <= 1e-6 * max(1.0, float(np.abs(kept).max()))


@pytest.mark.parametrize("partly", [False, True])
def test_as_onnxruntime(toolkit: Toolkit, partly: bool) -> None:
    proto = model(bias=True, turned=4 if partly else 8)
    assert "Neg" not in ops(toolkit, proto)
    x = np.random.default_rng(2).standard_normal((1, 40, 6)).astype(np.float32)
    equals_onnxruntime(toolkit, proto, {"x": x})


def _changed(proto: Any, output: str, inputs: str) -> Any:
    """The model in which the node that makes `output` reads something else."""
    (found,) = (each for each in proto.graph.node if output in each.output)
    del found.input[:]
    found.input.extend(inputs.split())
    return proto


OTHERS = {
    "the first half negated": lambda: _changed(model(), "other", "low minus"),
    "halves in place": lambda: _changed(_changed(model(), "minus", "low"), "other", "minus high"),
    "heads read elsewhere": lambda: model(more=(node("Relu", "t", "q"),), outputs=("y", "q")),
    "a half read elsewhere": lambda: model(more=(node("Relu", "low", "q"),), outputs=("y", "q")),
    "what is not turned is turned away": lambda: _changed(model(turned=4), "y", "rest z"),
    "few tokens": lambda: model(tokens=4, inner=300),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays(toolkit: Toolkit, name: str) -> None:
    proto = OTHERS[name]()
    assert "Neg" in ops(toolkit, proto)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    equals_onnxruntime(
        toolkit, proto, {"x": np.random.default_rng(2).standard_normal(shape).astype(np.float32)}
    )
