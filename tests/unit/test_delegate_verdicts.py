"""Verdicts that are found for many operations at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, DeviceError, ModelError
from tests.support.toy_framework import TOY, TensorLike, toy
from user_layers.delegates import verdicts as verdicts_module
from user_layers.delegates.together import build_together
from user_layers.delegates.verdicts import verdicts
from user_layers.onnx import apart
from user_layers.onnx.survey import NoLayers
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor
from user_layers.spelling.spell import Spellings
from user_layers.spelling.speller import Speller
from user_layers.toolkit import Toolkit

pytest.importorskip("onnxruntime", reason="needs onnxruntime")

ODD = Spellings(TOY)


@ODD.of("TWO")
def _two(to: Speller, op: Operation) -> None:
    count = len(op.outputs)
    made = to.node("Split", [to.own(op.inputs[0] or "")], {"axis": 0, "num_outputs": count}, outputs=count)
    for name, value in zip(op.outputs, made, strict=True):
        to.put(name, value)


@ODD.of("SIZE")
def _size(to: Speller, op: Operation) -> None:
    """Constant as soon as shapes are known."""
    to.put(op.outputs[0], to.one("Cast", to.one("Shape", to.own(op.inputs[0] or "")), to=1))


@ODD.of("WRONG")
def _wrong(to: Speller, op: Operation) -> None:
    """No valid ONNX."""
    to.put(op.outputs[0], to.one("Concat", to.own(op.inputs[0] or "")))


@ODD.of("IF")
def _if(to: Speller, op: Operation) -> None:
    """A graph inside that reads from outside."""
    import onnx

    x = to.own(op.inputs[0] or "")
    branch = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", [x], ["b"])],
        "branch",
        [],
        [onnx.helper.make_tensor_value_info("b", 1, list(to.shape(op.outputs[0])))],
    )
    condition = to.const(np.array(True))
    to.put(op.outputs[0], to.one("If", condition, then_branch=branch, else_branch=branch))


def _many(seed: int, count: int) -> ForeignModel:
    """Operations that have nothing to do with each other; some have no layer, some are no valid ONNX."""
    dice = random.Random(seed)
    tensors: dict[str, TensorLike] = {}
    operations: list[Operation] = []
    for i in range(count):
        kind = dice.choice(
            ["RELU", "TANH", "ADD", "MUL", "SUB", "SOFTMAX", "POOL", "FLAT", "DENSE", "LESS"] * 3
            + ["DET", "NOT", "TWO", "SIZE", "WRONG", "IF", "UNKNOWN"]
        )
        rank = 4 if kind == "POOL" else 2 if kind == "DENSE" else dice.choice([1, 2, 2, 3, 4, 4, 6, 9])
        shape = tuple(dice.choice([1, 2, 4, 6]) for _ in range(rank))
        dtype = np.dtype(dice.choice(["float32"] * 6 + ["int32", "int64", "float64", "bool", "int8"]))
        x, y = f"x{i}", f"y{i}"
        tensors[x], outs = Tensor(shape, dtype), [y]
        ins, made, attributes = [x], shape, {}
        if kind in ("ADD", "MUL", "SUB", "LESS"):
            tensors[f"k{i}"] = np.ones(dice.choice([(1,), shape[-1:], (3,)]), dtype)
            ins.append(f"k{i}")
        elif kind == "POOL":
            attributes = {"size": 2}
            made = (shape[0], max(shape[1] // 2, 1), max(shape[2] // 2, 1), shape[3])
        elif kind == "FLAT":
            made = (int(np.prod(shape)),)
        elif kind == "DENSE":
            tensors[f"k{i}"] = np.ones((shape[1], dice.choice([3, 5])), dtype)
            ins.append(f"k{i}")
            made = (shape[0], 3)
        elif kind == "TWO":
            outs = [f"{y}_{k}" for k in range(shape[0])]
            made = (1, *shape[1:])
        elif kind == "SIZE":
            made = (rank,)
        tensors |= {name: Tensor(made, np.dtype(bool) if kind == "LESS" else dtype) for name in outs}
        operations.append(Operation(kind, y, tuple(ins), tuple(outs), attributes))
    model = toy(tensors, [], [f"x{i}" for i in range(count)], [])
    outputs = tuple(name for operation in operations for name in operation.outputs)
    return ForeignModel("Toy", "many", model.tensors, model.inputs, outputs, tuple(operations))


@pytest.mark.parametrize("seed", range(4))
def test_many_at_once_are_told_what_each_is_alone(
    seed: int, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _many(seed, 40)
    found = verdicts(model, ODD, toolkit)
    monkeypatch.setattr(verdicts_module, "build_together", lambda *_: set())
    assert found == verdicts(model, ODD, toolkit)
    assert None in found and len(set(found)) > 3


def test_models_of_usual_operations_are_checked_a_few_times(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check is a request to another process; nothing is run on onnxruntime."""
    asked = []
    check = apart.check_model

    def checked(proto: bytes, *, standard: bool) -> bytes:
        asked.append(len(proto))
        return check(proto, standard=standard)

    monkeypatch.setattr("user_layers.onnx.load.check_model", checked)
    monkeypatch.setattr("user_layers.onnx.fold.run_model", None)
    names = [f"t{i}" for i in range(49)]
    model = toy(
        {name: (1 + i, 3) for i, name in enumerate(names)} | {f"y{i}": (1 + i, 3) for i in range(48)},
        [("RELU" if i % 2 else "TANH", [names[i]], f"y{i}") for i in range(48)],
        names[:48],
        [f"y{i}" for i in range(48)],
    )
    assert verdicts(model, TOY, toolkit) == (None,) * 48
    assert len(asked) == 3


def _built(protos: Sequence[Any], build: Callable[[list[str]], None]) -> tuple[set[int], int]:
    """What is found, and in how many builds; build: gets the names of the outputs."""
    tries = []

    def one(proto: Any) -> None:
        tries.append(1)
        build([value.name for value in proto.graph.output])

    return build_together(protos, one), len(tries)


def _protos(count: int) -> list[Any]:
    import onnx

    value = onnx.helper.make_tensor_value_info("v", 1, [2])
    node = onnx.helper.make_node("Relu", ["v"], ["w"])
    made = onnx.helper.make_tensor_value_info("w", 1, [2])
    graph = onnx.helper.make_graph([node], "g", [value], [made])
    return [onnx.helper.make_model(graph) for _ in range(count)]


def test_those_without_layers_are_left_out_and_the_rest_is_built_again() -> None:
    def build(names: list[str]) -> None:
        if lost := {"3:w", "17:w"}.intersection(names):
            raise NoLayers("no", frozenset(lost))

    found, tries = _built(_protos(40), build)
    assert found == {*range(40)} - {3, 17}
    assert tries == 5


@pytest.mark.parametrize("error", [CompileError, ModelError, DeviceError])
def test_where_nothing_tells_which_it_is_halves_are_tried(error: type[Exception]) -> None:
    def build(names: list[str]) -> None:
        if "5:w" in names:
            raise error("no")

    found, tries = _built(_protos(16), build)
    assert found == {*range(16)} - {4, 5}  # of two the search tries none alone
    assert tries == 7
    assert _built(_protos(1), build) == (set(), 0)
