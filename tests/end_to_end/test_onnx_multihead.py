"""PyTorch's MultiheadAttention of several batches: tokens before batches, and batches with heads in one
dimension. Nothing is moved for it, whichever way the exporter writes it; the values are the host's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

HEADS, SIZE = 4, 8
WIDTH = HEADS * SIZE


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def numbers(*shape: int, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def attention(batch: int, tokens: int, *, joined: bool, batch_first: bool, mask: str = "") -> Any:
    """The nodes and constants of x + MultiheadAttention(x), normalised. joined: batches and heads stay in one
    dimension for the products (as with need_weights), else they are apart for these. mask: what is added to
    the scores, of all heads ("rows") or of each batch and head ("each")."""
    last = (batch * HEADS, tokens, SIZE)
    constants: dict[str, Any] = {
        "w": numbers(WIDTH, 3 * WIDTH, seed=1),
        "b": numbers(3 * WIDTH, seed=2),
        "wo": numbers(WIDTH, WIDTH, seed=3),
        "bo": numbers(WIDTH, seed=4),
        "one": np.ones(WIDTH, np.float32),
        "scale": np.float32(SIZE**-0.5),
        "packed": np.array([tokens, batch, 3, WIDTH]),
        "heads": np.array([tokens, batch * HEADS, SIZE]),
        "apart": np.array([batch, HEADS, tokens, SIZE]),
        "turned": np.array([batch, HEADS, SIZE, tokens]),
        "flat": np.array([tokens * batch, WIDTH]),
        "whole": np.array([tokens, batch, WIDTH]),
        "first": np.array([0]),
        **{f"i{i}": np.array(i) for i in range(3)},
    }
    inside = "t" if batch_first else "x"
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2])] if batch_first else []
    nodes += [
        node("MatMul", f"{inside} w", "m"),
        node("Add", "m b", "p"),
        node("Reshape", "p packed", "p4"),
        node("Unsqueeze", "p4 first", "p5"),
        node("Transpose", "p5", "pt", perm=[3, 1, 2, 0, 4]),
        node("Squeeze", "pt three", "ps"),
    ]
    constants["three"] = np.array([3])
    for i, name in enumerate("qkv"):
        nodes += [
            node("Gather", f"ps i{i}", f"{name}g", axis=0),
            node("Reshape", f"{name}g heads", f"{name}h"),
        ]
    nodes += [node("Transpose", f"{name}h", f"{name}j", perm=[1, 0, 2]) for name in "qv"]
    if joined:
        nodes += [
            node("Mul", "qj scale", "q"),
            node("Transpose", "kh", "k", perm=[1, 2, 0]),
            node("MatMul", "q k", "s0"),
        ]
        value = "vj"
    else:
        nodes += [
            node("Reshape", "qj apart", "qa"),
            node("Mul", "qa scale", "q"),
            node("Transpose", "kh", "kj", perm=[1, 0, 2]),
            node("Transpose", "kj", "kt", perm=[0, 2, 1]),
            node("Reshape", "kt turned", "k"),
            node("MatMul", "q k", "s0"),
            node("Reshape", "vj apart", "va"),
        ]
        value = "va"
    if mask:
        ones = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
        if mask == "each":
            ones = ones + numbers(last[0], tokens, tokens, seed=5)
        constants["mask"] = ones if joined or mask == "rows" else ones.reshape(batch, HEADS, tokens, tokens)
        nodes.append(node("Add", "s0 mask", "s"))
    nodes += [
        node("Softmax", "s" if mask else "s0", "a", axis=-1),
        node("MatMul", f"a {value}", "o"),
        node("Transpose", "o", "ot", perm=[1, 0, 2] if joined else [2, 0, 1, 3]),
        node("Reshape", "ot flat", "of"),
        node("Gemm", "of wo bo", "g"),
        node("Reshape", "g whole", "gw"),
    ]
    if batch_first:
        nodes.append(node("Transpose", "gw", "gt", perm=[1, 0, 2]))
    nodes += [
        node("Add", f"x {'gt' if batch_first else 'gw'}", "r"),
        node("LayerNormalization", "r one", "y", axis=-1),
    ]
    shape = (batch, tokens, WIDTH) if batch_first else (tokens, batch, WIDTH)
    used = {name for each in nodes for name in each.input}
    return make_model(nodes, {"x": shape}, ["y"], {n: v for n, v in constants.items() if n in used}, opset=17)


def layers(graph: Graph) -> list[str]:
    return [layer.op.op.removeprefix("TPU_") for layer in graph.resolve().nodes]


def check(toolkit: Toolkit, proto: Any, dynamic: bool, shape: tuple[int, ...]) -> list[str]:
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile(dynamic=dynamic)
    x = {"x": numbers(*shape, seed=7)}
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE
    return layers(graph)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mask", ["", "rows", "each"])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(("batch", "tokens"), [(3, 11), (2, 40)])
def test_batches_first(
    toolkit: Toolkit, batch: int, tokens: int, joined: bool, mask: str, dynamic: bool
) -> None:
    """As with batch_first=True: all that is left of the transposes is attention's own."""
    proto = attention(batch, tokens, joined=joined, batch_first=True, mask=mask)
    made = check(toolkit, proto, dynamic, (batch, tokens, WIDTH))
    assert "ATTENTION" in made
    assert not {"TRANSPOSE", "REARRANGE", "GATHER", "SLICE"} & set(made)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(("batch", "tokens"), [(3, 11), (2, 40)])
def test_tokens_first(toolkit: Toolkit, batch: int, tokens: int, joined: bool, dynamic: bool) -> None:
    """The input and the result are turned at most, once."""
    proto = attention(batch, tokens, joined=joined, batch_first=False)
    made = check(toolkit, proto, dynamic, (tokens, batch, WIDTH))
    assert "ATTENTION" in made and made.count("TRANSPOSE") <= 2
    assert not {"REARRANGE", "GATHER", "SLICE"} & set(made)


@pytest.mark.parametrize("batch_first", [False, True])
def test_fewer_in_a_dynamic_net(toolkit: Toolkit, batch_first: bool) -> None:
    """Batches and tokens alike."""
    graph = Graph.from_onnx(attention(4, 9, joined=False, batch_first=batch_first), toolkit=toolkit)
    graph.compile(dynamic=True)
    for batch, tokens in ((4, 9), (2, 9), (4, 5), (1, 3)):
        shape = (batch, tokens, WIDTH) if batch_first else (tokens, batch, WIDTH)
        proto = attention(batch, tokens, joined=False, batch_first=batch_first)
        x = {"x": numbers(*shape, seed=7)}
        (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
        assert difference.relative <= TOLERANCE


def test_keys_of_another_length(toolkit: Toolkit) -> None:
    """Attention of three batches to something else, both with tokens first inside."""
    nodes, constants = [], dict[str, Any]()
    for name, tokens in (("q", 6), ("k", 10), ("v", 10)):
        source = "x" if name == "q" else "z"
        constants |= {
            f"{name}w": numbers(WIDTH, WIDTH, seed=ord(name)),
            f"{name}s": np.array([tokens, 3 * HEADS, SIZE]),
            f"{name}f": np.array([3, HEADS, tokens, SIZE]),
        }
        nodes += [
            node("Transpose", source, f"{name}0", perm=[1, 0, 2]),
            node("MatMul", f"{name}0 {name}w", f"{name}1"),
            node("Reshape", f"{name}1 {name}s", f"{name}2"),
            node("Transpose", f"{name}2", f"{name}3", perm=[1, 0, 2]),
            node("Reshape", f"{name}3 {name}f", f"{name}4"),
        ]
    constants["back"] = np.array([6, 3, WIDTH])
    nodes += [
        node("Transpose", "k4", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "q4 kt", "s"),
        node("Softmax", "s", "a", axis=-1),
        node("MatMul", "a v4", "o"),
        node("Transpose", "o", "ot", perm=[2, 0, 1, 3]),
        node("Reshape", "ot back", "of"),
        node("Transpose", "of", "y", perm=[1, 0, 2]),
    ]
    shapes = {"x": (3, 6, WIDTH), "z": (3, 10, WIDTH)}
    proto = make_model(nodes, shapes, ["y"], constants, opset=17)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile()
    given = {name: numbers(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    (difference,) = compare(["y"], graph.run(given), reference(load_model(proto), given))
    assert difference.relative <= TOLERANCE
    made = layers(graph)
    assert "ATTENTION" in made and not {"TRANSPOSE", "REARRANGE"} & set(made)
