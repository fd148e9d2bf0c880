"""Convolutions of one tap behind pictures that are made larger: before that, where it takes fewer cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import equals_onnxruntime, make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.graph import GraphBuilder
from user_layers.onnx.check import reference
from user_layers.onnx.custom import MappedNode
from user_layers.onnx.enlarged import convolve_before_enlarging
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

INPUTS = {"a": (2, 8, 12, 12), "b": (2, 70, 6, 6), "c": (2, 6, 3, 4), "d": (2, 5, 1, 1)}
RANDOM = np.random.default_rng(0)
CONSTANTS: dict[str, Any] = {
    "wa": RANDOM.standard_normal((16, 8, 1, 1)).astype(np.float32),
    "wb": RANDOM.standard_normal((16, 70, 1, 1)).astype(np.float32),
    "w3": RANDOM.standard_normal((16, 70, 3, 3)).astype(np.float32),
    "wab": RANDOM.standard_normal((16, 78, 1, 1)).astype(np.float32),
    "wall": RANDOM.standard_normal((16, 89, 1, 1)).astype(np.float32),
    "wbb": RANDOM.standard_normal((16, 140, 1, 1)).astype(np.float32),
    "bias": RANDOM.standard_normal(16).astype(np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "same": np.array([1, 1, 1, 1], np.float32),
    "half": np.array([1, 1, 0.5, 0.5], np.float32),
    "to_b": np.array([2, 70, 12, 12]),
    "to_c": np.array([2, 6, 12, 12]),
    "to_d": np.array([12, 12]),
    "to_axes": np.array([12, 70, 12]),
    "roi": np.array([0, 0, 0.1, 0.1, 1, 1, 0.9, 0.9], np.float32),
}


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, [n.strip("|") for n in inputs.split()], outputs.split(), **attributes)


def linear(inputs: str, output: str, **attributes: Any) -> Any:
    return node("Resize", inputs, output, mode="linear", **attributes)


B, C = linear("b | twice", "B"), linear("c | | to_c", "C", coordinate_transformation_mode="align_corners")
D = linear("d | | to_d", "D", axes=[2, 3])
ALL = [B, C, D, node("Concat", "B a C D", "joined", axis=1)]
# The nodes, the outputs, the pixels of the pictures that are made larger then, and the convolutions.
CASES: dict[str, tuple[list[Any], Sequence[str], list[tuple[int, ...]], int]] = {
    "one": ([B, node("Conv", "B wb bias", "y")], ("y",), [(2, 16, 12, 12)], 1),
    "sizes": ([linear("b | | to_b", "B"), node("Conv", "B wb", "y")], ("y",), [(2, 16, 12, 12)], 1),
    "sizes in another order": (
        [linear("b | | to_axes", "B", axes=[3, -3, 2]), node("Conv", "B wb", "y")],
        ("y",),
        [(2, 16, 12, 12)],
        1,
    ),
    "pixels repeated": (
        [node("Resize", "b | twice", "B", mode="nearest"), node("Conv", "B wb bias", "y")],
        ("y",),
        [(2, 16, 12, 12)],
        1,
    ),
    "joined": ([*ALL, node("Conv", "joined wall bias", "y")], ("y",), [(2, 16, 12, 12)] * 2, 4),
    "joined, and more behind": (
        [*ALL, node("Conv", "joined wall bias", "z"), node("Relu", "z", "r"), node("Add", "r z", "y")],
        ("y", "z"),
        [(2, 16, 12, 12)] * 2,
        4,
    ),
    "nothing as it is": (
        [B, linear("b | twice", "E"), node("Concat", "B E", "j", axis=-3), node("Conv", "j wbb bias", "y")],
        ("y",),
        [(2, 16, 12, 12)] * 2,
        2,
    ),
    "the same twice": (
        [B, node("Concat", "B B", "j", axis=1), node("Conv", "j wbb bias", "y")],
        ("y",),
        [(2, 70, 12, 12)],
        1,
    ),
    "read by another": (
        [B, node("Concat", "B a", "j", axis=1), node("Conv", "j wab bias", "y"), node("Relu", "B", "z")],
        ("y", "z"),
        [(2, 70, 12, 12)],
        1,
    ),
    "wanted": ([B, node("Conv", "B wb bias", "y")], ("y", "B"), [(2, 70, 12, 12)], 1),
    "joined along rows": (
        [B, linear("b | twice", "E"), node("Concat", "B E", "j", axis=2), node("Conv", "j wb bias", "y")],
        ("y",),
        [(2, 70, 12, 12)] * 2,
        1,
    ),
    "several taps": ([B, node("Conv", "B w3 bias", "y")], ("y",), [(2, 70, 12, 12)], 1),
    "steps": ([B, node("Conv", "B wb bias", "y", strides=[2, 2])], ("y",), [(2, 70, 12, 12)], 1),
    "pads": ([B, node("Conv", "B wb bias", "y", pads=[1] * 4)], ("y",), [(2, 70, 12, 12)], 1),
    "smaller": ([linear("b | half", "B"), node("Conv", "B wb bias", "y")], ("y",), [(2, 70, 3, 3)], 1),
    "a part": (
        [
            linear("b roi twice", "B", coordinate_transformation_mode="tf_crop_and_resize"),
            node("Conv", "B wb bias", "y"),
        ],
        ("y",),
        [(2, 70, 12, 12)],
        1,
    ),
}


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def values(inputs: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}


def model(nodes: list[Any], outputs: Sequence[str]) -> Any:
    used = {value for each in nodes for value in each.input}
    inputs = {name: shape for name, shape in INPUTS.items() if name in used}
    constants = {name: values for name, values in CONSTANTS.items() if name in used}
    return make_model(nodes, inputs, outputs, constants, opset=18), inputs


@pytest.mark.parametrize("name", CASES)
def test_the_same_values(toolkit: Toolkit, name: str) -> None:
    nodes, outputs, enlarged, convolutions = CASES[name]
    proto, inputs = model(nodes, outputs)
    early = convolve_before_enlarging(load_model(proto))
    made = [early.value(each.outputs[0]).fixed for each in early.nodes if each.op == "Resize"]
    assert made == enlarged
    assert sum(each.op == "Conv" for each in early.nodes) == convolutions
    x = values(inputs)
    want = reference(load_model(proto), x)
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(reference(early, x), want, strict=True))
    equals_onnxruntime(toolkit, proto, x)


def test_upsample_of_old_models(toolkit: Toolkit) -> None:
    nodes = [node("Upsample", "b twice", "B", mode="linear"), node("Conv", "B wb bias", "y")]
    used = {name: CONSTANTS[name] for name in ("twice", "wb", "bias")}
    proto = make_model(nodes, {"b": INPUTS["b"]}, ["y"], used, opset=9)
    early = convolve_before_enlarging(load_model(proto))
    assert [each.op for each in early.nodes] == ["Conv", "Upsample"]
    equals_onnxruntime(toolkit, proto, values({"b": INPUTS["b"]}))


def test_where_more_would_be_made_larger() -> None:
    """A few channels of which many are made are enlarged as they are."""
    weights = np.zeros((512, 4, 1, 1), np.float32)
    nodes = [linear("x | twice", "B"), node("Conv", "B w", "y")]
    given = load_model(
        make_model(nodes, {"x": (1, 4, 20, 20)}, ["y"], {"w": weights, "twice": CONSTANTS["twice"]})
    )
    assert convolve_before_enlarging(given).nodes == given.nodes


@examples(12)
@given(data=st.data())
def test_any_decoder(toolkit: Toolkit, data: st.DataObject) -> None:
    draw = data.draw
    height, width = draw(st.integers(4, 20)), draw(st.integers(4, 20))
    inputs: dict[str, tuple[int, ...]] = {}
    nodes: list[Any] = []
    names: list[str] = []
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    constants: dict[str, Any] = {}
    for i in range(draw(st.integers(1, 4))):
        small = draw(st.integers(1, height)), draw(st.integers(1, width))
        inputs[f"x{i}"] = (
            draw(st.sampled_from([1, 2])) if not inputs else inputs["x0"][0],
            draw(st.integers(1, 80)),
            *small,
        )
        constants[f"s{i}"] = np.array([*inputs[f"x{i}"][:2], height, width])
        how = draw(st.sampled_from(["nearest", "linear", "cubic"]))
        nodes.append(node("Resize", f"x{i} | | s{i}", f"r{i}", mode=how))
        names.append(f"r{i}")
    channels = sum(shape[1] for shape in inputs.values())
    constants["w"] = rng.standard_normal((draw(st.integers(1, 70)), channels, 1, 1)).astype(np.float32)
    nodes += [node("Concat", " ".join(names), "j", axis=1), node("Conv", "j w", "c"), node("Relu", "c", "y")]
    proto = make_model(nodes, inputs, ["y"], constants)
    equals_onnxruntime(toolkit, proto, values(inputs))


def test_ranges_that_are_not_known() -> None:
    """What has none would stay in fp32."""
    nodes, outputs, *_ = CASES["joined"]
    given = load_model(model(nodes, outputs)[0])
    assert convolve_before_enlarging(given, {"B", "C", "joined", "y"}).nodes == given.nodes
    early = convolve_before_enlarging(given)
    assert convolve_before_enlarging(given, set(early.values)).nodes == early.nodes


def test_names_that_the_model_has(toolkit: Toolkit) -> None:
    nodes = [node("Relu", "b", "B:small"), linear("B:small | twice", "B"), node("Conv", "B wb", "y")]
    proto, inputs = model(nodes, ["y"])
    given = load_model(proto)
    assert convolve_before_enlarging(given).nodes == given.nodes
    equals_onnxruntime(toolkit, proto, values(inputs))


def test_what_the_user_maps_is_what_the_model_has(toolkit: Toolkit) -> None:
    """Not the sums that take a convolution's place."""
    nodes, outputs, *_ = CASES["joined, and more behind"]
    proto, inputs = model(nodes, outputs)
    seen: list[str] = []

    def copied(graph: GraphBuilder, mapped: MappedNode) -> None:
        seen.append(mapped.outputs[0])
        graph.add_tpu_layer("TPU_COPY", [mapped.inputs[1] or ""], {"reserved": 0}, list(mapped.outputs))

    graph = Graph.from_onnx(proto, toolkit=toolkit, custom={"Add": copied})
    graph.compile()
    y, z = graph.run(values(inputs))
    assert seen == ["y"] * len(seen)
    assert np.array_equal(y, z)
