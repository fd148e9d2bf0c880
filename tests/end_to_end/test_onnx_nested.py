"""Concatenations that begin as another one does."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.support.onnx_models import equals_onnxruntime, make_model
from user_layers.onnx.load import load_model
from user_layers.onnx.nested import nest_concatenations
from user_layers.toolkit import Toolkit


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def test_dense_blocks(toolkit: Toolkit) -> None:
    """Each layer reads all that were before it; in a group nothing is copied again."""
    rng = np.random.default_rng(0)
    constants = {
        f"w{i}": rng.standard_normal((32, 64 + 32 * i, 3, 3)).astype(np.float32) / 24 for i in range(4)
    }
    nodes, known = [], "x"
    for i in range(4):
        if i:
            nodes.append(node("Concat", known, f"c{i}", axis=1 if i % 2 else -3))
        nodes.append(node("Conv", f"{f'c{i}' if i else 'x'} w{i}", f"y{i}", pads=[1] * 4))
        known += f" y{i}"
    nodes.append(node("Concat", known, "y", axis=1))
    model = make_model(nodes, {"x": (1, 64, 14, 14)}, ["y"], constants)
    nested = nest_concatenations(load_model(model))
    joined = [each.inputs for each in nested.nodes if each.op == "Concat"]
    assert joined == [("x", "y0"), ("c1", "y1"), ("c2", "y2"), ("c3", "y3")]
    x = {"x": rng.standard_normal((1, 64, 14, 14)).astype(np.float32)}
    for opt in (0, 2):
        equals_onnxruntime(toolkit, model, x, opt=opt)


def test_others_stay_as_they_are() -> None:
    """Along another dimension, in another order, or the same once more."""
    x = {"x": (2, 3, 4, 4), "y": (2, 3, 4, 4), "z": (2, 3, 4, 4)}
    nodes = [
        node("Concat", "x y", "a", axis=1),
        node("Concat", "x y z", "b", axis=2),
        node("Concat", "y x z", "c", axis=1),
        node("Concat", "x y", "d", axis=1),
        node("Concat", "x y x y", "e", axis=1),
    ]
    model = load_model(make_model(nodes, x, list("abcde"), {}))
    nested = nest_concatenations(model)
    assert nested.nodes[:4] == model.nodes[:4]
    assert nested.nodes[4].inputs == ("a", "x", "y")


def test_a_token_that_is_put_in_front_and_cut_out_again(toolkit: Toolkit) -> None:
    """Part of a concatenation, slice of it: the same bytes in DDR, which a group loads by either name."""
    rng = np.random.default_rng(0)
    constants = {name: 0.1 * rng.standard_normal((256, 256)).astype(np.float32) for name in "wvu"}
    constants |= {"bias": rng.standard_normal(256).astype(np.float32), "ones": np.ones(256, np.float32)}
    constants |= {name: np.array([n]) for name, n in (("zero", 0), ("one", 1), ("end", 1000))}
    nodes = [
        node("LayerNormalization", "token ones", "first"),
        node("MatMul", "first w", "product"),
        node("Add", "product bias", "part"),
        node("Slice", "x one end one", "others"),
        node("Concat", "part others", "all", axis=1),
        node("LayerNormalization", "all ones", "normal"),
        node("MatMul", "normal v", "mixed"),
        node("Add", "mixed bias", "shifted"),
        node("Slice", "all zero one one", "cut"),
        node("Slice", "shifted zero one one", "changed"),
        node("Add", "cut changed", "sum"),
        node("LayerNormalization", "sum ones", "last"),
        node("MatMul", "last u", "y"),
    ]
    model = make_model(nodes, {"token": (1, 1, 256), "x": (1, 50, 256)}, ["y", "all"], constants)
    x = {"token": rng.standard_normal((1, 1, 256)), "x": rng.standard_normal((1, 50, 256))}
    for opt in (1, 2):
        equals_onnxruntime(toolkit, model, {k: v.astype(np.float32) for k, v in x.items()}, opt=opt)
