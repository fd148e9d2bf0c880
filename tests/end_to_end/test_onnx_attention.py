"""Attention as models write it: one layer, and the same values; what only looks like it stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.attention import ATTENTION, fuse_attention
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.onnx.lower import CONVERTERS, Lowering, Unsupported
from user_layers.toolkit import Toolkit

BATCH, TOKENS, HEADS, SIZE = 2, 7, 3, 4
WIDTH = HEADS * SIZE
APART = (BATCH, HEADS, TOKENS, SIZE)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def numbers(shape: Sequence[int], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CONSTANTS: dict[str, Any] = {
    "split": np.array([0, 0, 3, HEADS, SIZE]),
    "heads": np.array([0, 0, HEADS, SIZE]),
    "joined": np.array([0, 0, WIDTH]),
    "root": np.float32(0.5),
    "two": np.float32(2),
    "w": numbers((WIDTH, WIDTH), 1),
    "mask": numbers((TOKENS, TOKENS), 2),
    "causal": np.tril(np.ones((1, 1, TOKENS, TOKENS), bool)),
    "least": np.float32(np.finfo(np.float32).min),
    **{str(i): np.array([i]) for i in range(4)},
    **{f"at{i}": np.array(i) for i in range(3)},
    **{f"to{i}": np.array([i * WIDTH]) for i in range(1, 4)},
    "sequence": np.array([TOKENS, BATCH * HEADS, SIZE]),
    "last": np.array([TOKENS, BATCH, WIDTH]),
    "grouped": np.array([0, HEADS, 1, TOKENS, SIZE]),
    "repeated": np.array([BATCH, HEADS, 2, TOKENS, SIZE]),
    "many": np.array([BATCH, 2 * HEADS, TOKENS, SIZE]),
    "queries": np.array([0, 0, 2 * HEADS, SIZE]),
    "rows": np.array([HEADS, TOKENS, SIZE]),
    "columns": np.array([HEADS, SIZE, TOKENS]),
    "pairs": np.array([HEADS, TOKENS, TOKENS]),
    "scores": np.array([1, HEADS, TOKENS, TOKENS]),
    "five": np.array([0, 0, 5, SIZE]),
    "third": np.array([[3]]),
    "fourth": np.array([[4]]),
    "slopes": numbers((HEADS, 1, TOKENS), 4),
}
CORE = [
    node("MatMul", "q kt", "s"),
    node("Softmax", "s", "p", axis=-1),
    node("MatMul", "p v", "o"),
    node("Transpose", "o", "t", perm=[0, 2, 1, 3]),
    node("Reshape", "t joined", "y"),
]


def projected(x: str, made: str, order: Sequence[int]) -> list[Any]:
    return [
        node("MatMul", f"{x} w", f"{made}1"),
        node("Reshape", f"{made}1 heads", f"{made}2"),
        node("Transpose", f"{made}2", made, perm=list(order)),
    ]


PROJECTED = [
    *projected("x", "q", (0, 2, 1, 3)),
    *projected("x", "kt", (0, 2, 3, 1)),
    *projected("x", "v", (0, 2, 1, 3)),
]
# What each is: the nodes, the shape of x, how many layers are left.
FUSED: dict[str, tuple[list[Any], tuple[int, ...], int]] = {
    "one product for q, k and v": (
        [
            node("Reshape", "x split", "a"),
            node("Transpose", "a", "b", perm=[2, 0, 3, 1, 4]),
            node("Gather", "b at0", "q0", axis=0),
            node("Gather", "b at1", "k0", axis=0),
            node("Gather", "b at2", "v", axis=0),
            node("Mul", "q0 root", "q"),
            node("Transpose", "k0", "k1", perm=[0, 1, 3, 2]),
            node("Mul", "k1 root", "kt"),
            *CORE,
        ],
        (BATCH, TOKENS, 3 * WIDTH),
        1,
    ),
    "the same, split": (
        [
            node("Reshape", "x split", "a"),
            node("Transpose", "a", "b", perm=[2, 0, 3, 1, 4]),
            node("Split", "b", "q0 k0 v0", axis=0),
            node("Squeeze", "q0 0", "q"),
            node("Squeeze", "k0 0", "k1"),
            node("Squeeze", "v0 0", "v"),
            node("Transpose", "k1", "kt", perm=[0, 1, 3, 2]),
            *CORE,
        ],
        (BATCH, TOKENS, 3 * WIDTH),
        1,
    ),
    "channels cut apart": (
        [
            *(node("Slice", f"x {a} {b} 2 1", c) for a, b, c in (("0", "to1", "q0"), ("to1", "to2", "k0"))),
            node("Slice", "x to2 to3 2", "v0"),
            *(node("Reshape", f"{n}0 heads", f"{n}1") for n in "qkv"),
            node("Transpose", "q1", "q", perm=[0, 2, 1, 3]),
            node("Transpose", "k1", "kt", perm=[0, 2, 3, 1]),
            node("Transpose", "v1", "v", perm=[0, 2, 1, 3]),
            *CORE,
        ],
        (BATCH, TOKENS, 3 * WIDTH),
        1,
    ),
    "three products": ([*PROJECTED, *CORE], (BATCH, TOKENS, WIDTH), 4),
    "scores divided, a mask added": (
        [
            *PROJECTED,
            CORE[0],
            node("Div", "s two", "d"),
            node("Add", "d mask", "m"),
            node("Softmax", "m", "p", axis=-1),
            *CORE[2:],
        ],
        (BATCH, TOKENS, WIDTH),
        4,
    ),
    "scores left out": (
        [
            *PROJECTED,
            CORE[0],
            node("Div", "s two", "d"),
            node("Where", "causal d least", "m"),
            node("Softmax", "m", "p", axis=-1),
            *CORE[2:],
        ],
        (BATCH, TOKENS, WIDTH),
        4,
    ),
    "the sequence first": (
        [
            *(node("MatMul", "x w", f"{n}0") for n in "qkv"),
            *(node("Reshape", f"{n}0 sequence", f"{n}1") for n in "qkv"),
            node("Transpose", "q1", "q", perm=[1, 0, 2]),
            node("Transpose", "k1", "kt", perm=[1, 2, 0]),
            node("Transpose", "v1", "v", perm=[1, 0, 2]),
            *CORE[:3],
            node("Transpose", "o", "t", perm=[1, 0, 2]),
            node("Reshape", "t last", "y"),
        ],
        (TOKENS, BATCH, WIDTH),
        6,  # the input and the result are turned; as heads of one batch all of it would go through DDR
    ),
    "heads that share keys": (
        [
            node("MatMul", "x w2", "q1"),
            node("Reshape", "q1 queries", "q2"),
            node("Transpose", "q2", "q", perm=[0, 2, 1, 3]),
            *projected("x", "k3", (0, 2, 1, 3)),
            *projected("x", "v3", (0, 2, 1, 3)),
            *(node("Reshape", f"{n}3 grouped", f"{n}4") for n in "kv"),
            *(node("Expand", f"{n}4 repeated", f"{n}5") for n in "kv"),
            *(node("Reshape", f"{n}5 many", f"{n}6") for n in "kv"),
            node("Transpose", "k6", "kt", perm=[0, 1, 3, 2]),
            node("Identity", "v6", "v"),
            *CORE[:3],
            node("Transpose", "o", "y", perm=[0, 2, 1, 3]),
        ],
        (BATCH, TOKENS, WIDTH),
        4,
    ),
    "heads that all have one key, which is broadcast, of one tensor": (
        [
            node("Reshape", "x five", "x5"),
            node("Slice", "x5 0 3 2 1", "q0"),
            node("Transpose", "q0", "q", perm=[0, 2, 1, 3]),
            node("Transpose", "x5", "turned", perm=[2, 0, 1, 3]),
            node("GatherND", "turned third", "k0"),
            node("GatherND", "turned fourth", "v0"),
            node("Transpose", "k0", "k1", perm=[1, 0, 2, 3]),
            node("Transpose", "v0", "v", perm=[1, 0, 2, 3]),
            node("Transpose", "k1", "kt", perm=[0, 1, 3, 2]),
            *CORE,
        ],
        (BATCH, TOKENS, 5 * SIZE),
        1,
    ),
    "one dimension of batches and heads but for the softmax": (
        [
            *(node("MatMul", "x w", f"{n}0") for n in "qkv"),
            *(node("Reshape", f"{n}0 heads", f"{n}1") for n in "qkv"),
            node("Transpose", "q1", "q2", perm=[0, 2, 1, 3]),
            node("Transpose", "k1", "k2", perm=[0, 2, 3, 1]),
            node("Transpose", "v1", "v2", perm=[0, 2, 1, 3]),
            *(node("Reshape", f"{a}2 {b}", c) for a, b, c in (("q", "rows", "q"), ("k", "columns", "kt"))),
            node("Reshape", "v2 rows", "v"),
            CORE[0],
            node("Add", "slopes s", "s1"),
            node("Reshape", "s1 scores", "s2"),
            node("Add", "s2 mask", "s3"),
            node("Softmax", "s3", "p1", axis=-1),
            node("Reshape", "p1 pairs", "p"),
            CORE[2],
            node("Transpose", "o", "y", perm=[1, 0, 2]),
        ],
        (1, TOKENS, WIDTH),
        -1,
    ),
    "heads that lie apart": (
        [
            node("Transpose", "x", "kt", perm=[0, 1, 3, 2]),
            node("MatMul", "x kt", "s"),
            CORE[1],
            node("MatMul", "p x", "y"),
        ],
        APART,
        1,
    ),
}
CONSTANTS["w2"] = numbers((WIDTH, 2 * WIDTH), 3)


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def model(nodes: Sequence[Any], shape: Sequence[int], outputs: Sequence[str] = ("y",)) -> Any:
    used = {name for each in nodes for name in each.input}
    return make_model(list(nodes), {"x": shape}, outputs, {n: v for n, v in CONSTANTS.items() if n in used})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_one_layer_with_the_same_values(toolkit: Toolkit, name: str, dynamic: bool) -> None:
    nodes, shape, layers = FUSED[name]
    proto = model(nodes, shape)
    x = {"x": numbers(shape, 5)}
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    made = [layer.op.op for layer in graph.resolve().nodes]
    assert made.count("TPU_ATTENTION") == 1 and "TPU_SOFTMAX" not in made
    (attention,) = (layer for layer in graph.nodes if layer.op.op == "TPU_ATTENTION")
    shared = toolkit.param_values(attention.op, attention.param)["shared"]
    assert shared == (HEADS if "one key" in name else 2 if "share keys" in name else 0)
    assert layers < 0 or sum(op != "TPU_RESHAPE" for op in made) == layers
    graph.compile(dynamic=dynamic)
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE


OTHERS: dict[str, tuple[list[Any], Sequence[str]]] = {
    "scores that are wanted, too": ([*PROJECTED, *CORE], ("y", "s")),
    "weights that are wanted, too": ([*PROJECTED, *CORE], ("y", "p")),
    "a softmax over queries": ([*PROJECTED, CORE[0], node("Softmax", "s", "p", axis=-2), *CORE[2:]], ("y",)),
    "a factor behind the mask": (
        [*PROJECTED, CORE[0], node("Add", "s mask", "m"), node("Mul", "m root", "n"),
         node("Softmax", "n", "p", axis=-1), *CORE[2:]],
        ("y",),
    ),
    "values with a factor": (
        [*PROJECTED, *CORE[:2], node("Mul", "v root", "vs"), node("MatMul", "p vs", "o"), *CORE[3:]], ("y",)
    ),
}  # fmt: skip


def check(
    toolkit: Toolkit, nodes: Sequence[Any], shapes: Mapping[str, Sequence[int]], constants: Any
) -> list[str]:
    """The layers of a model whose values are right."""
    proto = make_model(list(nodes), shapes, ["y"], constants)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    made = [layer.op.op.removeprefix("TPU_") for layer in graph.resolve().nodes]
    graph.compile()
    x = {name: numbers(shape, i) for i, (name, shape) in enumerate(shapes.items())}
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE
    return made


PLAIN = [node("MatMul", "q k", "s"), node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "y")]


def test_operands_that_are_constants(toolkit: Toolkit) -> None:
    """Learned queries and a mask of the same shape are two constants, whatever else gets another shape."""
    nodes = [
        node("Reshape", "x split", "a"),
        node("Transpose", "a", "v", perm=[1, 0, 2]),
        node("Transpose", "a", "k", perm=[1, 2, 0]),
        PLAIN[0],
        node("Add", "s mask", "m"),
        node("Softmax", "m", "p", axis=-1),
        PLAIN[2],
    ]
    constants = {"q": numbers((3, 5, 4), 7), "mask": numbers((3, 5, 4), 8), "split": np.array([4, 3, 4])}
    assert "ATTENTION" in check(toolkit, nodes, {"x": (1, 4, 12)}, constants)


def test_what_is_replaced_behind_a_mask(toolkit: Toolkit) -> None:
    """Rows that are masked by both are equal in the model: sums of two such numbers are smaller than one."""
    least = np.float32(np.finfo(np.float32).min)
    mask = np.triu(np.full((5, 5), least), 1)
    nodes = [
        PLAIN[0],
        node("Add", "s mask", "m"),
        node("Where", "left m least", "w"),
        node("Softmax", "w", "p", axis=-1),
        PLAIN[2],
    ]
    left = np.ones((5, 5), bool)
    left[:, :2] = False
    shapes = {"q": (2, 5, 4), "k": (2, 4, 5), "v": (2, 5, 4)}
    constants = {"mask": mask, "left": left, "least": least}
    assert "ATTENTION" not in check(toolkit, nodes, shapes, constants)


@pytest.mark.parametrize(
    ("q", "k", "v", "fused"),
    [
        ((1, 4200, 8), (1, 8, 9), (1, 9, 8), True),  # more queries than a command takes channels
        ((1, 8, 512), (1, 512, 3200), (1, 3200, 512), False),  # keys that do not fit into local memory
        ((4,), (4, 7), (2, 7, 4), False),  # a query that is a vector
        ((1, 5, 6), (6, 7), (7, 4), False),  # the same keys for all batches
    ],
)
def test_sizes(toolkit: Toolkit, q: Sequence[int], k: Sequence[int], v: Sequence[int], fused: bool) -> None:
    nodes = [node("Transpose", "kt", "k", perm=[*range(len(k) - 2), len(k) - 1, len(k) - 2]), *PLAIN]
    shapes = {"q": q, "kt": (*k[:-2], k[-1], k[-2]), "v": v}
    assert ("ATTENTION" in check(toolkit, nodes, shapes, {})) == fused


def test_attention_without_its_layer(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the layer takes it not, the nodes' own layers compute it, and what else is one layer still is."""

    def refuse(to: Lowering, node: Any) -> None:
        raise Unsupported("not today")

    monkeypatch.setitem(CONVERTERS, ATTENTION, refuse)
    nodes = [node("Mul", "q root", "qs"), node("MatMul", "qs k", "s"), *PLAIN[1:]]
    shapes = {"q": (2, 5, 4), "k": (2, 4, 7), "v": (2, 7, 4)}
    made = check(toolkit, nodes, shapes, {"root": CONSTANTS["root"]})
    assert [op for op in made if op != "RESHAPE"] == ["SCALE_SHIFT", "MATMUL", "SOFTMAX", "MATMUL"]


def test_a_mask_larger_than_the_scores(toolkit: Toolkit) -> None:
    nodes = [
        PLAIN[0],
        node("Reshape", "s four", "r"),
        node("Add", "r mask", "m"),
        node("Softmax", "m", "p", axis=-1),
        PLAIN[2],
    ]
    shapes = {"q": (1, 5, 4), "k": (1, 4, 7), "v": (2, 3, 7, 4)}
    constants = {"four": np.array([1, 1, 5, 7]), "mask": numbers((2, 3, 5, 7), 3)}
    assert "ATTENTION" not in check(toolkit, nodes, shapes, constants)


def test_fewer_tokens_in_a_dynamic_net(toolkit: Toolkit) -> None:
    nodes = [node("Transpose", "kt", "k", perm=[0, 2, 1]), *PLAIN]
    shapes = {"q": (2, 8, 4), "kt": (2, 8, 4), "v": (2, 8, 4)}
    proto = make_model(nodes, shapes, ["y"])
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile(dynamic=True)
    x = {name: numbers((2, 5, 4), i) for i, name in enumerate(shapes)}
    want = reference(load_model(make_model(nodes, dict.fromkeys(shapes, (2, 5, 4)), ["y"])), x)
    (difference,) = compare(["y"], graph.run(x), want)
    assert difference.relative <= TOLERANCE


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_nearly_like_it(toolkit: Toolkit, name: str) -> None:
    """It stays as it is, and computes the same."""
    nodes, outputs = OTHERS[name]
    proto = model(nodes, (BATCH, TOKENS, WIDTH), outputs)
    loaded = load_model(proto)
    fused = fuse_attention(loaded)
    if name != "values with a factor":  # which is a view of nothing that has the factor
        assert ATTENTION not in {each.op for each in fused.nodes}
    x = {"x": numbers((BATCH, TOKENS, WIDTH), 6)}
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile()
    for difference in compare(list(outputs), graph.run(x), reference(loaded, x)):
        assert difference.relative <= TOLERANCE


HEAD = {"factors": numbers((HEADS, 1, 1), 4), "few": numbers((HEADS, 1), 4)}
MIX = {
    "w1": numbers((HEADS, HEADS), 5),
    "w2": numbers((HEADS, HEADS), 6),
    "b1": numbers((HEADS,), 7),
    "b2": numbers((HEADS,), 8),
}


def mixed(x: str, w: str, b: str, made: str) -> list[Any]:
    return [
        node("Transpose", x, f"{made}1", perm=[0, 2, 3, 1]),
        node("MatMul", f"{made}1 {w}", f"{made}2"),
        *([node("Add", f"{b} {made}2", f"{made}3")] if b else []),
        node("Transpose", f"{made}3" if b else f"{made}2", made, perm=[0, 3, 1, 2]),
    ]


SCORES, WEIGHTS = node("MatMul", "q k", "s"), node("Softmax", "t", "p", axis=-1)
OF_HEADS: dict[str, tuple[list[Any], dict[str, Any], bool]] = {
    "a factor for each head": (
        [SCORES, node("Mul", "s factors", "t"), WEIGHTS, node("MatMul", "p v", "y")], HEAD, True,
    ),
    "a factor for each row": (
        [SCORES, node("Mul", "s few", "t"), WEIGHTS, node("MatMul", "p v", "y")],
        {"few": numbers((TOKENS, 1), 4)}, False,
    ),
    "heads mixed twice": (
        [SCORES, *mixed("s", "w1", "b1", "t"), WEIGHTS, *mixed("p", "w2", "b2", "m"),
         node("MatMul", "m v", "y")],
        MIX, True,
    ),
    "heads mixed before": (
        [SCORES, *mixed("s", "w1", "", "t"), WEIGHTS, node("MatMul", "p v", "y")], MIX, True,
    ),
    "heads mixed behind": (
        [node("Mul", "q half", "h"), node("MatMul", "h k", "t"), WEIGHTS, *mixed("p", "w2", "b2", "m"),
         node("MatMul", "m v", "y")],
        {**MIX, "half": np.float32(0.5)}, True,
    ),
    "a mask behind mixed heads": (
        [SCORES, *mixed("s", "w1", "b1", "u"), node("Add", "u mask", "t"), WEIGHTS,
         node("MatMul", "p v", "y")],
        {**MIX, "mask": numbers((TOKENS, TOKENS), 2)}, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_HEADS)
def test_heads_with_factors_and_mixed_ones(toolkit: Toolkit, name: str) -> None:
    nodes, constants, fused = OF_HEADS[name]
    used = {name for each in nodes for name in each.input}
    turned = [node("Transpose", "kt", "k", perm=[0, 1, 3, 2]), *nodes]
    shapes = {"q": APART, "kt": APART, "v": APART}
    made = check(toolkit, turned, shapes, {n: v for n, v in constants.items() if n in used})
    assert ("ATTENTION" in made) == fused and ("SOFTMAX" in made) != fused
