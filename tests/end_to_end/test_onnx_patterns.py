"""Functions that models write with several operations: one layer, and the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.net.functions import UNARY
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.onnx.patterns import fuse_patterns
from user_layers.toolkit import Toolkit

SHAPE = (2, 9, 5, 3)
ROOT2, INVERSE, SCALE, CUBE = (np.float32(v) for v in (2**0.5, 2**-0.5, (2 / np.pi) ** 0.5, 0.044715))
NUMBERS = {
    name: np.array(value, np.float32)
    for name, value in {
        "half": 0.5,
        "one": 1,
        "two": 2,
        "three": 3,
        "zero": 0,
        "six": 6,
        "root2": ROOT2,
        "inverse": INVERSE,
        "scale": SCALE,
        "cube": CUBE,
        "quick": 1.702,
        "nearly": 1.001,
        "channels": np.ones((9, 1, 1)),
        "tiny": 1e-12,
        "none": 1e-30,
        "zeros3": np.zeros(3),
        "ones3": np.ones(3),
        "halves3": np.full(3, 0.5),
    }.items()
}


def steps(*lines: str) -> list[Any]:
    """`y = Mul x t` and the like, as nodes."""
    made = []
    for line in lines:
        output, _, rest = line.partition(" = ")
        op, *inputs = rest.split()
        made.append(helper.make_node(op, inputs, [output]))
    return made


HARD = helper.make_node("HardSigmoid", ["x"], ["t"], alpha=1 / 6, beta=0.5)
FUSED: dict[str, tuple[str, Sequence[Any]]] = {
    "silu": ("SWISH", steps("t = Sigmoid x", "y = Mul x t")),
    "silu, turned": ("SWISH", steps("t = Sigmoid x", "y = Mul t x")),
    "quick gelu": ("SWISH", steps("s = Mul quick x", "t = Sigmoid s", "y = Mul x t")),
    "silu of another silu": ("SWISH", steps("s = Sigmoid x", "t = Mul x s", "u = Sigmoid t", "y = Mul u t")),
    "gelu, as torch writes it": (
        "GELU",
        steps("a = Div x root2", "b = Erf a", "c = Add b one", "d = Mul x c", "y = Mul d half"),
    ),
    "gelu, half first": (
        "GELU",
        steps("h = Mul half x", "a = Mul x inverse", "b = Erf a", "c = Add one b", "y = Mul h c"),
    ),
    "gelu, half of the sum": (
        "GELU",
        steps("a = Div x root2", "b = Erf a", "c = Add b one", "h = Mul c half", "y = Mul h x"),
    ),
    "gelu, divided by two": (
        "GELU",
        steps("a = Div x root2", "b = Erf a", "c = Add b one", "d = Mul x c", "y = Div d two"),
    ),
    "gelu with tanh": (
        "GELU_TANH",
        steps(
            *("p = Pow x three", "q = Mul cube p", "r = Add x q", "s = Mul scale r", "t = Tanh s"),
            *("u = Add t one", "v = Mul half x", "y = Mul v u"),
        ),
    ),
    "gelu with tanh, factored": (
        "GELU_TANH",
        steps(
            *(
                "p = Mul x x",
                "q = Mul p cube",
                "r = Add q one",
                "s = Mul x r",
                "w = Mul s scale",
                "t = Tanh w",
            ),
            *("u = Add one t", "v = Mul x u", "y = Mul v half"),
        ),
    ),
    "hard swish": ("HARD_SWISH", [HARD, *steps("y = Mul x t")]),
    "hard swish, clipped": (
        "HARD_SWISH",
        steps("a = Add x three", "b = Clip a zero six", "c = Mul x b", "y = Div c six"),
    ),
    "hard swish, divided first": (
        "HARD_SWISH",
        steps("a = Add x three", "b = Clip a zero six", "c = Div b six", "y = Mul c x"),
    ),
    "mish": ("MISH", steps("s = Softplus x", "t = Tanh s", "y = Mul x t")),
}
KEPT: dict[str, Sequence[Any]] = {
    "another value": steps("z = Neg x", "t = Sigmoid z", "y = Mul x t"),
    "another half": steps("a = Div x root2", "b = Erf a", "c = Add b one", "d = Mul x c", "y = Mul d three"),
    "another root": steps("a = Div x two", "b = Erf a", "c = Add b one", "d = Mul x c", "y = Mul d half"),
    "another one": steps("a = Div x root2", "b = Erf a", "c = Add b nearly", "d = Mul x c", "y = Mul d half"),
    "a factor for each channel": steps("t = Sigmoid x", "s = Mul t channels", "y = Mul s x"),
    "another power": steps(
        *("p = Pow x two", "q = Mul cube p", "r = Add x q", "s = Mul scale r", "t = Tanh s"),
        *("u = Add t one", "v = Mul half x", "y = Mul v u"),
    ),
    "another limit": steps("a = Add x three", "b = Clip a zero three", "c = Mul x b", "y = Div c six"),
    "another softplus": steps("s = Softplus x", "t = Tanh s", "z = Abs x", "y = Mul z t"),
}


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def model(
    nodes: Sequence[Any], outputs: Sequence[str] = ("y",), shapes: Mapping[str, Any] | None = None
) -> Any:
    used = {name for node in nodes for name in node.input}
    constants = {name: value for name, value in NUMBERS.items() if name in used}
    return make_model(list(nodes), {"x": SHAPE, **(shapes or {})}, outputs, constants)


@pytest.mark.parametrize("name", FUSED)
def test_one_layer_with_the_same_values(toolkit: Toolkit, name: str) -> None:
    function, nodes = FUSED[name]
    proto = model(nodes)
    x = {"x": np.random.default_rng(1).normal(0, 3, SHAPE).astype(np.float32)}
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    layers = graph.resolve().nodes
    assert len(layers) == (2 if "another" in name else 1)
    assert {layer.op.op for layer in layers} == {"TPU_UNARY"}
    assert int.from_bytes(layers[-1].param[:4], "little") == UNARY[function]
    graph.compile()
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE


@pytest.mark.parametrize("name", KEPT)
def test_what_is_nearly_like_it_stays(name: str) -> None:
    loaded = load_model(model(KEPT[name]))
    assert fuse_patterns(loaded).nodes == loaded.nodes


def test_what_others_read_stays() -> None:
    """The sigmoid is an output too, or another node reads it: both are needed anyway."""
    nodes = steps("t = Sigmoid x", "y = Mul x t")
    for loaded in (
        load_model(model(nodes, ("y", "t"))),
        load_model(model([*nodes, *steps("z = Neg t")], ("y", "z"))),
    ):
        assert fuse_patterns(loaded).nodes == loaded.nodes


def test_nothing_is_broadcast() -> None:
    """x [9, 1, 1] times the sigmoid of a larger one is no function of one value."""
    nodes = steps("t = Sigmoid x", "y = Mul w t")
    loaded = load_model(model(nodes, shapes={"w": (9, 1, 1)}))
    assert fuse_patterns(loaded).nodes == loaded.nodes


GROUPS = [
    helper.make_node("Reshape", ["x", "as groups"], ["g"]),
    helper.make_node("InstanceNormalization", ["g", "ones3", "zeros3"], ["i"], epsilon=1e-3),
    helper.make_node("Reshape", ["i", "as x"], ["r"]),
]
UNIT = [
    helper.make_node("ReduceL2", ["x"], ["l"], axes=[-1], keepdims=1),
    *steps("c = Clip l tiny", "e = Expand c as_x", "y = Div x e"),
]
NORMS: dict[str, tuple[Sequence[Any], str, int]] = {
    "groups": ([*GROUPS, *steps("m = Mul r channels", "y = Add m channels")], "TPU_NORM", 1),
    "groups, a factor": ([*GROUPS, *steps("y = Mul channels r")], "TPU_NORM", 1),
    "groups without factors": ([*GROUPS, *steps("y = Neg r")], "TPU_NORM", 2),
    "rows of length one": (UNIT, "TPU_NORM", 1),
    "rows of length one, broadcast": ([*UNIT[:2], *steps("y = Div x c")], "TPU_NORM", 1),
    "channels of length one": (
        [helper.make_node("ReduceL2", ["x"], ["l"], axes=[1], keepdims=1), *UNIT[1:]],
        "TPU_NORM",
        1,
    ),
    "another epsilon": ([UNIT[0], *steps("c = Clip l none", "y = Div x c")], "TPU_REDUCE", 3),
    "other rows": ([*UNIT[:2], *steps("z = Neg x", "y = Div z c")], "TPU_REDUCE", 4),
}
SHAPES = {"as groups": [0, 3, -1], "as x": SHAPE, "as_x": SHAPE}


@pytest.mark.parametrize("name", NORMS)
def test_normalisations(toolkit: Toolkit, name: str) -> None:
    nodes, op, layers = NORMS[name]
    used = {name for node in nodes for name in node.input}
    constants = {name: value for name, value in NUMBERS.items() if name in used}
    constants |= {name: np.array(shape) for name, shape in SHAPES.items() if name in used}
    proto = make_model(list(nodes), {"x": SHAPE}, ("y",), constants)
    x = {"x": np.random.default_rng(1).normal(1, 3, SHAPE).astype(np.float32)}
    x["x"][0, 0, 0] = 0
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    made = [layer.op.op for layer in graph.resolve().nodes if layer.op.op != "TPU_RESHAPE"]
    assert op in made and len(made) == layers
    graph.compile()
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE


def test_factors_of_groups_stay() -> None:
    """Factors of the groups themselves are no layer's."""
    nodes = [
        GROUPS[0],
        helper.make_node("InstanceNormalization", ["g", "halves3", "zeros3"], ["i"]),
        GROUPS[2],
    ]
    constants = {"as groups": np.array([0, 3, -1]), "as x": np.array(SHAPE), **NUMBERS}
    used = {name for node in nodes for name in node.input}
    proto = make_model(
        [*nodes, *steps("y = Neg r")], {"x": SHAPE}, ("y",), {n: v for n, v in constants.items() if n in used}
    )
    loaded = load_model(proto)
    assert fuse_patterns(loaded).nodes == loaded.nodes
