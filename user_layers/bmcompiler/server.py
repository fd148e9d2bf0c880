"""The process behind libbmcompiler.so: one BMCompiler, and the calls that the library sends.

Started by it (sdk/host/bmcompiler.c) over the connection of firmware_sim.device.host_server. A call is the
function's name and its arguments, read by the same table that the library was made from.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any

import user_layers.bmcompiler  # noqa: F401  (fills the table)
from firmware_sim.device.host_server import main as serve
from firmware_sim.errors import TpulayerError, UsageError
from firmware_sim.firmware.workspace_root import is_workspace
from user_layers.bmcompiler.calls import (
    BOOL,
    FLOAT,
    FUNCTIONS,
    HANDLE,
    INT,
    TEXT,
    Arrays,
    Bytes,
    Floats,
    Ints,
    Parameter,
    Shapes,
    Texts,
    Unread,
)
from user_layers.bmcompiler.session import BMCompiler
from user_layers.net.nodes import CALLER
from user_layers.toolkit import Toolkit
from user_layers.workspace import WORKSPACE_VARIABLE, Workspace

_LIBRARY, _CALL, _TENSOR_BYTES, _MADE_DIMS, _GIVEN_SHAPES = range(64, 69)
_NO_ARRAY = 0xFFFF_FFFF


class _Reader:
    """The parts of a message, in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> Any:
        value = struct.unpack_from(f"<{code}", self._data, self._at)[0]
        self._at += 4
        return value

    def bytes(self, width: int = 1) -> bytes | None:
        count = self.number("I")
        if count == _NO_ARRAY:
            return None
        begin = self._at
        self._at += count * width
        return self._data[begin : self._at]

    def text(self) -> str | None:
        data = self.bytes()
        return None if data is None else data.decode(errors="replace")

    def ints(self) -> list[int] | None:
        data = self.bytes(4)
        return None if data is None else list(struct.unpack(f"<{len(data) // 4}i", data))

    def several(self, part: Any) -> list[Any] | None:
        count = self.number("I")
        return None if count == _NO_ARRAY else [part() for _ in range(count)]


class _Server:
    """Answers the requests of one p_bmcpl."""

    def __init__(self, number: int) -> None:
        self._toolkit: Toolkit | None = None
        self._compiler: BMCompiler | None = None
        self._calls = 0

    def answer(self, op: int, text: str, a: int, b: int, c: int, data: bytes) -> tuple[int, bytes] | None:
        """(value, data) of the reply."""
        if op == _LIBRARY:
            self._toolkit = Toolkit(_workspace(Path(text)))
        elif op == _TENSOR_BYTES:
            return self._bytes(text), b""
        elif op == _CALL:
            return self._call(text, _Reader(data))
        elif op in (_MADE_DIMS, _GIVEN_SHAPES):
            try:
                return 0, self._made(_Reader(data) if op == _GIVEN_SHAPES else None)
            except TpulayerError as error:
                error.message = f"{text}: {error.message}"
                raise
        else:
            raise UsageError(f"unknown request {op} from libbmcompiler.so")
        return 0, b""

    def executed(self) -> tuple[int, int]:
        """Nothing: its library does not ask for it."""
        return 0, 0

    def _call(self, name: str, reader: _Reader) -> tuple[int, bytes]:
        function = FUNCTIONS[name]
        self._calls += 1
        CALLER.set(f"{name}, call {self._calls}")
        arguments: dict[str, Any] = {}
        for parameter in function.parameters:
            if parameter.kind == HANDLE:
                arguments[parameter.name] = self._compiler
            else:
                arguments[parameter.name] = self._argument(parameter, reader, arguments)
        if function.result == HANDLE:
            self._compiler = function.call(**arguments, toolkit=self._toolkit)
            return 0, b""
        result = function.call(**arguments)
        if isinstance(result, int):
            return result & 0xFFFF_FFFF_FFFF_FFFF, b""  # an int in C
        return 0, result or b""

    def _argument(self, parameter: Parameter, reader: _Reader, before: dict[str, Any]) -> Any:
        import numpy as np

        kind = parameter.kind
        if kind in (INT, BOOL):
            return reader.number("i")
        if kind == FLOAT:
            return reader.number("f")
        if kind == TEXT:
            return reader.text()
        if isinstance(kind, Ints):
            return reader.ints()
        if isinstance(kind, Texts):
            return reader.several(reader.text)
        if isinstance(kind, Shapes):
            return reader.several(reader.ints)
        if isinstance(kind, Bytes):
            return reader.bytes()
        if isinstance(kind, Floats):
            data = reader.bytes(4)
            return None if data is None else np.frombuffer(data, "<f4")
        if isinstance(kind, Arrays):
            names, arrays = before[kind.names], reader.several(reader.bytes)
            if names is None or arrays is None:
                return None
            return [self._array(name, array) for name, array in zip(names, arrays, strict=True)]
        assert isinstance(kind, Unread)
        return None

    def _made(self, reader: _Reader | None) -> bytes:
        """Of the layer added last: its outputs' numbers of dimensions, or (reader) what they are given."""
        assert self._compiler is not None
        if reader is None:
            dims = self._compiler.made_dims()
            return struct.pack(f"<{len(dims)}i", *dims)
        shapes = reader.several(reader.ints) or []
        if None in shapes:
            raise UsageError(f"output_shapes[{shapes.index(None)}] is missing (NULL)")
        self._compiler.give_shapes(shapes)
        return b""

    def _tensor(self, name: str) -> Any:
        assert self._compiler is not None  # the library makes the compiler first
        return self._compiler.tensor(name)

    def _bytes(self, name: str) -> int:
        shape, dtype = self._tensor(name)
        return int(math.prod(shape) * dtype.itemsize)

    def _array(self, name: str | None, data: bytes | None) -> Any:
        import numpy as np

        if name is None or data is None:
            raise UsageError(f"the {'name' if name is None else 'data'} of a tensor is missing (NULL)")
        shape, dtype = self._tensor(name)
        return np.frombuffer(data, dtype.numpy_name).reshape(shape)


def _workspace(library: Path) -> Workspace | None:
    """The workspace that the library is installed in; None leaves it to Workspace.find."""
    folder = library.resolve().parent
    if not os.environ.get(WORKSPACE_VARIABLE) and folder.parent.name == "install":
        root = folder.parents[1]
        if is_workspace(root):
            return Workspace(root)
    return None


def main() -> None:
    """Arguments as firmware_sim.device.host_server has them."""
    serve(lambda number, _: _Server(number))
