"""Pad before a convolution and Slice behind it: the same values from the convolution's own pads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import build_graph, make_model
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.edges import fold_edges
from user_layers.onnx.load import load_model
from user_layers.onnx.model import Model
from user_layers.toolkit import Toolkit


def model(
    length: int = 20,
    kernel: int = 4,
    *,
    ends: tuple[int, int] = (3, 0),
    channels: tuple[int, int] = (0, 0),
    value: float = 0.0,
    mode: str = "constant",
    conv: dict[str, Any] | None = None,
    cut: tuple[int, int] = (0, 9),
    step: int = 1,
    outputs: tuple[str, ...] = ("y",),
) -> Model:
    """Pad, Conv and Slice on [1, 3, length]; channels: of the pad's ends."""
    rng = np.random.default_rng(kernel)
    constants = {
        "ends": np.array([0, channels[0], ends[0], 0, channels[1], ends[1]]),
        "value": np.array(value, np.float32),
        "w": rng.standard_normal((2, 3 + sum(channels), kernel)).astype(np.float32),
        **{name: np.array([number]) for name, number in zip("sea", (*cut, -1), strict=True)},
        "t": np.array([step]),
    }
    nodes = [
        helper.make_node("Pad", ["x", "ends", *(["value"] if mode == "constant" else [])], ["p"], mode=mode),
        helper.make_node("Conv", ["p", "w"], ["c"], **(conv or {})),
        helper.make_node("Slice", ["c", *"seat"], ["y"]),
    ]
    return load_model(make_model(nodes, {"x": (1, 3, length)}, outputs, constants))


def same(plain: Model, folded: Model) -> None:
    rng = np.random.default_rng(0)
    x = {"x": rng.standard_normal(plain.inputs[0].fixed or ()).astype(np.float32)}
    names = [value.name for value in plain.outputs]
    for difference in compare(names, reference(folded, x), reference(plain, x)):
        assert difference.relative <= TOLERANCE


@examples(80)
@given(
    st.integers(1, 30),
    st.integers(1, 9),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(-6, 6), st.integers(-6, 60)),
)
def test_the_same_values(
    length: int,
    kernel: int,
    ends: tuple[int, int],
    pads: tuple[int, int],
    steps: tuple[int, int],
    cut: tuple[int, int],
) -> None:
    conv = {"pads": list(pads), "strides": [steps[0]], "dilations": [steps[1]]}
    assume(length + sum(ends) + sum(pads) > (kernel - 1) * steps[1])
    plain = model(length, kernel, ends=ends, conv=conv, cut=cut)
    shape = plain.value("y").fixed
    assume(shape is not None and 0 not in shape)
    folded = fold_edges(plain)
    same(plain, folded)
    most = (kernel - 1) * steps[1]
    given = [a + b for a, b in zip(ends, pads, strict=True)]
    assert ("Pad" in [node.op for node in folded.nodes]) == (max(given) > most)


def test_causal_convolutions() -> None:
    """Both spellings become one node, however long the pads."""
    padded = fold_edges(model(cut=(0, 100)))  # a slice of all of it
    assert [node.op for node in padded.nodes] == ["Conv"]
    assert padded.nodes[0].attributes["pads"] == [3, 0]
    chomped = fold_edges(model(ends=(0, 0), conv={"pads": [3, 3]}, cut=(0, -3)))
    assert [node.op for node in chomped.nodes] == ["Conv"]
    assert chomped.nodes[0].attributes["pads"] == [3, 0]
    long = model(200, 4, ends=(0, 0), conv={"pads": [96, 96], "dilations": [32]}, cut=(0, -96))
    (node,) = fold_edges(long).nodes
    assert node.op == "Conv" and node.attributes["pads"] == [96, 0]


def test_long_pads_on_the_device(toolkit: Toolkit) -> None:
    """In both spellings, of a net of lines that grow no longer."""
    for plain in (
        model(200, 4, ends=(96, 0), conv={"dilations": [32]}, cut=(0, 1000)),
        model(200, 4, ends=(0, 0), conv={"pads": [96, 96], "dilations": [32]}, cut=(0, -96)),
    ):
        ops = [node.op.op for node in build_graph(plain, toolkit=toolkit)[0].nodes]
        assert ops == ["TPU_CONV"]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"value": 1.0}, ["Pad", "Conv", "Slice"]),
        ({"mode": "reflect"}, ["Pad", "Conv", "Slice"]),
        ({"mode": "edge"}, ["Pad", "Conv", "Slice"]),
        ({"channels": (1, 0)}, ["Pad", "Conv", "Slice"]),
        ({"ends": (-2, 3)}, ["Pad", "Conv", "Slice"]),
        ({"ends": (4, 0)}, ["Pad", "Conv", "Slice"]),  # a window of nothing but pads
        ({"outputs": ("y", "p")}, ["Pad", "Conv", "Slice"]),
        ({"conv": {"auto_pad": "SAME_UPPER"}}, ["Pad", "Conv", "Slice"]),
        ({}, ["Conv", "Slice"]),  # more is cut off than the pads
        ({"step": 2, "cut": (0, -1), "ends": (3, 3)}, ["Conv", "Slice"]),
        ({"outputs": ("y", "c"), "cut": (0, -1), "ends": (3, 3)}, ["Conv", "Slice"]),
        ({"cut": (0, -1), "ends": (3, 3)}, ["Conv"]),
        ({"cut": (1, 100)}, ["Conv"]),
    ],
)
def test_what_stays(change: dict[str, Any], left: list[str]) -> None:
    plain = model(**change)
    folded = fold_edges(plain)
    assert [node.op for node in folded.nodes] == left
    same(plain, folded)
