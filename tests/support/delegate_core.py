"""libtpulayer_delegate.so for tests, through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from user_layers.delegates.counters import Counters
from user_layers.delegates.program import DTYPES
from user_layers.spelling.foreign import Array

OK, BAD_ARGUMENT, BAD_PROGRAM, NO_DEVICE, FAILED, BAD_SHAPES = range(6)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 128),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 8),
        ("bytes", ctypes.c_uint64),
    ]


class _Layer(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("cycles", ctypes.c_uint64),
        ("operations", ctypes.POINTER(ctypes.c_uint32)),
        ("operation_num", ctypes.c_uint32),
    ]


class CoreError(Exception):
    """A status that is not TPLD_OK."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Core:
    """The library."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        for name in ("tpld_last_error", "tpld_version", "tpld_status_text", "tpld_name"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        for name in (
            "tpld_destroy",
            "tpld_input_num",
            "tpld_output_num",
            "tpld_layer_num",
            "tpld_is_dynamic",
        ):
            getattr(self.lib, name).argtypes = [ctypes.c_void_p]
        self.lib.tpld_destroy.restype = None
        self.lib.tpld_name.argtypes = [ctypes.c_void_p]

    def check(self, status: int) -> None:
        """Raise CoreError with the library's text."""
        if status != OK:
            raise CoreError(status, self.lib.tpld_last_error().decode())

    def load(self, program: bytes, name: str | None = None, dev_id: int = 0) -> Loaded:
        """A partition on a device."""
        made = ctypes.c_void_p()
        room = ctypes.create_string_buffer(program, len(program))
        size = ctypes.c_size_t(len(program))
        text = None if name is None else name.encode()
        self.check(self.lib.tpld_load(dev_id, room, size, text, ctypes.byref(made)))
        ctypes.memset(room, 0xEE, len(program))  # the library has a copy
        return Loaded(self, made)

    def counters(self, partition: ctypes.c_void_p | None = None) -> Counters:
        """Of a partition, or of all devices."""
        found = Counters()
        self.check(self.lib.tpld_counters(partition, ctypes.byref(found)))
        return found


class Loaded:
    """A partition; a context manager that destroys it."""

    def __init__(self, core: Core, handle: ctypes.c_void_p) -> None:
        self.core, self.handle = core, handle

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Once."""
        self.core.lib.tpld_destroy(self.handle)

    def tensors(self, kind: str) -> list[tuple[str, tuple[int, ...], np.dtype[Any]]]:
        """Name, shape and type of each `input` or `output`."""
        lib, found = self.core.lib, []
        for index in range(getattr(lib, f"tpld_{kind}_num")(self.handle)):
            one = _Tensor()
            self.core.check(getattr(lib, f"tpld_{kind}")(self.handle, index, ctypes.byref(one)))
            shape, dtype = tuple(one.shape[: one.rank]), DTYPES[one.dtype]
            assert one.bytes == int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            found.append((one.name.decode(), shape, dtype))
        return found

    def run(self, *inputs: Array) -> list[Array]:
        """Execute on arrays; new arrays of the outputs."""
        fed = [
            np.ascontiguousarray(array, dtype)
            for array, (_, _, dtype) in zip(inputs, self.tensors("input"), strict=True)
        ]
        made = [np.full(shape, 77, dtype) for _, shape, dtype in self.tensors("output")]
        self.execute(fed, made)
        return made

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """The call itself."""
        lists = [
            (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
            for arrays in (inputs, outputs)
        ]
        self.core.check(self.core.lib.tpld_execute(self.handle, *lists))

    def resize(self, *shapes: Sequence[int]) -> None:
        """Shapes of all inputs."""
        rows = [(ctypes.c_int64 * max(len(shape), 1))(*shape) for shape in shapes]
        pointers = (ctypes.c_void_p * len(rows))(*(ctypes.addressof(row) for row in rows))
        ranks = (ctypes.c_int * len(rows))(*map(len, shapes))
        self.core.check(self.core.lib.tpld_resize(self.handle, pointers, ranks))

    def layers(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """Name, cycles and operations of each layer."""
        lib, found = self.core.lib, []
        for index in range(lib.tpld_layer_num(self.handle)):
            one = _Layer()
            self.core.check(lib.tpld_layer(self.handle, index, ctypes.byref(one)))
            found.append((one.name.decode(), one.cycles, tuple(one.operations[: one.operation_num])))
        return found

    @property
    def counters(self) -> Counters:
        """Of this partition."""
        return self.core.counters(self.handle)
