"""Parts of a product's columns are cut out before what stands in front of the cut, so that the product makes
each by itself; transposes of joined dimensions; several masks; operations of more than four dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import build_graph, make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import from_proto, load_model
from user_layers.toolkit import Toolkit

BATCH, TOKENS, HEADS, SIZE = 4, 16, 2, 8
WIDTH = HEADS * SIZE


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def numbers(shape: Sequence[int], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CONSTANTS: dict[str, Any] = {
    "w": numbers((WIDTH, 3 * WIDTH), 1),
    "b": numbers((3 * WIDTH,), 2),
    "wide": numbers((WIDTH, 4 * WIDTH), 3),
    "back": numbers((2 * WIDTH, WIDTH), 4),
    "split": np.array([BATCH, TOKENS, 3, HEADS, SIZE]),
    "within": np.array([BATCH, TOKENS, HEADS, 3, SIZE]),
    "open": np.array([0, -1, 3, HEADS, SIZE]),
    "joined": np.array([BATCH, TOKENS, WIDTH]),
    "batches": np.array([BATCH * HEADS, TOKENS, SIZE]),
    "parted": np.array([BATCH, HEADS, SIZE, TOKENS]),
    "pairs": np.array([BATCH, HEADS, 4, 4, 4, 4]),
    "scores": np.array([BATCH, HEADS, TOKENS, TOKENS]),
    "bias": numbers((HEADS, TOKENS, TOKENS), 5),
    "scale": numbers((SIZE,), 6),
    "least": np.float32(1e-12),
    "expanded": np.array([BATCH, HEADS, TOKENS, SIZE]),
    "last": np.array([-1]),
    **{str(i): np.array([i]) for i in range(4)},
    **{f"at{i}": np.array(i) for i in range(3)},
}
PRODUCT = [node("MatMul", "x w", "m"), node("Add", "m b", "y1")]
TURNED = [node("Reshape", "y1 split", "s"), node("Transpose", "s", "t", perm=[2, 0, 3, 1, 4])]
TAKEN = [node("Gather", f"t at{i}", name, axis=0) for i, name in enumerate("qkv")]
SPLIT = [node("Split", "t", "q0 k0 v0", axis=0), *(node("Squeeze", f"{n}0 0", n) for n in "qkv")]
SLICED = [one for i, n in enumerate("qkv")
          for one in (node("Slice", f"t {i} {i + 1} 0", f"{n}0"), node("Squeeze", f"{n}0 0", n))]  # fmt: skip
CORE = [
    node("MatMul", "q kt", "z"),
    node("Softmax", "z", "p", axis=-1),
    node("MatMul", "p v", "o"),
    node("Transpose", "o", "o1", perm=[0, 2, 1, 3]),
    node("Reshape", "o1 joined", "y"),
]
KEYS = [node("Transpose", "k", "kt", perm=[0, 1, 3, 2])]
JOINED = [
    node("Reshape", "k batches", "k1"),
    node("Transpose", "k1", "k2", perm=[0, 2, 1]),
    node("Reshape", "k2 parted", "kt"),
]


def unit(made: str, given: str) -> list[Any]:
    """Rows of length one, as PyTorch's exporter writes them."""
    return [
        node("ReduceL2", given, f"{given}l", axes=[-1], keepdims=1),
        node("Clip", f"{given}l least", f"{given}c"),
        node("Expand", f"{given}c expanded", f"{given}e"),
        node("Div", f"{given} {given}e", made),
    ]


def normalised(made: str, given: str) -> list[Any]:
    return [node("LayerNormalization", f"{given} scale", made, axis=-1, epsilon=1e-5)]


def renamed(nodes: Sequence[Any], old: str, new: str) -> list[Any]:
    """The nodes with another input."""
    return [
        node(n.op_type, " ".join(new if i == old else i for i in n.input), " ".join(n.output),
             **{a.name: helper.get_attribute_value(a) for a in n.attribute})
        for n in nodes
    ]  # fmt: skip


X = (BATCH, TOKENS, WIDTH)
# The nodes, and how often layers that move numbers may stay.
WITHOUT_MOVES: dict[str, list[Any]] = {
    "gathered": [*PRODUCT, *TURNED, *TAKEN, *KEYS, *CORE],
    "split": [*PRODUCT, *TURNED, *SPLIT, *KEYS, *CORE],
    "sliced": [*PRODUCT, *TURNED, *SLICED, *KEYS, *CORE],
    "keys transposed with batches and heads as one dimension": [*PRODUCT, *TURNED, *TAKEN, *JOINED, *CORE],
    "queries and keys of length one": [
        *PRODUCT, *TURNED, *TAKEN, *unit("qn", "q"), *unit("kn", "k"),
        node("Transpose", "kn", "kt", perm=[0, 1, 3, 2]), *renamed(CORE, "q", "qn"),
    ],
    "queries and keys normalised": [
        *PRODUCT, *TURNED, *TAKEN, *normalised("qn", "q"), *normalised("kn", "k"),
        node("Transpose", "kn", "kt", perm=[0, 1, 3, 2]), *renamed(CORE, "q", "qn"),
    ],
    "columns between one another, cut before they are transposed": [
        *PRODUCT, node("Reshape", "y1 within", "s"), node("Transpose", "s", "t", perm=[3, 0, 2, 1, 4]),
        *TAKEN, *normalised("qn", "q"), *KEYS, *renamed(CORE, "q", "qn"),
    ],
    "cut before they are transposed": [
        *PRODUCT, node("Reshape", "y1 open", "s"),
        *(node("Gather", f"s at{i}", f"{n}0", axis=2) for i, n in enumerate("qkv")),
        *(node("Transpose", f"{n}0", n, perm=[0, 2, 1, 3]) for n in "qkv"),
        *normalised("qn", "q"), *KEYS, *renamed(CORE, "q", "qn"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def check(
    toolkit: Toolkit,
    nodes: Sequence[Any],
    shape: Sequence[int] = X,
    more: Mapping[str, Any] | None = None,
    *,
    dynamic: bool = False,
) -> list[str]:
    """The layers but views of a model whose values are right."""
    known = {**CONSTANTS, **(more or {})}
    used = {name for each in nodes for name in each.input}
    proto = make_model(list(nodes), {"x": shape}, ["y"], {n: v for n, v in known.items() if n in used})
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    made = [layer.op.op.removeprefix("TPU_") for layer in graph.resolve().nodes]
    graph.compile(dynamic=dynamic)
    x = {"x": numbers(shape, 7)}
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE
    return [op for op in made if op != "RESHAPE"]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WITHOUT_MOVES)
def test_nothing_is_moved_for_attention(toolkit: Toolkit, name: str, dynamic: bool) -> None:
    made = check(toolkit, WITHOUT_MOVES[name], dynamic=dynamic)
    norms = 2 * ("queries and keys" in name) + ("before" in name)
    products = 1 if norms == 0 else 3
    assert sorted(made) == sorted(["ATTENTION", *["NORM"] * norms, *["MATMUL"] * products])


def rotated(made: str, x: str) -> list[Any]:
    """Halves of heads that are turned, as language models do it."""
    return [
        node("Slice", f"{x} 0 half last", f"{x}a"),
        node("Slice", f"{x} half size last", f"{x}b"),
        node("Neg", f"{x}b", f"{x}n"),
        node("Concat", f"{x}n {x}a", f"{x}c", axis=-1),
        node("Mul", f"{x}c sin", f"{x}s"),
        node("Mul", f"{x} cos", f"{x}d"),
        node("Add", f"{x}d {x}s", made),
    ]


CUT = [
    *PRODUCT, node("Reshape", "y1 open", "s"),
    *(node("Gather", f"s at{i}", f"{n}0", axis=2) for i, n in enumerate("qkv")),
]  # fmt: skip
ROTATION = {
    **{name: numbers((1, 1, TOKENS, SIZE), i) for i, name in enumerate(("sin", "cos"), 20)},
    "half": np.array([SIZE // 2]),
    "size": np.array([SIZE]),
    "half_scale": np.float32(0.5),
}


@pytest.mark.parametrize("read", ["", "q", "qr"])
def test_queries_and_keys_that_are_normalised_and_turned(toolkit: Toolkit, read: str) -> None:
    """As today's language models do it; nothing is transposed but where something else reads what is, too."""
    turns = [node("Transpose", a, b, perm=[0, 2, 1, 3]) for a, b in (("q1", "q"), ("k1", "k"), ("v0", "v"))]
    nodes = [
        *CUT, *normalised("q1", "q0"), *normalised("k1", "k0"), *turns,
        *rotated("qr", "q"), *rotated("kr", "k"), node("Mul", "qr half_scale", "query"),
        node("Transpose", "kr", "kt", perm=[0, 1, 3, 2]), *renamed(CORE, "q", "query"),
    ]  # fmt: skip
    if read:
        *nodes, last = nodes
        mean = node("ReduceMean", read, "mean", axes=[0, 1, 2, 3], keepdims=0)
        nodes += [node("Reshape", last.input[0] + " joined", "y0"), mean, node("Add", "y0 mean", "y")]
    made = check(toolkit, nodes, more=ROTATION)
    assert ("TRANSPOSE" in made) == bool(read)


@pytest.mark.parametrize("keys", [HEADS, 1])
def test_parts_that_are_turned(toolkit: Toolkit, keys: int) -> None:
    """Rotary embedding of parts of one product, with as many heads of keys as of queries, or one."""
    heads = HEADS + 2 * keys
    nodes = [
        node("MatMul", "x w", "m"),
        node("Reshape", "m split", "s"),
        node("Slice", "s 0 first two", "q1"),
        node("Slice", "s first second two", "k1"),
        node("Slice", "s second end two", "v1"),
        *(node("Transpose", f"{n}1", n, perm=[0, 2, 1, 3]) for n in "qkv"),
        *rotated("qr", "q"),
        *rotated("kr", "k"),
        node("Transpose", "kr", "kt", perm=[0, 1, 3, 2]),
        *renamed(CORE, "q", "qr"),
    ]
    more = {
        "w": numbers((WIDTH, heads * SIZE), 12),
        "split": np.array([BATCH, TOKENS, heads, SIZE]),
        "first": np.array([HEADS]),
        "second": np.array([HEADS + keys]),
        "end": np.array([heads]),
        "two": np.array([2]),
        "half": np.array([SIZE // 2]),
        "size": np.array([SIZE]),
        "sin": numbers((TOKENS, SIZE), 13),
        "cos": numbers((TOKENS, SIZE), 14),
    }
    made = check(toolkit, nodes, X, more)
    assert made.count("ATTENTION") == 1 and not {"SLICE", "SPLIT", "CONCAT", "TRANSPOSE"} & {*made}


def test_a_part_of_each_head_that_is_turned(toolkit: Toolkit) -> None:
    """Half of a head's elements are turned, the others stay: heads are cut nowhere."""
    more = {
        "heads": np.array([BATCH, TOKENS, HEADS, SIZE]),
        **{name: np.array([n]) for name, n in (("quarter", SIZE // 4), ("half", SIZE // 2), ("size", SIZE))},
        "cos": numbers((TOKENS, SIZE // 2), 13),
        "sin": numbers((TOKENS, SIZE // 2), 14),
    }
    nodes = []
    for i, n in enumerate("qkv"):
        more[f"w{i}"] = numbers((WIDTH, WIDTH), 15 + i)
        nodes.append(node("MatMul", f"x w{i}", f"{n}1"))
        nodes.append(node("Reshape", f"{n}1 heads", f"{n}2"))
        nodes.append(node("Transpose", f"{n}2", n, perm=[0, 2, 1, 3]))
        if n == "v":
            continue
        nodes.append(node("Slice", f"{n} 0 half last", f"{n}a"))
        nodes.append(node("Slice", f"{n} half size last", f"{n}b"))
        nodes.append(node("Slice", f"{n}a 0 quarter last", f"{n}c"))
        nodes.append(node("Slice", f"{n}a quarter half last", f"{n}d"))
        nodes.append(node("Neg", f"{n}d", f"{n}e"))
        nodes.append(node("Concat", f"{n}e {n}c", f"{n}f", axis=-1))
        nodes.append(node("Mul", f"{n}a cos", f"{n}g"))
        nodes.append(node("Mul", f"{n}f sin", f"{n}h"))
        nodes.append(node("Add", f"{n}g {n}h", f"{n}i"))
        nodes.append(node("Concat", f"{n}i {n}b", f"{n}r", axis=-1))
    nodes += [node("Transpose", "kr", "kt", perm=[0, 1, 3, 2]), *renamed(CORE, "q", "qr")]
    made = check(toolkit, nodes, X, more)
    assert made.count("ATTENTION") == 1 and not {"SLICE", "SPLIT", "CONCAT", "TRANSPOSE"} & {*made}


def test_what_lies_beside_queries(toolkit: Toolkit) -> None:
    """One product for attention and for what is done beside it: each part is made by itself."""
    nodes = [
        node("MatMul", "x wide", "m"),
        node("Split", "m", "g q1 k1 v1", axis=-1),
        *(node("Reshape", f"{n}1 heads", f"{n}2") for n in "qkv"),
        *(node("Transpose", f"{n}2", n, perm=[0, 2, 1, 3]) for n in "qkv"),
        *KEYS,
        *CORE[:-1],
        node("Reshape", "o1 joined", "a"),
        node("Relu", "g", "r"),
        node("Add", "a r", "y"),
    ]
    made = check(toolkit, nodes, X, {"heads": np.array([BATCH, TOKENS, HEADS, SIZE])})
    assert made.count("ATTENTION") == 1 and made.count("MATMUL") == 4 and "SPLIT" not in made


def test_parts_whose_operand_is_long_stay(toolkit: Toolkit) -> None:
    """Each part would read rows of 64 elements again, to move 16 less."""
    nodes = [*PRODUCT, *TURNED, *TAKEN, *normalised("qn", "q"), *KEYS, *renamed(CORE, "q", "qn")]
    made = check(toolkit, nodes, (BATCH, TOKENS, 64), {"w": numbers((64, 3 * WIDTH), 17)})
    assert made.count("MATMUL") == 1


def test_what_others_read_stays(toolkit: Toolkit) -> None:
    """The product itself is read, too: it is made once."""
    nodes = [*PRODUCT, *TURNED, *TAKEN, *normalised("qn", "q"), *KEYS, *renamed(CORE[:-1], "q", "qn")]
    more = [node("ReduceMean", "y1", "r", axes=[-1], keepdims=1), node("Reshape", "o1 joined", "j"),
            node("Add", "j r", "y")]  # fmt: skip
    assert check(toolkit, [*nodes, *more]).count("MATMUL") == 1


@pytest.mark.parametrize("op", ["Sigmoid", "Relu", "Tanh", "HardSwish"])
@pytest.mark.parametrize("parts", [2, 4])
def test_gates_are_cut_before_functions(toolkit: Toolkit, op: str, parts: int) -> None:
    names = [f"g{i}" for i in range(parts)]
    nodes = [node("MatMul", "x wide", "m"), node(op, "m", "f"), node("Split", "f", " ".join(names), axis=-1)]
    nodes.append(node("Mul", "g0 g1", "h"))
    nodes += [
        node("Add", f"{'h' if i == 2 else 'h2'} g{i}", "h2" if i < parts - 1 else "h3")
        for i in range(2, parts)
    ]
    nodes.append(node("Neg", "h" if parts == 2 else "h3", "y"))
    made = check(toolkit, nodes)
    assert made.count("MATMUL") == parts and not {"SPLIT", "SLICE"} & {*made}


def test_parts_that_overlap_are_not_computed_twice(toolkit: Toolkit) -> None:
    nodes = [node("MatMul", "x wide", "m"), node("Tanh", "m", "f"), node("Slice", "f 0 half last", "g0"),
             node("Slice", "f 1 more last", "g1"), node("Add", "g0 g1", "y")]  # fmt: skip
    made = check(toolkit, nodes, X, {"half": np.array([40]), "more": np.array([41])})
    assert made.count("UNARY") == 1


def masked(*masks: Any) -> list[Any]:
    """Attention whose scores are seen in six dimensions, as with positions of rows and columns."""
    return [*PRODUCT, *TURNED, *TAKEN, *KEYS, CORE[0], node("Reshape", "z pairs", "z6"), *masks,
            node("Reshape", "a2 scores", "z7"), node("Softmax", "z7", "p", axis=-1), *CORE[2:]]  # fmt: skip


ROWS = [
    node("ReduceMean", "x", "r0", axes=[-1], keepdims=1),
    node("Reshape", "r0 rows", "r"),
    node("Reshape", "r0 columns", "c"),
]
SHAPES = {"rows": np.array([BATCH, 1, 4, 4, 1, 1]), "columns": np.array([BATCH, 1, 1, 1, 4, 4])}


def test_several_masks_are_one(toolkit: Toolkit) -> None:
    nodes = masked(*ROWS, node("Add", "z6 r", "a1"), node("Add", "a1 c", "a2"))
    made = check(toolkit, nodes, X, SHAPES)
    assert "SOFTMAX" not in made and made.count("ATTENTION") == 1


def test_rows_and_columns_of_all_heads(toolkit: Toolkit) -> None:
    shapes = {"rows": np.array([BATCH, HEADS, 4, 4, 4, 1]), "columns": np.array([BATCH, HEADS, 4, 4, 1, 4])}
    nodes = [
        node("MatMul", "x pos", "r0"),
        node("Reshape", "r0 rows", "r"),
        node("Reshape", "r0 columns", "c"),
    ]
    nodes = masked(*nodes, node("Add", "z6 r", "a1"), node("Add", "a1 c", "a2"))
    made = check(toolkit, nodes, X, {"pos": numbers((WIDTH, HEADS * 4), 8), **shapes})
    assert "SOFTMAX" not in made and made.count("ATTENTION") == 1


def test_a_constant_and_a_computed_mask(toolkit: Toolkit) -> None:
    nodes = [*PRODUCT, *TURNED, *TAKEN, *KEYS, CORE[0], node("Add", "z bias", "a1"),
             node("ReduceMean", "x", "r0", axes=[-1], keepdims=1), node("Reshape", "r0 keys", "c"),
             node("Add", "a1 c", "a2"), node("Softmax", "a2", "p", axis=-1), *CORE[2:]]  # fmt: skip
    made = check(toolkit, nodes, X, {"keys": np.array([BATCH, 1, 1, TOKENS])})
    assert "SOFTMAX" not in made and made.count("ATTENTION") == 1


@pytest.mark.parametrize("added", ["", "slopes", "slopes bias", "one bias"])
def test_scores_of_batches_and_heads_as_one_dimension(toolkit: Toolkit, added: str) -> None:
    """As BLOOM writes them, with slopes of each head."""
    masks = added.split()
    nodes = [
        *PRODUCT,
        *TURNED,
        *TAKEN,
        node("Reshape", "q batches", "q1"),
        node("Reshape", "k batches", "k1"),
        node("Transpose", "k1", "k2", perm=[0, 2, 1]),
        node("MatMul", "q1 k2", "z1"),
        node("Mul", "z1 half", "z2"),
        *(node("Add", f"z2 {name}", "z3") for name in masks[:1]),
        node("Reshape", f"{'z3' if masks else 'z2'} scores", "z4"),
        *(node("Add", f"z4 {name}", "z5") for name in masks[1:]),
        node("Softmax", "z5" if masks[1:] else "z4", "p", axis=-1),
        *CORE[2:],
    ]
    more = {
        "half": np.float32(0.5),
        "slopes": numbers((BATCH * HEADS, 1, TOKENS), 15),
        "one": numbers((1, TOKENS, TOKENS), 16),
    }
    assert check(toolkit, nodes, X, more) == ["MATMUL", "ATTENTION"]


def test_weights_of_batches_and_heads_as_one_dimension(toolkit: Toolkit) -> None:
    nodes = [
        *PRODUCT,
        *TURNED,
        *TAKEN,
        *KEYS,
        *CORE[:2],
        node("Reshape", "p flat", "p1"),
        node("Reshape", "v batches", "v1"),
        node("MatMul", "p1 v1", "o0"),
        node("Reshape", "o0 expanded", "o"),
        *CORE[3:],
    ]
    made = check(toolkit, nodes, X, {"flat": np.array([BATCH * HEADS, TOKENS, TOKENS])})
    assert "SOFTMAX" not in made and made.count("ATTENTION") == 1


@examples(25)
@given(
    extents=st.lists(st.integers(1, 5), min_size=5, max_size=7),
    ones=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=7, max_size=7),
    op=st.sampled_from(["Add", "Sub", "Mul", "Div"]),
    constant=st.booleans(),
)
def test_more_than_four_dimensions(
    toolkit: Toolkit, extents: list[int], ones: list[tuple[bool, bool]], op: str, constant: bool
) -> None:
    left = [1 if one else n for n, (one, _) in zip(extents, ones, strict=False)]
    right = [1 if one else n for n, (_, one) in zip(extents, ones, strict=False)]
    x = (2, math.prod(left))
    nodes = [
        node("Slice", "x 0 1 0", "h"),
        node("Reshape", "h left", "l"),
        node(op, "l r", "z"),
        node("Neg", "z", "y"),
    ]
    r = numbers(right, 9) + np.float32(3)
    if not constant:
        nodes[2:2] = [node("Mul", "given one", "r")]
    check(toolkit, nodes, x, {"left": np.array(left), "r" if constant else "given": r, "one": np.float32(1)})


@pytest.mark.parametrize(("windows", "rows", "seen"), [(8, 48, (6, 64)), (32, 4, (2, 64)), (2, 64, (2, 64))])
def test_rows_of_windows_fill_the_lanes(
    toolkit: Toolkit, windows: int, rows: int, seen: tuple[int, int]
) -> None:
    """Of each of two pictures, so that a dynamic net may get one."""
    known = {
        "view": np.array([-1, rows, SIZE]),
        "back": np.array([2, -1, SIZE]),
        "v": numbers((SIZE, SIZE), 11),
    }
    nodes = [node("Reshape", "x view", "u"), node("MatMul", "u v", "m"), node("Tanh", "m", "t"),
             node("Reshape", "t back", "y")]  # fmt: skip
    shape = (2, windows // 2 * rows, SIZE)
    proto = make_model([*nodes[:-1], node("Neg", "t", "y")], {"x": shape}, ["y"], known)
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    made = {each.op: built.model.value(each.outputs[0]).fixed for each in built.model.nodes}
    assert made["MatMul"] == made["Tanh"] == (*seen, SIZE)
    check(toolkit, nodes, shape, known, dynamic=True)


@pytest.mark.parametrize(("tokens", "batches"), [(4096, 8), (4356, 9), (4099, 1)])
def test_more_rows_than_local_memory_takes(toolkit: Toolkit, tokens: int, batches: int) -> None:
    """4099 is a prime: it stays as it is."""
    nodes = [node("LayerNormalization", "x scale", "n", axis=-1), node("MatMul", "n v", "m"),
             node("Relu", "m", "f"), node("Add", "f x", "y")]  # fmt: skip
    known = {"v": numbers((SIZE, SIZE), 11)}
    proto = make_model(nodes, {"x": (1, tokens, SIZE)}, ["y"], {"scale": CONSTANTS["scale"], **known})
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    made = {each.op: built.model.value(each.outputs[0]).fixed for each in built.model.nodes}
    assert made["MatMul"] == (batches, tokens // batches, SIZE)
    check(toolkit, nodes, (1, tokens, SIZE), known)
