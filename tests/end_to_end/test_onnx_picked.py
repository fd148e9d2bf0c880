"""Channels that are cut out or shuffled: chosen by the weights of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.onnx_models import equals_onnxruntime, make_model
from user_layers.onnx.check import reference
from user_layers.onnx.load import load_model
from user_layers.onnx.model import Array, Model
from user_layers.onnx.picked import pick_channels
from user_layers.onnx.views import picked_channels
from user_layers.toolkit import Toolkit

SHAPE = (2, 12, 20, 20)
CONSTANTS: dict[str, Any] = {
    "w": np.random.default_rng(0).standard_normal((9, 12, 3, 3)).astype(np.float32),
    "half": np.random.default_rng(1).standard_normal((5, 6, 1, 1)).astype(np.float32),
    "rest": np.random.default_rng(2).standard_normal((5, 7, 1, 1)).astype(np.float32),
    "each": np.random.default_rng(3).standard_normal((12, 1, 3, 3)).astype(np.float32),
    "apart": np.array([2, 3, 4, 20, 20]),
    "together": np.array(SHAPE),
    "sizes": np.array([5, 7]),
    **{str(i): np.array([i]) for i in (0, 1, 2, 6, 12)},
}


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


SHUFFLE = [
    node("Reshape", "x apart", "a"),
    node("Transpose", "a", "t", perm=[0, 2, 1, 3, 4]),
    node("Reshape", "t together", "s"),
]
# The nodes, the outputs, how many convolutions there are then, whether any node is left that moves channels.
CASES: dict[str, tuple[list[Any], Sequence[str], int, bool]] = {
    "shuffled": ([*SHUFFLE, node("Conv", "s w", "y", pads=[1] * 4)], ("y",), 1, False),
    "a half and the other": (
        [*SHUFFLE, node("Slice", "s 0 6 1", "d"), node("Slice", "s 6 12 1", "e"), node("Conv", "e half", "c"),
         node("Concat", "d c", "y", axis=1)],
        ("y",), 2, False,
    ),
    "both in convolutions": (
        [node("Split", "x sizes", "d e", axis=1), node("Conv", "e rest", "c"), node("Relu", "d", "r"),
         node("Concat", "r c", "y", axis=1)],
        ("y",), 2, False,
    ),
    "read twice": (
        [*SHUFFLE, node("Conv", "s w", "c", pads=[1] * 4),
         node("Conv", "s each", "d", group=12, pads=[1] * 4), node("Add", "d s", "e"),
         node("Concat", "e c", "y", axis=1)],
        ("y",), 3, False,
    ),
    "every other": ([node("Slice", "x 0 12 1 2", "d"), node("Conv", "d half", "y")], ("y",), 1, True),
    "wanted": ([*SHUFFLE, node("Conv", "s w", "y", pads=[1] * 4)], ("y", "s"), 1, True),
    "rows": ([node("Slice", "x 0 6 2", "d"), node("Conv", "d w", "y")], ("y",), 1, True),
}  # fmt: skip


def moves(model: Model) -> bool:
    return any(each.op in ("Slice", "Split", "Transpose") for each in model.nodes)


@pytest.mark.parametrize("name", CASES)
def test_the_same_values(toolkit: Toolkit, name: str) -> None:
    nodes, outputs, convolutions, left = CASES[name]
    used = {value for each in nodes for value in each.input}
    proto = make_model(nodes, {"x": SHAPE}, outputs, {n: v for n, v in CONSTANTS.items() if n in used})
    model = load_model(proto)
    picked = pick_channels(model)
    assert (picked is model) == left
    assert [each.op for each in picked.nodes].count("Conv") == convolutions
    assert moves(picked) == left
    x = {"x": np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)}
    want = reference(model, x)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(reference(picked, x), want, strict=True))
    equals_onnxruntime(toolkit, proto, x)


def test_moving_few_channels_of_many_is_cheaper() -> None:
    weights = np.zeros((64, 8, 3, 3), np.float32)
    nodes = [node("Slice", "x 0 8 1", "d"), node("Conv", "d w", "y")]
    indices = {str(i): np.array([i]) for i in (0, 1, 8)}
    model = load_model(make_model(nodes, {"x": (1, 1024, 9, 9)}, ["y"], {"w": weights, **indices}))
    assert pick_channels(model).nodes == model.nodes


@pytest.mark.parametrize(("kernel", "cheaper"), [(3, True), (5, False)])
def test_channels_that_are_read_for_nothing_cost_every_tap(kernel: int, cheaper: bool) -> None:
    weights = np.ones((8, 16, kernel, kernel), np.float32)
    nodes = [node("Slice", "x 0 16 1", "d"), node("Conv", "d w", "y", pads=[kernel // 2] * 4)]
    indices = {str(i): np.array([i]) for i in (0, 1, 16)}
    model = load_model(make_model(nodes, {"x": (1, 32, 20, 20)}, ["y"], {"w": weights, **indices}))
    assert (pick_channels(model) is not model) == cheaper


@given(data=st.data())
def test_any_way_of_moving(data: st.DataObject) -> None:
    """What is said to be picked is what numpy gives; what is not has no such channels."""
    shape: tuple[int, ...] = (2, data.draw(st.sampled_from([4, 6, 12])), 3, 2)
    whole: Array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    nodes: list[Any] = []
    constants: dict[str, Any] = {}
    name, now = "x", whole
    for i in range(data.draw(st.integers(1, 5))):
        made = f"v{i}"
        way = data.draw(st.sampled_from(["apart", "together", "turn", "cut"]))
        if way == "cut" and now.ndim > 1:
            axis = data.draw(st.integers(0, now.ndim - 1))
            start = data.draw(st.integers(0, now.shape[axis] - 1))
            constants |= {f"s{i}": np.array([start]), f"e{i}": np.array([99]), f"a{i}": np.array([axis])}
            nodes.append(node("Slice", f"{name} s{i} e{i} a{i}", made))
            now = np.take(now, range(start, now.shape[axis]), axis)
        elif way == "turn" and now.ndim > 1:
            order = data.draw(st.permutations(range(now.ndim)))
            nodes.append(node("Transpose", name, made, perm=order))
            now = now.transpose(order)
        else:
            apart = [(2, -1, *shape[2:]), (2, 2, -1, *shape[2:]), (2, -1, 2, *shape[2:])]
            target = data.draw(st.sampled_from(apart))
            if now.size % (2 * 2 * 6) or (way == "together" and now.size % 12):
                continue
            constants[f"r{i}"] = np.array(target)
            nodes.append(node("Reshape", f"{name} r{i}", made))
            now = now.reshape(target)
        name = made
    if not nodes:
        return
    model = load_model(make_model(nodes, {"x": shape}, [name], constants))
    found = picked_channels(model, name)
    wanted = None
    if now.ndim == 4 and (now.shape[0], *now.shape[2:]) == (shape[0], *shape[2:]):
        channels = now[0, :, 0, 0].astype(int) // 6
        if channels.max() < shape[1] and np.array_equal(now, whole[:, channels]):
            wanted = channels
    if wanted is not None:
        assert found is not None and found.source == "x"
        np.testing.assert_array_equal(found.channels, wanted)
    else:
        assert found is None or found.source != "x"
