"""Einsum as other layers, beside numpy; attention that is written with it is one layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import build_graph, make_model
from user_layers.onnx.attention import ATTENTION
from user_layers.onnx.check import reference
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit

NEAR = 1e-6  # of the largest value


def numbers(shape: Sequence[int], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def einsum(equation: str, operands: Sequence[Any], constant: Sequence[int] = (), opset: int = 17) -> Any:
    """A model of one node; constant: operands that are."""
    names = [f"x{i}" for i in range(len(operands))]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    shapes = {
        name: x.shape for i, (name, x) in enumerate(zip(names, operands, strict=True)) if i not in constant
    }
    constants = {names[i]: operands[i] for i in constant}
    return make_model([node], shapes, ["y"], constants, opset)


def check(
    toolkit: Toolkit, equation: str, operands: Sequence[Any], constant: Sequence[int] = (), **options: Any
) -> list[str]:
    """The operations of the nodes that it became."""
    proto = einsum(equation, operands, constant, options.pop("opset", 17))
    graph, built = build_graph(from_proto(proto), toolkit=toolkit)
    assert built.on_cpu == []
    graph.compile(**options)
    (got,) = graph.run({f"x{i}": x for i, x in enumerate(operands) if i not in constant})
    want = np.einsum(equation, *(x.astype(np.float64) for x in operands))
    assert got.shape == (want.shape or (1,))
    assert np.abs(got - want).max() <= NEAR * max(np.abs(want).max(), 1)
    return [node.op for node in built.model.nodes]


# Equation, shapes, what it becomes.
WRITTEN: dict[str, tuple[list[tuple[int, ...]], list[str] | None]] = {
    "ij->ji": ([(3, 4)], ["Transpose"]),
    "ij->": ([(3, 4)], ["ReduceSum"]),
    "ijk->ki": ([(3, 4, 5)], ["ReduceSum", "Transpose"]),
    "ij->ij": ([(3, 4)], ["Identity"]),
    "ij,jk": ([(3, 4), (4, 5)], ["MatMul"]),
    "ij,kj->ik": ([(3, 4), (5, 4)], ["Transpose", "MatMul"]),
    "ba,cb": ([(3, 4), (5, 3)], ["Transpose", "Transpose", "MatMul"]),
    "i,i->": ([(7,), (7,)], ["Reshape", "Reshape", "MatMul", "Reshape"]),
    "i,j->ij": ([(7,), (4,)], ["Reshape", "Reshape", "Mul"]),
    "bi,bi->bi": ([(7, 3), (7, 3)], ["Mul"]),
    "nhc,ck->nhk": ([(2, 3, 4), (4, 5)], ["MatMul"]),
    "nhc,ck->hnk": ([(2, 3, 4), (4, 5)], ["Transpose", "MatMul"]),
    "bhid,bhjd->bhij": ([(2, 3, 4, 5), (2, 3, 6, 5)], ["Transpose", "MatMul"]),
    "bhij,bhjd->bhid": ([(2, 3, 4, 6), (2, 3, 6, 5)], ["MatMul"]),
    "bthd,bshd->bhts": ([(2, 4, 3, 5), (2, 6, 3, 5)], ["Transpose", "Transpose", "MatMul"]),
    "...ij,...jk": ([(2, 3, 4), (2, 4, 5)], ["MatMul"]),
    "...ij,jk->...ik": ([(2, 3, 4), (4, 5)], ["MatMul"]),
    "ij,jk,kl->il": ([(3, 4), (4, 5), (5, 2)], ["MatMul", "MatMul"]),
    "abcd,efcd->abef": ([(2, 3, 4, 5), (6, 2, 4, 5)], None),
    "ij,jk->ik": ([(3, 1), (4, 5)], None),
    " b i, b i -> b ": ([(3, 4), (3, 4)], None),
    "bi,bj->bij": ([(1, 3), (4, 5)], None),  # ONNX infers [1, 3, 5]
    "bi,bj": ([(1, 3), (4, 5)], None),
    "i,i->i": ([(1,), (5,)], None),
    "ij,ij->": ([(1, 4), (3, 1)], None),
    "...a,...b->ab...": ([(1, 2), (3, 4)], None),
    "ib,bij,jb->bj": ([(3, 1), (4, 3, 1), (5, 4)], None),
}


@pytest.mark.parametrize("equation", WRITTEN)
def test_what_equations_become(toolkit: Toolkit, equation: str) -> None:
    shapes, wanted = WRITTEN[equation]
    made = check(toolkit, equation, [numbers(shape, i) for i, shape in enumerate(shapes)])
    assert wanted is None or [op for op in made if op != "FusedAffine"] == wanted


def test_constants_are_turned_when_compiling(toolkit: Toolkit) -> None:
    x, w = numbers((2, 3, 4), 0), numbers((5, 6, 4), 1)
    assert check(toolkit, "bsc,hdc->bshd", [x, w], [1]) == ["MatMul", "Reshape"]
    assert check(toolkit, "bsc,chd->bshd", [x, numbers((4, 5, 6), 1)], [1]) == ["MatMul", "Reshape"]


def test_axes_were_an_attribute(toolkit: Toolkit) -> None:
    check(toolkit, "ijk,jl->il", [numbers((3, 4, 5), 0), numbers((4, 6), 1)], opset=12)


@examples(60)
@given(st.data())
def test_any_equation(toolkit: Toolkit, data: st.DataObject) -> None:
    extents = {letter: data.draw(st.integers(1, 4)) for letter in "abcdef"}
    count = data.draw(st.integers(1, 3))
    terms, operands = [], []
    for i in range(count):
        letters = data.draw(st.lists(st.sampled_from("abcdef"), max_size=4, min_size=1, unique=True))
        shape = [extents[x] if data.draw(st.integers(0, 9)) else 1 for x in letters]
        dots = data.draw(st.sampled_from(["", "", "..."])) if len(letters) < 4 else ""
        if dots:
            shape = [extents["f"], *shape] if "f" not in letters else [1, *shape]
        terms.append(dots + "".join(letters))
        operands.append(numbers(shape, i))
    every = sorted({x for term in terms for x in term if x != "."})
    made = "".join(data.draw(st.lists(st.sampled_from(every), unique=True)))
    dotted = any("." in term for term in terms)
    equation = ",".join(terms) + ("->" + ("..." if dotted else "") + made if data.draw(st.booleans()) else "")
    inferred = from_proto(einsum(equation, operands)).outputs[0].fixed
    assume(inferred == np.einsum(equation, *operands).shape)  # letters with one element in one operand
    constant = [i for i in range(count - 1) if data.draw(st.integers(0, 4)) == 0]
    check(toolkit, equation, operands, constant, dynamic=data.draw(st.booleans()))


@pytest.mark.parametrize(
    ("equation", "shapes", "reason"),
    [
        ("ii->i", [(3, 3)], "a letter twice in one operand"),
        ("ij,jj->i", [(3, 3), (3, 3)], "a letter twice in one operand"),
    ],
)
def test_what_stays_on_the_host(
    toolkit: Toolkit, equation: str, shapes: Sequence[tuple[int, ...]], reason: str
) -> None:
    operands = [numbers(shape, i) for i, shape in enumerate(shapes)]
    _, built = build_graph(from_proto(einsum(equation, operands)), toolkit=toolkit)
    (line,) = built.on_cpu
    assert line.startswith("Einsum") and reason in line


def test_fewer_rows_in_a_dynamic_net(toolkit: Toolkit) -> None:
    x, w = numbers((6, 5, 4), 0), numbers((4, 2, 3), 1)
    graph, _ = build_graph(from_proto(einsum("bsc,chd->bshd", [x, w], [1])), toolkit=toolkit)
    graph.compile(dynamic=True)
    for rows in (6, 2):
        (got,) = graph.run({"x0": x[:rows]})
        assert np.abs(got - np.einsum("bsc,chd->bshd", x[:rows], w)).max() <= 1e-5


# Queries with keys, weights with values; how q, k, v and the result lie.
ATTENTIONS = {
    "heads before tokens": ("bhid,bhjd->bhij", "bhij,bhjd->bhid", (2, 3, 7, 4)),
    "heads behind tokens": ("bthd,bshd->bhts", "bhts,bshd->bthd", (2, 7, 3, 4)),
    "keys are asked first": ("bhjd,bhid->bhij", "bhjd,bhij->bhid", (2, 3, 7, 4)),
    "channels before tokens": ("bct,bcs->bts", "bts,bcs->bct", (2, 4, 7)),
    "with dots": ("...id,...jd->...ij", "...ij,...jd->...id", (2, 3, 7, 4)),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_one_layer(toolkit: Toolkit, name: str) -> None:
    scores, values, shape = ATTENTIONS[name]
    asked = name == "keys are asked first"
    nodes = [
        helper.make_node("Einsum", ["k", "q"] if asked else ["q", "k"], ["s"], equation=scores),
        helper.make_node("Mul", ["s", "half"], ["t"]),
        helper.make_node("Softmax", ["t"], ["p"], axis=-1),
        helper.make_node("Einsum", ["v", "p"] if asked else ["p", "v"], ["y"], equation=values),
    ]
    proto = make_model(nodes, dict.fromkeys("qkv", shape), ["y"], {"half": np.float32(0.5)})
    model = from_proto(proto)
    graph, built = build_graph(model, toolkit=toolkit)
    assert built.on_cpu == []
    assert [n.op for n in built.model.nodes].count(ATTENTION) == 1
    assert not {"MatMul", "Softmax", "Einsum"} & {n.op for n in built.model.nodes}
    graph.compile()
    x = {letter: numbers(shape, i) for i, letter in enumerate("qkv")}
    (want,) = reference(model, x)
    (got,) = graph.run(x)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_what_is_behind_a_letter_of_one_element(toolkit: Toolkit) -> None:
    """Shapes there are those of the result that is, also where the model says what ONNX infers."""
    nodes = [
        helper.make_node("Einsum", ["x", "z"], ["e"], equation="bi,bj->bij"),
        helper.make_node("Shape", ["e"], ["s"]),
        helper.make_node("Relu", ["e"], ["r"]),
        helper.make_node("Reshape", ["r", "flat"], ["f"]),
        helper.make_node("Expand", ["one", "s"], ["o"]),
        helper.make_node("Reshape", ["o", "flat"], ["g"]),
        helper.make_node("Add", ["f", "g"], ["y"]),
    ]
    constants = {"flat": np.array([-1, 15]), "one": np.array([2], np.float32)}
    proto = make_model(nodes, {"x": (1, 3), "z": (4, 5)}, ["y"], constants)
    proto.graph.value_info.append(helper.make_tensor_value_info("e", 1, [1, 3, 5]))
    x, z = numbers((1, 3), 0), numbers((4, 5), 1)
    graph, built = build_graph(from_proto(proto), toolkit=toolkit)
    assert built.on_cpu == []
    graph.compile()
    want = np.maximum(np.einsum("bi,bj->bij", np.repeat(x, 4, 0), z), 0).reshape(4, 15) + 2
    (got,) = graph.run({"x": x, "z": z})
    assert got.shape == want.shape and np.abs(got - want).max() < NEAR * 4
