"""Models of other frameworks in ONNX's words: orders of axes, constants, edges; run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.infer import inferred
from user_layers.spelling.spell import Spelled, Spellings, spell
from user_layers.spelling.speller import Speller, to_first, to_last

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
F32 = np.dtype(np.float32)
TOY = Spellings()


@TOY.of("POOL")
def _pool(to: Speller, op: Operation) -> None:
    """A maximum over 1x1 windows: cares for the order of axes, and changes nothing."""
    assert op.inputs[0] is not None
    to.put(op.outputs[0], to.one("MaxPool", to.first(op.inputs[0]), kernel_shape=[1, 1]), first=True)


@TOY.of("FLAT")
def _flat(to: Speller, op: Operation) -> None:
    """Wants the framework's own order."""
    assert op.inputs[0] is not None
    shape = to.const(to.shape(op.outputs[0]), np.int64)
    to.put(op.outputs[0], to.one("Reshape", to.own(op.inputs[0]), shape))


@TOY.of("ADD", "MUL")
def _binary(to: Speller, op: Operation) -> None:
    values, first = to.alike([name for name in op.inputs if name is not None], op.outputs[0])
    to.put(op.outputs[0], to.one(op.kind.capitalize(), *values), first=first)


def _model(
    tensors: Mapping[str, tuple[int, ...] | Array],
    operations: list[tuple[str, list[str], str]],
    inputs: list[str],
    outputs: list[str],
) -> ForeignModel:
    return ForeignModel(
        "Toy",
        "toy",
        {
            name: Tensor(t, F32) if isinstance(t, tuple) else Tensor(t.shape, t.dtype, t)
            for name, t in tensors.items()
        },
        tuple(inputs),
        tuple(outputs),
        tuple(Operation(kind, out, tuple(ins), (out,)) for kind, ins, out in operations),
    )


def _run(spelled: Spelled, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What a spelled model gives, in the framework's order of axes."""
    session = onnxruntime.InferenceSession(spelled.proto.SerializeToString())
    fed = {b.name: feeds[b.name].transpose(b.order) for b in spelled.inputs}
    got = session.run(None, fed)
    return {b.name: a.transpose(np.argsort(b.order)) for b, a in zip(spelled.outputs, got, strict=True)}


def _operations(spelled: Spelled) -> list[str]:
    return [node.op_type for node in spelled.proto.graph.node]


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_the_two_orders_undo_each_other(rank: int) -> None:
    first, last = to_first(rank), to_last(rank)
    assert [first[axis] for axis in last] == list(range(rank))
    assert first[1] == rank - 1


@pytest.mark.parametrize("free", [False, True])
def test_a_chain_with_channels_first_has_transposes_only_at_the_edge(free: bool) -> None:
    model = _model(
        {"x": (2, 3, 4, 5), "c": _random(5), "a": (2, 3, 4, 5), "b": (2, 3, 4, 5), "y": (2, 3, 4, 5)},
        [("POOL", ["x"], "a"), ("ADD", ["a", "c"], "b"), ("MUL", ["b", "a"], "y")],
        ["x"],
        ["y"],
    )
    spelled = spell(model, TOY, free_borders=free)
    inner = ["MaxPool", "Add", "Mul"]
    assert _operations(spelled) == (inner if free else ["Transpose", *inner, "Transpose"])
    assert [border.is_permuted for border in (*spelled.inputs, *spelled.outputs)] == [free, free]
    x = _random(2, 3, 4, 5)
    np.testing.assert_array_equal(_run(spelled, {"x": x})["y"], (x + _random(5)) * x)


@pytest.mark.parametrize("free", [False, True])
def test_operands_of_fewer_dimensions_are_broadcast_from_the_last_axis(free: bool) -> None:
    model = _model(
        {
            "x": (2, 3, 4, 5),
            "row": (4, 5),
            "one": np.float32(3).reshape(()),
            "a": (2, 3, 4, 5),
            "b": (2, 3, 4, 5),
            "y": (2, 3, 4, 5),
        },
        [("POOL", ["x"], "a"), ("MUL", ["row", "a"], "b"), ("ADD", ["b", "one"], "y")],
        ["x", "row"],
        ["y"],
    )
    x, row = _random(2, 3, 4, 5), _random(4, 5)
    got = _run(spell(model, TOY, free_borders=free), {"x": x, "row": row})["y"]
    np.testing.assert_array_equal(got, row * x + np.float32(3))


def test_a_transpose_of_ones_is_a_reshape_and_is_made_once() -> None:
    model = _model(
        {"x": (2, 1, 1, 5), "a": (2, 1, 1, 5), "y": (2, 5), "z": (10,)},
        [("POOL", ["x"], "a"), ("FLAT", ["a"], "y"), ("FLAT", ["a"], "z")],
        ["x"],
        ["y", "z"],
    )
    spelled = spell(model, TOY, free_borders=True)
    assert _operations(spelled) == ["MaxPool", "Reshape", "Reshape", "Reshape"]
    x = _random(2, 1, 1, 5)
    got = _run(spelled, {"x": x})
    np.testing.assert_array_equal(got["y"], x.reshape(2, 5))
    np.testing.assert_array_equal(got["z"], x.reshape(10))


def test_inputs_that_are_outputs_unused_or_used_in_both_orders_keep_their_names() -> None:
    model = _model(
        {"x": (1, 2, 3, 4), "unused": (7,), "c": _random(2), "a": (1, 2, 3, 4), "f": (24,)},
        [("POOL", ["x"], "a"), ("FLAT", ["x"], "f")],
        ["x", "unused"],
        ["x", "f", "c", "a"],
    )
    spelled = spell(model, TOY, free_borders=True)
    assert [border.name for border in spelled.inputs] == ["x", "unused"]
    x = _random(1, 2, 3, 4)
    got = _run(spelled, {"x": x, "unused": _random(7)})
    assert list(got) == ["x", "f", "c", "a"]
    for name, want in {"x": x, "f": x.reshape(24), "c": _random(2), "a": x}.items():
        np.testing.assert_array_equal(got[name], want)


def test_a_value_that_is_two_outputs_or_an_input_and_an_output_has_both_names() -> None:
    same = Spellings(TOY)
    same.of("SAME")(lambda to, op: to.put(op.outputs[0], to.own(op.inputs[0] or "")))
    model = _model(
        dict.fromkeys(["x", "a", "b", "c"], (2, 3)),
        [("ADD", ["x", "x"], "a"), ("SAME", ["a"], "b"), ("SAME", ["x"], "c")],
        ["x"],
        ["a", "b", "c"],
    )
    x = _random(2, 3)
    got = _run(spell(model, same), {"x": x})
    for name, want in {"a": 2 * x, "b": 2 * x, "c": x}.items():
        np.testing.assert_array_equal(got[name], want)


def test_every_operation_that_cannot_be_said_is_named() -> None:
    model = _model(
        {"x": (2,), "a": (2,), "y": (2,)}, [("NEW", ["x"], "a"), ("NEWER", ["a"], "y")], ["x"], ["y"]
    )
    with pytest.raises(CompileError, match=r"Toy NEW a: there is no such operation[^\n]*\n  Toy NEWER y: "):
        spell(model, TOY)


def test_a_part_reads_what_it_lacks_and_gives_what_others_need() -> None:
    model = _model(
        {"x": (2,), "c": _random(2), "a": (2,), "b": (2,), "y": (2,)},
        [("ADD", ["x", "c"], "a"), ("MUL", ["a", "x"], "b"), ("ADD", ["b", "a"], "y")],
        ["x"],
        ["y"],
    )
    part = model.part((1, 2), "part")
    assert (part.inputs, part.outputs, part.name) == (("a", "x"), ("y",), "part")
    first = model.part((0,))
    assert (first.inputs, first.outputs, len(first.operations)) == (("x",), ("a",), 1)


def test_sources_say_which_operation_a_node_comes_from() -> None:
    model = _model(
        {"x": (1, 2, 3, 4), "a": (1, 2, 3, 4), "y": (24,)},
        [("POOL", ["x"], "a"), ("FLAT", ["a"], "y")],
        ["x"],
        ["y"],
    )
    spelled = spell(model, TOY)
    found: Any = [(node.op_type, spelled.sources[node.name]) for node in spelled.proto.graph.node]
    assert found == [("Transpose", 0), ("MaxPool", 0), ("Transpose", 1), ("Reshape", 1)]


@TOY.of("WORD")
def _word(to: Speller, op: Operation) -> None:
    """A node that ONNX does not know, whose shape it tells."""
    (made,) = to.own_layer(Operation("TPU_WORD", op.name, op.inputs, op.outputs), [to.own("x")], {"n": 3})
    to.declare(made, (5, 7))
    to.put(op.outputs[0], made)


def test_large_constants_are_inputs_where_only_shapes_count() -> None:
    big, small = np.ones((65, 64), np.float32), np.ones(64, np.float32)
    model = _model(
        {"x": (65, 64), "w": big, "b": small, "y": (65, 64), "z": (65, 64)},
        [("ADD", ["x", "w"], "y"), ("MUL", ["y", "b"], "z")],
        ["x"],
        ["z"],
    )
    light, whole = spell(model, TOY, light=True).proto.graph, spell(model, TOY).proto.graph
    assert (len(light.input), len(light.initializer)) == (2, 1)
    assert (len(whole.input), len(whole.initializer)) == (1, 2)
    assert not light.output[0].type.tensor_type.HasField("shape")
    outs = {"y": Tensor((), F32)}
    found = inferred("Toy", model.operations[0], {**model.tensors, **outs}, TOY)
    assert found["y"].shape == (65, 64) and found["y"].data is None


def test_a_shape_that_onnx_cannot_infer_is_told() -> None:
    tensors = {"x": Tensor((2, 3), F32), "y": Tensor((), F32), "z": Tensor((5, 7), F32)}
    word, after = Operation("WORD", "w", ("x",), ("y",)), Operation("FLAT", "f", ("y",), ("z",))
    assert inferred("Toy", word, tensors, TOY)["y"].shape == (5, 7)
    model = ForeignModel("Toy", "toy", {**tensors, "y": Tensor((5, 7), F32)}, ("x",), ("z",), (word, after))
    (info,) = spell(model, TOY).proto.graph.value_info
    assert [dim.dim_value for dim in info.type.tensor_type.shape.dim] == [5, 7]


def test_an_own_operation_is_a_node_with_what_adds_its_layers() -> None:
    def call(graph: Any, node: Any) -> None:
        raise AssertionError("nobody asks it here")

    tensors = {"x": Tensor((2, 3), F32), "y": Tensor((4,), F32), "z": Tensor((4,), F32)}
    operations = (
        Operation("Mine", "m", ("x",), ("y",), {"nested": {"a": 1}}, own=True, call=call),
        Operation("ADD", "a", ("y", "y"), ("z",)),
    )
    spelled = spell(ForeignModel("Toy", "toy", tensors, ("x",), ("z",), operations), TOY)
    (node, _) = spelled.proto.graph.node
    assert (node.domain, node.op_type, list(node.attribute)) == ("tpulayer", "Mine", [])
    assert spelled.calls == {node.name: call}
    assert [dim.dim_value for dim in spelled.proto.graph.value_info[0].type.tensor_type.shape.dim] == [4]
