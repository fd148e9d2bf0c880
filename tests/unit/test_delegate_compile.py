"""Verdicts on operations, partitions of models, and the requests of compilers in C."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import CompileError, ModelError, UsageError
from tests.support import toy_framework
from tests.support.toy_framework import F32, TOY, random, small_net, toy
from tests.support.workspaces import outside_of_workspaces
from user_layers.delegates.compile import compile_partition
from user_layers.delegates.program import unpack
from user_layers.delegates.serve import Server, read_model
from user_layers.delegates.verdicts import Remembered, verdicts
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor
from user_layers.spelling.speller import Speller
from user_layers.toolkit import Toolkit

pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def _mixed() -> ForeignModel:
    """relu, determinants (no layer does them), an unknown operation, tanh on float64."""
    f64 = np.dtype(np.float64)
    return toy(
        {
            "x": (2, 3, 3),
            "a": (2, 3, 3),
            "d": (2,),
            "u": (2,),
            "w": Tensor((4,), f64),
            "t": Tensor((4,), f64),
        },
        [("RELU", ["x"], "a"), ("DET", ["a"], "d"), ("NEW", ["d"], "u"), ("TANH", ["w"], "t")],
        ["x", "w"],
        ["u", "t"],
    )


def test_verdicts_tell_what_the_compiler_would(toolkit: Toolkit) -> None:
    good, no_layer, unknown, wrong_type = verdicts(_mixed(), TOY, toolkit)
    assert good is None
    assert no_layer == "there is no layer for this operation"
    assert unknown == "there is no such operation here"
    assert wrong_type is not None and "float64" in wrong_type
    assert verdicts(small_net(), TOY, toolkit) == (None,) * 6


def test_a_shape_that_depends_on_the_data_is_told(toolkit: Toolkit) -> None:
    model = toy(
        {"x": (6,), "found": Tensor((-1,), F32), "y": Tensor((-1,), F32)},
        [("RELU", ["x"], "found"), ("TANH", ["found"], "y")],
        ["x"],
        ["y"],
    )
    assert verdicts(model, TOY, toolkit) == ("the shape of found is not known before the model runs",) * 2


def test_what_is_selected_compiles_and_the_rest_does_not(toolkit: Toolkit) -> None:
    model = _mixed()
    partition = compile_partition(model.part((0,)), TOY, name="part", toolkit=toolkit)
    assert [border.name for border in partition.outputs] == ["a"]
    with pytest.raises(CompileError, match="Det d/Det: there is no layer"):
        compile_partition(model.part((0, 1)), TOY, name="part", toolkit=toolkit)


def test_operations_that_are_alike_are_asked_about_once(toolkit: Toolkit) -> None:
    asked = []

    class Spellings(type(TOY)):  # type: ignore[misc]
        def __getitem__(self, kind: str) -> Any:
            asked.append(kind)
            return super().__getitem__(kind)

    tensors = dict.fromkeys("xabcy", (2, 3)) | {"y": (2, 4)}
    model = toy(
        {**tensors, "k": random(3, 4), "one": random(1)},
        [
            ("RELU", ["x"], "a"),
            ("RELU", ["a"], "b"),
            ("ADD", ["b", "one"], "c"),
            ("DENSE", ["c", "k"], "y"),
        ],
        ["x"],
        ["y"],
    )
    known: Remembered = {}
    spellings = Spellings(TOY)
    assert verdicts(model, spellings, toolkit, known) == (None,) * 4
    assert asked == ["RELU", "ADD", "DENSE"]
    assert verdicts(model, spellings, toolkit, known) == (None,) * 4
    assert len(asked) == 3


def test_constants_that_say_something_are_told_apart(toolkit: Toolkit) -> None:
    @TOY.of("SHAPED")
    def shaped(to: Speller, op: Operation) -> None:
        x, shape = (name for name in op.inputs if name is not None)
        to.put(op.outputs[0], to.one("Reshape", to.own(x), to.const(to.known(shape, "shape"), np.int64)))

    def model(*shape: int) -> ForeignModel:
        return toy(
            {"x": (6,), "s": np.array(shape), "y": (2, 3)}, [("SHAPED", ["x", "s"], "y")], ["x"], ["y"]
        )

    known: Remembered = {}
    try:
        assert verdicts(model(2, 3), TOY, toolkit, known) == (None,)
        (why,) = verdicts(model(2, 4), TOY, toolkit, known)
        assert why is not None
    finally:
        del TOY["SHAPED"]


def test_operations_fused_into_one_layer_share_it(toolkit: Toolkit) -> None:
    """A factor and a summand for each channel become one layer, which then has both operations."""
    model = toy(
        {"x": (2, 5, 6), "f": random(6), "s": random(6), "a": (2, 5, 6), "y": (2, 5, 6), "z": (2, 5, 6)},
        [("MUL", ["x", "f"], "a"), ("ADD", ["a", "s"], "y"), ("RELU", ["y"], "z")],
        ["x"],
        ["z"],
    )
    partition = compile_partition(model, TOY, name="net", toolkit=toolkit)
    assert {index for layer in partition.layers for index in layer.operations} == {0, 1, 2}
    assert partition.cycles > 0


def test_shapes_of_inputs_may_be_others_where_nothing_says_them(toolkit: Toolkit) -> None:
    model = toy(
        {"x": (1, 8, 8, 3), "a": (1, 4, 4, 3), "y": (1, 4, 4, 3)},
        [("POOL", ["x"], "a", {"size": 2}), ("TANH", ["a"], "y")],
        ["x"],
        ["y"],
    )
    partition = compile_partition(model, TOY, name="net", toolkit=toolkit, shapes={"x": (2, 6, 10, 3)})
    assert partition.inputs[0].shape == (2, 6, 10, 3)
    assert partition.outputs[0].shape == (2, 3, 5, 3)
    for name, shape in (("x", (1, 2, 3)), ("z", (1,))):
        with pytest.raises(UsageError, match="no input"):
            compile_partition(model, TOY, name="net", toolkit=toolkit, shapes={name: shape})


# ---- requests ----


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """On the toy's operations."""
    made = Server({"Toy": f"{toy_framework.__name__}:TOY"})
    with outside_of_workspaces(tmp_path_factory.mktemp("nowhere")):
        yield made
    made.close()


def message(model: ForeignModel) -> tuple[dict[str, Any], bytes]:
    """A model as a request has it."""
    data, tensors, names = bytearray(), [], list(model.tensors)
    for name in names:
        one = model.tensors[name]
        place = None
        if one.data is not None:
            place = [len(data), one.data.nbytes]
            data += one.data.tobytes()
        tensors.append({"name": name, "shape": one.shape, "dtype": str(one.dtype), "data": place})

    def indices(chosen: tuple[str | None, ...]) -> list[int]:
        return [-1 if name is None else names.index(name) for name in chosen]

    operations = [
        {
            "kind": op.kind,
            "name": op.name,
            "inputs": indices(op.inputs),
            "outputs": indices(op.outputs),
            "attributes": dict(op.attributes),
        }
        for op in model.operations
    ]
    edges = {"inputs": indices(model.inputs), "outputs": indices(model.outputs)}
    return {"name": model.name, "tensors": tensors, "operations": operations, **edges}, bytes(data)


def _ask(server: Server, request: Any, data: bytes = b"") -> bytes:
    reply = server.answer(96, json.dumps(request), 0, 0, 0, data)
    assert reply is not None
    return reply[1]


def test_a_request_gets_what_python_would(
    server: Server, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # a bmodel tells when it was made
    one, data = message(small_net())
    told = _ask(server, {"ask": "divide", "what": "Toy", "models": [one]}, data)
    assert told == b"0\0" * 6
    program = _ask(server, {"ask": "compile", "what": "Toy", "models": [one], "opt": 1}, data)
    assert unpack(program) == (compile_partition(small_net(), TOY, name="toy", toolkit=toolkit, opt=1),)
    other = {**one, "name": "second", "shapes": {"image": [1, 9, 11, 3]}}
    both = _ask(server, {"ask": "compile", "what": "Toy", "models": [one, other]}, data)
    assert [partition.name for partition in unpack(both)] == ["toy", "second"]


def test_models_are_divided_one_after_the_other(server: Server) -> None:
    (one, data), (two, _) = message(small_net()), message(_mixed())
    told = _ask(server, {"ask": "divide", "what": "Toy", "models": [one, two]}, data)
    found = told.decode().split("\0")
    assert found[:7] == ["0"] * 7 and found[-1] == ""
    assert found[7:9] == ["-there is no layer for this operation", "-there is no such operation here"]
    assert found[9].startswith("-") and "float64" in found[9] and len(found) == 11
    told = _ask(
        server, {"ask": "divide", "what": "Toy", "models": [one], "most": 2, "consecutive": True}, data
    )
    assert told.decode().split("\0") == ["0", "0", "1", "1", "2", "2", ""]


def test_attributes_and_tensors_of_all_kinds_come_through() -> None:
    model = read_model(
        "Toy",
        {
            "name": "n",
            "tensors": [
                {"name": "x", "shape": [2], "dtype": "float32", "data": [4, 8]},
                {"name": "x", "shape": [], "dtype": None, "data": None},
            ],
            "inputs": [1],
            "outputs": [0],
            "operations": [
                {
                    "kind": "K",
                    "name": "k",
                    "inputs": [1, -1],
                    "outputs": [0],
                    "own": True,
                    "attributes": {
                        "n": 1,
                        "f": 0.5,
                        "t": "text",
                        "l": [1, [2]],
                        "b": {"bytes": [0, 4]},
                        "a": {"shape": [2, 1], "dtype": "int16", "data": [0, 4]},
                    },
                }
            ],
        },
        b"\x01\x00\x02\x00" + np.array([1, 2], np.float32).tobytes(),
    )
    (operation,) = model.operations
    assert operation.inputs == ("x'", None) and operation.outputs == ("x",) and operation.own
    values = dict(operation.attributes)
    np.testing.assert_array_equal(values.pop("a"), np.array([[1], [2]], np.int16))
    assert values == {"n": 1, "f": 0.5, "t": "text", "l": (1, (2,)), "b": b"\x01\x00\x02\x00"}
    assert model.tensors["x"].data is not None and model.tensors["x"].dtype == F32
    np.testing.assert_array_equal(model.tensors["x"].data, [1, 2])
    assert model.tensors["x'"] == Tensor((), None)


@pytest.mark.parametrize(
    "request_, text",
    [
        ("text", "damaged"),
        ({}, "'what'"),
        ({"ask": "divide", "what": "None", "models": []}, "no operations of 'None' are known"),
        ({"ask": "dance", "what": "Toy", "models": []}, "divide or compile"),
        ({"ask": "divide", "what": "Toy", "models": [{"name": "n"}]}, "'tensors'"),
        ({"ask": "divide", "what": "Toy", "models": [{"tensors": [{"name": "x"}]}]}, "'shape'"),
    ],
)
def test_what_is_no_request_is_an_error(server: Server, request_: Any, text: str) -> None:
    with pytest.raises((ModelError, UsageError), match=text):
        _ask(server, request_)


def test_data_beyond_the_end_is_an_error(server: Server) -> None:
    one, data = message(small_net())
    with pytest.raises(ModelError, match="bytes at"):
        _ask(server, {"ask": "compile", "what": "Toy", "models": [one]}, data[:-1])
    with pytest.raises(UsageError, match="unknown request 5"):
        server.answer(5, "", 0, 0, 0, b"")
