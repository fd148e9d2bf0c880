"""LiteRT's dispatch library called as a runtime does, by one made here: what it refuses, and its metrics."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from user_layers.delegates.compile import compile_partition
from user_layers.delegates.litert import DISPATCH, litert_libraries
from user_layers.delegates.program import pack
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor
from user_layers.tflite.spellings import TFLITE
from user_layers.toolkit import Toolkit

pytest.importorskip("onnx", reason="needs the package onnx")
OK, BAD_ARGUMENT, WRONG_VERSION, INDEX = 0, 1, 8, 1000
SLOTS = (
    "initialize", "get_vendor_id", "get_build_id", "get_capabilities", "device_create", "device_destroy",
    "get_input_requirements", "get_output_requirements", "register_buffer", "unregister_buffer",
    "invocation_create", "invocation_destroy", "set_scheduling", "attach_input", "attach_output",
    "detach_input", "detach_output", "invoke", "start_metrics", "stop_metrics", "get_num_metrics",
    "get_metric", "destroy_metrics", "check_runtime", "set_options", "get_hooks",
)  # fmt: skip
Pointer = ctypes.c_void_p


class Memory(ctypes.Structure):
    _fields_ = [
        ("fd", ctypes.c_int),
        ("base", Pointer),
        *((name, ctypes.c_size_t) for name in ("offset", "size", "file_offset")),
    ]


class Metric(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("number", ctypes.c_int64)]


class Api(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint16 * 4),
        ("version", ctypes.c_int * 3),
        ("interface", ctypes.POINTER(Pointer)),
        ("others", Pointer * 3),
    ]


class Runtime:
    """LiteRT's table of functions, whose buffers are numpy arrays; a handle is the index behind 1."""

    def __init__(self, size: int = 400) -> None:
        self.buffers: list[Any] = []
        self.table = (ctypes.c_uint64 * 52)()
        ctypes.cast(self.table, ctypes.POINTER(ctypes.c_uint16))[0] = size
        kinds = {208: self._size, 240: self._memory}
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, ctypes.POINTER(ctypes.c_uint64))
        self.functions = {at: prototype(function) for at, function in kinds.items()}
        for at, made in self.functions.items():
            self.table[at // 8] = ctypes.cast(made, Pointer).value or 0

    def _size(self, handle: int, size: Any) -> int:
        size[0] = self.buffers[handle - 1].nbytes
        return OK

    def _memory(self, handle: int, place: Any) -> int:
        place[0] = self.buffers[handle - 1].ctypes.data
        return OK

    def add(self, array: Any) -> ctypes.c_uint64:
        self.buffers.append(array)
        return ctypes.c_uint64(len(self.buffers))


@pytest.fixture(scope="module")
def interface() -> Callable[..., int]:
    api = Api()
    library = ctypes.CDLL(str(litert_libraries() / DISPATCH))
    assert library.LiteRtDispatchGetApi(ctypes.byref(api)) == OK
    assert list(api.abi) == [56, 1, 0, 0] and list(api.version) == [0, 1, 0]

    def call(name: str, *words: Any) -> int:
        function = ctypes.CFUNCTYPE(ctypes.c_int)(api.interface[SLOTS.index(name)] or 0)
        function.argtypes = [
            type(word) if isinstance(word, ctypes._SimpleCData) else Pointer for word in words
        ]
        return int(function(*words))

    return call


@pytest.fixture(scope="module")
def program(toolkit: Toolkit) -> bytes:
    tensors = {name: Tensor((2, 6), np.dtype(np.float32)) for name in ("x", "h", "y")}
    operations = (Operation("RELU", "h", ("x",), ("h",)), Operation("ADD", "y", ("h", "x"), ("y",)))
    model = ForeignModel("TFLite", "part", tensors, ("x",), ("y",), operations)
    return pack([compile_partition(model, TFLITE, name="part", toolkit=toolkit)])


def _create(
    interface: Callable[..., int],
    runtime: Runtime,
    program: bytes,
    *,
    name: bytes = b"part",
    outputs: int = 1,
) -> tuple[int, Pointer]:
    kept = ctypes.create_string_buffer(b"....." + program, len(program) + 5)
    memory = Memory(-1, ctypes.addressof(kept), 5, len(program), 0)
    made = Pointer()
    status = interface(
        "invocation_create",
        Pointer(ctypes.addressof(runtime.table)),
        Pointer(1),
        ctypes.c_int(2),
        Pointer(ctypes.addressof(memory)),
        ctypes.c_char_p(name),
        ctypes.c_int(1),
        ctypes.c_int(outputs),
        ctypes.byref(made),
    )
    return status, made


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No workspace: the device boots the built-in firmware."""
    monkeypatch.chdir(tmp_path)


def test_a_partition_runs_and_is_measured(interface: Callable[..., int], program: bytes) -> None:
    runtime = Runtime()
    table, device = Pointer(ctypes.addressof(runtime.table)), Pointer()
    assert interface("initialize", table, Pointer(), Pointer()) == OK
    assert interface("device_create", table, Pointer(), ctypes.byref(device)) == OK and device.value
    status, part = _create(interface, runtime, program)
    assert status == OK
    x, y = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6), np.zeros((2, 6), np.float32)
    assert interface("attach_input", part, ctypes.c_int(0), runtime.add(x)) == OK
    assert interface("attach_output", part, ctypes.c_int(0), runtime.add(y)) == OK
    assert interface("start_metrics", part, ctypes.c_int(0)) == OK
    assert interface("invoke", part) == OK
    np.testing.assert_array_equal(y, np.maximum(x, 0) + x)
    metrics, count, metric = Pointer(), ctypes.c_int(), Metric()
    assert interface("stop_metrics", part, ctypes.byref(metrics)) == OK
    assert interface("get_num_metrics", metrics, ctypes.byref(count)) == OK
    found = {}
    for index in range(count.value):
        assert interface("get_metric", metrics, ctypes.c_int(index), ctypes.byref(metric)) == OK
        found[metric.name] = metric.number
    assert found[b"tpulayer_runs"] == 1 and found[b"tpulayer_bytes_in"] == found[b"tpulayer_bytes_out"] == 48
    assert found[b"tpulayer_commands"] > 0 and found[b"tpulayer_modelled_ns"] > 0
    assert interface("get_metric", metrics, count, ctypes.byref(metric)) == INDEX
    assert interface("destroy_metrics", metrics) == OK
    assert interface("invocation_destroy", part) == OK
    assert interface("device_destroy", device) == OK


def test_what_does_not_fit_is_refused(
    interface: Callable[..., int], program: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    runtime = Runtime()
    assert (
        interface("initialize", Pointer(ctypes.addressof(Runtime(64).table)), Pointer(), Pointer())
        == WRONG_VERSION
    )
    damaged = bytearray(program)
    damaged[-1] ^= 1
    for given, told in (
        ({"program": program[:100]}, "partition"),
        ({"program": bytes(damaged)}, "partition"),
        ({"program": program, "name": b"other"}, "other"),
        ({"program": program, "outputs": 2}, "has 1 inputs and 1 outputs, the model calls it with 1 and 2"),
    ):
        capfd.readouterr()
        status, part = _create(interface, runtime, **given)
        assert status != OK and not part.value
        assert told in capfd.readouterr().err
    status, part = _create(interface, runtime, program)
    assert status == OK
    assert interface("attach_input", part, ctypes.c_int(1), ctypes.c_uint64(1)) == INDEX
    assert interface("invoke", part) == BAD_ARGUMENT
    assert "a buffer is not attached" in capfd.readouterr().err
    small = runtime.add(np.zeros(11, np.float32))
    assert interface("attach_input", part, ctypes.c_int(0), small) == OK
    assert interface("invoke", part) == BAD_ARGUMENT
    assert "x has 48 bytes, the buffer 44" in capfd.readouterr().err
    assert interface("detach_input", part, ctypes.c_int(0), small) == OK
    assert interface("invocation_destroy", part) == OK
