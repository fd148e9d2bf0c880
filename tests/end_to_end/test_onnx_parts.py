"""Convolutions whose channels are read in parts: one for each, where that takes fewer cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import equals_onnxruntime, make_model
from tests.support.workspaces import builtin_toolkit
from user_layers.onnx.check import reference
from user_layers.onnx.load import load_model
from user_layers.onnx.parts import split_convolutions
from user_layers.toolkit import Toolkit

SHAPE = (2, 6, 20, 20)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, [n.strip("|") for n in inputs.split()], outputs.split(), **attributes)


CONV = node("Conv", "x w b", "c", pads=[1, 1, 1, 1])
CONSTANTS: dict[str, Any] = {
    "w": np.random.default_rng(0).standard_normal((40, 6, 3, 3)).astype(np.float32),
    "b": np.random.default_rng(1).standard_normal(40).astype(np.float32),
    "v": np.random.default_rng(2).standard_normal((40, 1, 3, 3)).astype(np.float32),
    "u": np.random.default_rng(3).standard_normal((80, 1, 1, 1)).astype(np.float32),
    "sizes": np.array([13, 27]),
    **{str(i): np.array([i]) for i in (0, 1, 2, 8, 16, 24, 40)},
}
# The nodes, the outputs, how many convolutions there are then.
CASES: dict[str, tuple[list[Any], Sequence[str], int]] = {
    "halves that meet again": (
        [CONV, node("Split", "c sizes", "d e", axis=1), node("Tanh", "d", "f"), node("Sigmoid", "e", "g"),
         node("Concat", "g f", "y", axis=1)],
        ("y",),
        2,
    ),
    "functions before": (
        [CONV, node("Relu", "c", "r"), node("Tanh", "r", "t"), node("Slice", "t 0 16 1", "d"),
         node("Slice", "t 8 24 1", "e"), node("Mul", "d e", "y")],
        ("y",),
        2,
    ),
    "depthwise convolutions between": (
        [CONV, node("Relu", "c", "r"),
         node("Conv", "r v b", "p", group=40, pads=[1, 1, 1, 1], strides=[2, 1]),
         node("Split", "p sizes", "d e", axis=1), node("Sigmoid", "d", "y"), node("Tanh", "e", "z")],
        ("y", "z"),
        4,
    ),
    "two of each channel between": (
        [CONV, node("Conv", "c u", "p", group=40), node("Slice", "p 0 16 1", "d"),
         node("Slice", "p 8 24 1", "e"), node("Mul", "d e", "y")],
        ("y",),
        2,
    ),
    "batches": (
        [CONV, node("Slice", "c 0 1 | 1", "d"), node("Slice", "c 1 2 | 1", "e"), node("Add", "d e", "y")],
        ("y",),
        1,
    ),
    "one part": ([CONV, node("Slice", "c 8 40 1", "d"), node("Relu", "d", "y")], ("y",), 1),
    "all of it is read, too": (
        [CONV, node("Split", "c sizes", "d e", axis=1), node("Relu", "d", "y"), node("Relu", "c", "z"),
         node("Relu", "e", "v")],
        ("y", "z", "v"),
        1,
    ),
    "rows": ([CONV, node("Slice", "c 0 8 2", "d"), node("Relu", "d", "y")], ("y",), 1),
    "a part that is wanted": ([CONV, node("Slice", "c 0 8 1", "y")], ("y",), 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


@pytest.mark.parametrize("name", CASES)
def test_the_same_values(toolkit: Toolkit, name: str) -> None:
    nodes, outputs, convolutions = CASES[name]
    used = {value for each in nodes for value in each.input}
    proto = make_model(nodes, {"x": SHAPE}, outputs, {n: v for n, v in CONSTANTS.items() if n in used})
    split = split_convolutions(load_model(proto))
    ops = [each.op for each in split.nodes]
    assert ops.count("Conv") == convolutions
    assert ("Split" in ops or "Slice" in ops) == (
        name
        in (
            "all of it is read, too",
            "rows",
            "a part that is wanted",
            "batches",
            "two of each channel between",
        )
    )
    x = {"x": np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)}
    want = reference(load_model(proto), x)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(reference(split, x), want, strict=True))
    equals_onnxruntime(toolkit, proto, x)


def test_lanes_that_would_stay_empty() -> None:
    """With many input channels moving the parts is cheaper than computing on a quarter of the lanes."""
    weights = np.zeros((64, 512, 3, 3), np.float32)
    nodes = [
        node("Conv", "x w", "c", pads=[1] * 4),
        node("Split", "c", "d e", axis=1),
        node("Add", "d e", "y"),
    ]
    model = load_model(make_model(nodes, {"x": (1, 512, 9, 9)}, ["y"], {"w": weights}))
    assert split_convolutions(model).nodes == model.nodes
