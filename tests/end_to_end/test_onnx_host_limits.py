"""Models that ask the host for time without end or memory without bound: one clear message, and soon."""

from __future__ import annotations

import gc
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmware_sim.errors import (
    CompileError,
    DeviceError,
    MissingError,
    ModelError,
    TpulayerError,
    UsageError,
)
from firmware_sim.processes.process import Crash
from user_layers.onnx import apart
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.load import from_proto
from user_layers.runtime import onnx_limits
from user_layers.runtime.cpu import CpuModel
from user_layers.runtime.onnx_process import Session, crash_error

F32 = np.float32


def model(
    nodes: list[Any], constants: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]
) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def loop(value: str, result: str) -> Any:
    """A node that adds for ever."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("c", TensorProto.BOOL, []),
            info("v", TensorProto.FLOAT, [4]),
        ],
        [info("d", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [4])],
    )
    return helper.make_node("Loop", ["", "true", value], [result], body=body)


ENDLESS = model([loop("x", "y")], {"true": True}, {"x": [4]}, {"y": [4]}).SerializeToString()
LARGE = model(
    [helper.make_node("Expand", ["x", "to"], ["z"]), helper.make_node("ReduceMax", ["z"], ["y"], keepdims=0)],
    {"to": np.array([1 << 20, 1 << 14])},
    {"x": [1]},
    {"y": []},
).SerializeToString()
SMALL = model([helper.make_node("Neg", ["x"], ["y"])], {}, {"x": [4]}, {"y": [4]}).SerializeToString()


def test_a_part_of_a_net_that_comes_to_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_TIME_LIMIT", "0.3")
    endless, small = CpuModel(ENDLESS, "net 'n' subnet 1"), CpuModel(SMALL, "net 'n' subnet 2")
    assert small.run([np.ones(4, F32)])[0].tolist() == [-1] * 4
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            endless.run([np.ones(4, F32)])
        assert caught.value.message == (
            "net 'n' subnet 1: onnxruntime came to no end in 0.3 s and was stopped"
        )
        assert "TPULAYER_TIME_LIMIT" in caught.value.hint
        assert small.run([np.ones(4, F32)])[0].tolist() == [-1] * 4  # in a new process


@pytest.mark.parametrize("gigabytes", ["", "1.5"])
def test_a_part_of_a_net_that_wants_all_memory(gigabytes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 GiB: more than half of the machine, or than the user allows."""
    monkeypatch.setenv("TPULAYER_HOST_MEMORY", gigabytes)
    monkeypatch.setattr("user_layers.runtime.onnx_process._child", None)  # one with this limit
    monkeypatch.setattr(os, "sysconf", lambda _: 1 << 16)
    with pytest.raises(MissingError) as caught:
        CpuModel(LARGE, "net 'n' subnet 1").run([np.ones(1, F32)])
    most = gigabytes or "4.0"
    assert caught.value.message == (
        f"net 'n' subnet 1: onnxruntime needs more memory than the {most} GiB that it may have"
    )
    assert "TPULAYER_HOST_MEMORY" in caught.value.hint


def test_a_constant_that_comes_to_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_TIME_LIMIT", "0.3")
    nodes = [loop("k", "l"), helper.make_node("Add", ["x", "l"], ["y"])]
    made = model(nodes, {"true": True, "k": np.ones(4, F32)}, {"x": [4]}, {"y": [4]})
    with pytest.raises(CompileError, match="Loop with the output l: onnxruntime came to no end in"):
        fold_constants(from_proto(made))


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        ("Range", {"a": np.int64(0), "b": np.int64(1 << 62), "c": np.int64(1)}),
        ("Range", {"a": np.int64(0), "b": np.int64(1 << 26), "c": np.int64(1)}),
        ("Tile", {"a": np.ones(4, F32), "b": np.array([1 << 33])}),
    ],
)
def test_a_constant_without_a_shape_that_is_too_large_is_not_computed_ahead(
    op: str, operands: dict[str, Any]
) -> None:
    nodes = [
        helper.make_node(op, list(operands), ["r"]),
        helper.make_node("ReduceMax", ["r"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    folded = fold_constants(from_proto(model(nodes, operands, {"x": [4]}, {"y": [4]})))
    assert folded.nodes[0].op == op and "r" not in folded.constants
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10


@pytest.mark.parametrize("variable", ["TPULAYER_TIME_LIMIT", "TPULAYER_HOST_MEMORY"])
@pytest.mark.parametrize("text", ["-1", "nan", "much", "1e99", "inf"])
def test_limits_that_are_no_numbers(variable: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    read = onnx_limits.memory_bytes if "MEMORY" in variable else lambda: onnx_limits.seconds(1.0)
    with pytest.raises(UsageError, match=f"{variable} {text}: give a number of"):
        read()


def test_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_TIME_LIMIT", "0")
    monkeypatch.setenv("TPULAYER_HOST_MEMORY", "0")
    monkeypatch.setattr("user_layers.runtime.onnx_process._child", None)
    assert onnx_limits.seconds(1.0) == float("inf") and onnx_limits.memory_bytes() == 0
    assert Session(SMALL, "").run({"x": np.ones(4, F32)}, 1.0)[0].tolist() == [-1] * 4


def test_a_file_and_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(SMALL)
    (found,) = apart.run_model(tmp_path / "a.onnx", {"x": np.ones(4, F32)})
    assert found.tolist() == [-1] * 4
    with pytest.raises(ModelError):
        apart.run_model(b"nothing", {})
    with pytest.raises(ModelError, match="it makes 16 bytes"):
        apart.run_model(SMALL, {"x": np.ones(4, F32)}, most=15)
    apart.check_part(SMALL, "the part")
    with pytest.raises(ModelError, match="the part: onnxruntime refuses its model"):
        apart.check_part(b"nothing", "the part")


def test_a_session_that_nobody_holds_is_dropped() -> None:
    first, feeds = Session(SMALL, ""), {"x": np.ones(4, F32)}
    assert first.run(feeds, 60.0)[0].tolist() == [-1] * 4
    number, home = first._number, first._home
    assert home is not None
    del first
    gc.collect()
    assert Session(SMALL, "").run(feeds, 60.0)[0].tolist() == [-1] * 4
    with pytest.raises(ModelError):
        home.request(
            {"op": "run", "session": number, "what": "", "dropped": [], "most": 0}, pickle.dumps(feeds)
        )


@pytest.mark.slow
def test_what_goes_in_and_out_is_larger_than_a_gigabyte() -> None:
    """Large models are legal."""
    count = (1 << 28) + 1
    made = onnx.load_from_string(SMALL)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = count
    (found,) = Session(made.SerializeToString(), "").run({"x": np.ones(count, F32)}, 60.0)
    assert found.shape == (count,) and found[-1] == -1


@pytest.mark.parametrize(
    ("crash", "kind", "message"),
    [
        (
            Crash("net 'n': onnxruntime", "SIGABRT", None, None, "std::bad_alloc\n", ""),
            MissingError,
            "net 'n': onnxruntime needs more memory than",
        ),
        (
            Crash("onnxruntime", "SIGFPE", None, None, "\nlast words\n", ""),
            DeviceError,
            "onnxruntime crashed: SIGFPE (integer division by zero); it wrote: last words",
        ),
        (Crash("", None, 1, None, "", ""), DeviceError, "onnxruntime ended its process with exit code 1"),
    ],
)
def test_how_its_process_may_end(crash: Crash, kind: type[TpulayerError], message: str) -> None:
    error = crash_error(crash)
    assert type(error) is kind and error.message.startswith(message)
    compiling = apart._crashed(crash)
    assert type(compiling) is (CompileError if kind is DeviceError else kind)
    assert (compiling.message, compiling.hint) == (error.message, error.hint)
