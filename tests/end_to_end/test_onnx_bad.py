"""Models that are damaged, not valid, or not for this chip: one clear message, and nothing written."""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmware_sim.errors import CompileError, ModelError, TpulayerError, UsageError
from tests.onnx_backend import cases
from tests.support.onnx_models import make_model
from tests.support.workspaces import tpulayer
from user_layers.onnx.command import CompileOptions, run
from user_layers.toolkit import Toolkit

FILES = {"compilation.bmodel", "input_ref_data.dat", "output_ref_data.dat"}


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def refused(model: Any, tmp_path: Path, toolkit: Toolkit, **options: Any) -> TpulayerError:
    """The error of compiling a model; the folder is not made."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    with pytest.raises(TpulayerError) as caught:
        run(CompileOptions(path, tmp_path / "net", **options), print, toolkit)
    assert not (tmp_path / "net").exists()
    return caught.value


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Cut, bits turned, bytes replaced, removed or put in."""
    made = bytearray(data)
    at = rng.randrange(len(made))
    kind = rng.randrange(5)
    if kind == 0:
        del made[at:]
    elif kind == 1:
        made[at] ^= 1 << rng.randrange(8)
    elif kind == 2:
        made[at : at + 3] = rng.randbytes(3)
    elif kind == 3:
        del made[at : at + rng.randrange(1, 8)]
    else:
        made[at:at] = rng.randbytes(rng.randrange(1, 8))
    return bytes(made)


SOUND = "test_(bitcast_uint16_to_int16|eyelike_without_dtype|tan_example|relu|softplus_example)"
"""Cases of one or two nodes: damage leaves some of them valid."""


def test_damaged_models(toolkit: Toolkit, tmp_path: Path) -> None:
    """Each is refused with a message on one line, or still a model: then all three files are written."""
    rng = random.Random(1684)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        valid = [c.model.SerializeToString() for c in cases("node") if re.fullmatch(SOUND, c.name)]
    assert len(valid) == 5
    found = {"refused": 0, "compiled": 0}
    path = tmp_path / "model.onnx"
    for number in range(50):
        path.write_bytes(damaged(rng, rng.choice(valid)))
        out = tmp_path / str(number)
        try:
            run(CompileOptions(path, out, check=False), lambda _: None, toolkit)
        except TpulayerError as error:
            found["refused"] += 1
            assert error.message and error.message.isprintable(), error.message
            assert error.exit_code in (1, 2) and not out.exists()
        else:
            found["compiled"] += 1
            made = {p.name for p in out.iterdir()}  # with commands also who issued them
            assert made - {"compilation.sites.npz"} == FILES
    assert found["refused"] > 25 and found["compiled"] > 2, found


def test_an_inference_that_crashes_is_an_error(toolkit: Toolkit, tmp_path: Path) -> None:
    """Three outputs where an attribute says two: the package onnx 1.23.2 aborts."""
    model = make_model([node("Split", "x", "a b y", num_outputs=2)], {"x": (6,)}, ["y"], opset=18)
    error = refused(model, tmp_path, toolkit)
    assert isinstance(error, (ModelError, CompileError)) and error.message.isprintable()
    good = make_model([node("Relu", "x")], {"x": (6,)}, ["y"])  # the process is started again
    (tmp_path / "good.onnx").write_bytes(good.SerializeToString())
    assert run(CompileOptions(tmp_path / "good.onnx", tmp_path / "net"), print, toolkit)


def test_a_constant_that_crashes_onnxruntime_names_the_node(toolkit: Toolkit, tmp_path: Path) -> None:
    """The least whole number divided by -1: SIGFPE."""
    constants = {"a": np.array([-(2**63), 2]), "b": np.array([-1, 1])}
    nodes = [node("Div", "a b", "q", name="quotient"), node("Cast", "q", "f", to=1), node("Add", "x f")]
    error = refused(make_model(nodes, {"x": (2,)}, ["y"], constants), tmp_path, toolkit)
    assert error.message.startswith("Div quotient: onnxruntime crashed: SIGFPE")


@pytest.mark.parametrize(
    ("nodes", "inputs", "message"),
    [
        ([node("Relu", "x", name="r")], {"x": (1,) * 9}, "input 'x' has 9 dimensions; tensors"),
        ([node("Relu", "x", name="r")], {"x": (1 << 16, 1 << 16)}, "input 'x' has 4294967296 elements"),
        ([node("Expand", "x s", name="e")], {"x": (1,)}, "Expand e: .*'y' has 4294967296 elements"),
        ([node("Tile", "x r", name="t")], {"x": (1 << 28, 2)}, "Tile t: .*'y' has 8589934592 elements"),
        (
            [node("Concat", "x x x", "c", axis=0), node("Relu", "c", "d"), node("Exp", "d")],
            {"x": (1 << 28, 2)},
            "(?i)DDR|memory",
        ),
        ([helper.make_node("Own", ["x"], ["y"], domain="com.own", name="o")], {"x": (2,)}, "node name o"),
        ([helper.make_node("TPU_NONE", ["x"], ["y"], domain="tpulayer")], {"x": (2,)}, "layer 'TPU_NONE'"),
    ],
)
def test_models_for_no_such_chip(
    nodes: list[Any], inputs: dict[str, tuple[int, ...]], message: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    constants = {"s": np.array([1 << 16, 1 << 16]), "r": np.array([4, 4])}
    used = {name for n in nodes for name in n.input}
    model = make_model(nodes, inputs, ["y"], {k: v for k, v in constants.items() if k in used})
    error = refused(model, tmp_path, toolkit, check=False)
    assert re.search(message, error.message), error.message


@pytest.mark.parametrize(
    ("bad", "x", "w", "message"),
    [
        (node("Add", "x w", name="n"), (1, 3), (4,), r"not valid: .*Add.*n.* [Ii]ncompatible"),
        (node("Conv", "x w", name="n", strides=[0, 0]), (1, 3, 8, 8), (4, 3, 3, 3), r"not valid: .*Conv.*n"),
        (node("Conv", "x w", name="n"), (1, 3, 2, 2), (4, 3, 5, 5), r"^Conv n: .*\[1, 4, -2, -2\]"),
    ],
)
def test_operands_that_do_not_fit_name_the_node(
    bad: Any, x: tuple[int, ...], w: tuple[int, ...], message: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    model = make_model([bad], {"x": x}, ["y"], {"w": np.ones(w, np.float32)})
    assert re.search(message, refused(model, tmp_path, toolkit).message)


def test_operands_of_two_types_name_the_node(toolkit: Toolkit, tmp_path: Path) -> None:
    """Only the strict inference of shapes says so; what onnxruntime takes all the same is compiled."""
    nodes = [node("Cast", "x", "c", to=TensorProto.DOUBLE), node("Add", "x c", name="n")]
    error = refused(make_model(nodes, {"x": (2, 3)}, ["y"]), tmp_path, toolkit)
    assert re.search(r"not valid: .*Add.*n.* inconsistent type tensor\(double\)", error.message)


def test_messages_name_the_model_as_the_place(toolkit: Toolkit, tmp_path: Path) -> None:
    model = make_model(
        [node("Relu", "x", f"y{i}") for i in range(17)], {"x": (1,)}, [f"y{i}" for i in range(17)]
    )
    assert refused(model, tmp_path, toolkit).message.startswith("model.onnx: output 'y16'")


@pytest.mark.parametrize("kind", [TensorProto.DOUBLE, TensorProto.STRING])
def test_types_that_the_device_does_not_hold(kind: int, toolkit: Toolkit, tmp_path: Path) -> None:
    model = make_model([node("Identity", "x")], {"x": (2,)}, ["y"])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = kind
    assert "input 'x' is " in refused(model, tmp_path, toolkit).message


def test_an_output_of_such_a_type_names_its_node(toolkit: Toolkit, tmp_path: Path) -> None:
    model = make_model([node("Cast", "x", to=TensorProto.DOUBLE, name="wide")], {"x": (2,)}, ["y"])
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    assert "Cast wide: the output 'y' is float64" in refused(model, tmp_path, toolkit).message


def test_whole_numbers_beyond_32_bits(toolkit: Toolkit, tmp_path: Path) -> None:
    """In a constant they can only be on the CPU; an output of them is an error when the net runs."""
    big = {"k": np.array([1 << 40, 1])}
    nodes = [node("Cast", "x", "i", to=7), node("Add", "i k", name="sum")]
    model = make_model(nodes, {"x": (2,)}, ["y"], big)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    error = refused(model, tmp_path, toolkit)
    assert "y has values beyond the device's 32 bits" in error.message


def test_names_that_are_no_text(toolkit: Toolkit, tmp_path: Path) -> None:
    data = make_model([node("Relu", "x", "some_name"), node("Exp", "some_name")], {"x": (2,)}, ["y"])
    error = refused(data.SerializeToString().replace(b"some_name", b"\xff\xfeme_name"), tmp_path, toolkit)
    assert isinstance(error, ModelError) and "is not a string" in error.message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.node[1].output.__setitem__(0, "h"), "Exp e makes h, which is there already"),
        (lambda g: g.output[0].__setattr__("name", "z"), "nothing makes the output 'z'"),
        (lambda g: g.ClearField("output"), "has no output"),
        (
            lambda g: g.sparse_initializer.add().values.CopyFrom(
                numpy_helper.from_array(np.ones(1, np.float32), "s")
            ),
            "the constant s is sparse",
        ),
        (
            lambda g: g.input[0].type.sequence_type.elem_type.tensor_type.__setattr__("elem_type", 1),
            "input 'x' is a sequence; a net takes only tensors",
        ),
    ],
)
def test_graphs_that_are_not_valid(change: Any, message: str, toolkit: Toolkit, tmp_path: Path) -> None:
    model = make_model([node("Relu", "x", "h"), node("Exp", "h", name="e")], {"x": (2,)}, ["y"])
    change(model.graph)
    assert message in refused(model, tmp_path, toolkit).message


def test_a_map_that_is_wrong(toolkit: Toolkit, tmp_path: Path) -> None:
    model = make_model([node("Relu", "x", name="r")], {"x": (2,)}, ["y"])
    (tmp_path / "own.py").write_text("def nothing(graph, node): pass\ndef bad(graph, node): 1 / 0\nx = 1 +\n")
    (tmp_path / "good.py").write_text("def nothing(graph, node): pass\ndef bad(graph, node): 1 / 0\n")
    (tmp_path / "leaves.py").write_text("def leaves(graph, node): raise SystemExit(3)\n")
    (tmp_path / "left.py").write_text("raise SystemExit(3)\n")
    for target, message in (
        (f"{tmp_path}/none.py:f", "--map: there is no file"),
        (f"{tmp_path}/own.py:nothing", "own.py cannot be loaded: SyntaxError"),
        (f"{tmp_path}/good.py:f", "has no function 'f'"),
        (f"{tmp_path}/good.py:nothing", "Relu r: the function nothing did not make y"),
        (f"{tmp_path}/good.py:bad", "Relu r: the function bad failed: ZeroDivisionError"),
        (f"{tmp_path}/leaves.py:leaves", "Relu r: the function leaves failed: SystemExit: 3"),
        (f"{tmp_path}/left.py:leaves", "left.py cannot be loaded: SystemExit: 3"),
    ):
        assert message in refused(model, tmp_path, toolkit, custom=[f"r={target}"]).message
    with pytest.raises(UsageError, match="expected NODE=TPU_OP"):
        run(CompileOptions(tmp_path / "model.onnx", tmp_path / "net", custom=["r="]), print, toolkit)
    error = refused(model, tmp_path, toolkit, custom=["r=TPU_COPY", "s=TPU_COPY"])
    assert error.message == "the model has no node 's' that a layer could be mapped to"


def test_a_folder_that_cannot_be_written(toolkit: Toolkit, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(make_model([node("Relu", "x")], {"x": (2,)}, ["y"]), str(path))
    with pytest.raises(UsageError, match="cannot write"):
        run(CompileOptions(path, path / "net"), print, toolkit)


def test_exit_codes_of_the_command(tmp_path: Path) -> None:
    """0: compiled; 1: not a model, or a node that cannot be had; 2: words that do not fit."""
    onnx.save(make_model([node("Det", "x", name="d")], {"x": ("n", 2, 2)}, ["y"]), str(tmp_path / "m.onnx"))
    (tmp_path / "cut.onnx").write_bytes((tmp_path / "m.onnx").read_bytes()[:-9])
    words = ("compile", "m.onnx", "-o", "net", "--shapes", "x=3x2x2")
    done = tpulayer(*words, cwd=tmp_path)
    assert "on the CPU: Det d: there is no layer" in done.stdout and (tmp_path / "net").is_dir()
    assert "Det d: there is no layer" in tpulayer(*words, "--no-cpu", cwd=tmp_path, code=1).stderr
    cut = tpulayer("compile", "cut.onnx", "-o", "c", cwd=tmp_path, code=1)
    assert "cut.onnx is not an ONNX model" in cut.stderr
    assert "free dimensions" in tpulayer("compile", "m.onnx", "-o", "c", cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "c").exists()
