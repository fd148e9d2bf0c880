"""The child process that holds libraries of own Caffe layers: loads them with ctypes and has layers added.

The structures mirror sdk/include/imp_bmnetu.h; a test compares sizes and offsets with the header.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.errors import TpulayerError, UsageError
from firmware_sim.processes.process_child import Handler, Link
from firmware_sim.wire import DType
from user_layers.caffe.layer import CaffeLayer
from user_layers.caffe.message import Message

VERSION = 1
MAX_DIMS = 8
INT, FLOAT, BOOL, STRING, ENUM = range(5)
_LEAST, _MOST = -(2**31), 2**31 - 1  # of an int
_STEP = re.compile(r"(\w+)(?:\[(\d+)\])?$")
_FAILED = -1


class TensorC(ctypes.Structure):
    """imp_bmnetu_tensor: a bottom, or a blob of weights."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dims", ctypes.c_uint32),
        ("shape", ctypes.c_int32 * MAX_DIMS),
        ("data", ctypes.c_void_p),
    )


class LayerC(ctypes.Structure):
    """imp_bmnetu_layer: what is known of a layer before its fields are read."""

    _fields_ = (
        ("type", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("bottom_num", ctypes.c_uint32),
        ("top_num", ctypes.c_uint32),
        ("weight_num", ctypes.c_uint32),
        ("weights_read", ctypes.c_int32),
        ("bottoms", ctypes.POINTER(TensorC)),
        ("tops", ctypes.POINTER(ctypes.c_char_p)),
        ("weights", ctypes.POINTER(TensorC)),
    )


class ValueC(ctypes.Structure):
    """imp_bmnetu_value: of a field."""

    _fields_ = (("integer", ctypes.c_int64), ("real", ctypes.c_double), ("text", ctypes.c_char_p))


_TEXTS = ctypes.POINTER(ctypes.c_char_p)
_INTS = ctypes.POINTER(ctypes.c_int32)
_SHAPES = ctypes.POINTER(_INTS)


class CallC(ctypes.Structure):
    """imp_bmnetu_call: the arguments of add_tpu_layer."""

    _fields_ = (
        ("input_num", ctypes.c_int32),
        ("input_names", _TEXTS),
        ("input_shapes", _SHAPES),
        ("input_dims", _INTS),
        ("input_dtypes", _INTS),
        ("output_num", ctypes.c_int32),
        ("output_names", _TEXTS),
        ("output_shapes", _SHAPES),
        ("output_dims", _INTS),
        ("output_dtypes", _INTS),
        ("op_type", ctypes.c_int32),
        ("param_size", ctypes.c_int32),
        ("layer_param", ctypes.c_void_p),
    )


_COUNT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)
_VALUE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_char_p,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.POINTER(ValueC),
)
_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
_CONST = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, _INTS, ctypes.c_void_p
)
_ADD = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(CallC))


class HostC(ctypes.Structure):
    """imp_bmnetu_host: what a library may call."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("count", _COUNT),
        ("value", _VALUE),
        ("error", _ERROR),
        ("add_const", _CONST),
        ("add_tpu_layer", _ADD),
    )


class Library:
    """One loaded library. UsageError for another file, or another version of the header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        again = "build it again: make && make install in imp_bmnetu"
        try:
            self.lib = ctypes.CDLL(str(path))
            found = self.lib.imp_bmnetu_version()
        except OSError as error:
            raise UsageError(f"{path}: cannot be loaded ({error})", hint=again) from None
        except AttributeError as error:
            raise UsageError(f"{path}: no library of Caffe layers ({error})", hint=again) from None
        if found != VERSION:
            raise UsageError(
                f"{path}: made with version {found} of imp_bmnetu.h, this toolkit has version {VERSION}",
                hint=again,
            )
        self.lib.imp_bmnetu_type.restype = self.lib.imp_bmnetu_place.restype = ctypes.c_char_p
        self.lib.imp_bmnetu_add.restype = None
        self.lib.imp_bmnetu_add.argtypes = [
            ctypes.c_int32,
            ctypes.POINTER(LayerC),
            ctypes.POINTER(HostC),
        ]

    def types(self) -> list[tuple[str, str]]:
        """The type of each entry, and where it is registered."""
        lib = self.lib
        return [
            (lib.imp_bmnetu_type(i).decode(), lib.imp_bmnetu_place(i).decode())
            for i in range(lib.imp_bmnetu_count())
        ]


class Adding:
    """One layer while its library adds it: answers what it asks, and keeps what it adds."""

    def __init__(self, layer: CaffeLayer) -> None:
        self.layer = layer
        self.added: list[dict[str, Any]] = []
        self.data: list[bytes] = []
        self.failed: TpulayerError | None = None
        self._alive: list[bytes] = []  # texts that the library was given

    def host(self) -> HostC:
        """The functions for the library; they raise nothing."""
        return HostC(
            None,
            _COUNT(self._guarded(lambda _, path: self._count(path.decode()))),
            _VALUE(self._guarded(self._value)),
            _ERROR(lambda _, text: self._fail(self.layer.error(text.decode("utf-8", "replace")))),
            _CONST(self._guarded(self._const)),
            _ADD(self._guarded(self._add)),
        )

    def _guarded(self, function: Callable[..., int]) -> Callable[..., int]:
        def call(*args: Any) -> int:
            try:
                return function(*args)
            except TpulayerError as error:
                self._fail(error)
            except ValueError as error:  # a text that is not UTF-8, a code that is no DATA_TYPE_T
                self._fail(self.layer.error(str(error)))
            return _FAILED

        return call

    def _fail(self, error: TpulayerError) -> None:
        self.failed = self.failed or error

    def _find(self, path: str) -> tuple[Message, str]:
        """The message that holds a field, and the field's name."""
        message: Message = self.layer
        *outer, last = path.split(".")
        for step in outer:
            match = _STEP.match(step)
            if match is None:
                raise self.layer.error(f"{path!r} is not the path of a field", "for example crop_param.top")
            name, index = match[1], match[2]
            if index is None:
                message = message.message(name)
                continue
            found = message.messages(name)
            if int(index) >= len(found):
                raise self.layer.error(f"{path}: there is no {name}[{index}], only {len(found)} of them")
            message = found[int(index)]
        return message, last

    def _count(self, path: str) -> int:
        message, name = self._find(path)
        return message.count(name)

    def _value(self, _: Any, kind: int, path: bytes, index: int, required: int, out: Any) -> int:
        message, name = self._find(path.decode())
        if not message.has(name) and not required:
            return 0
        value = out.contents
        if kind == INT:
            if index >= 0:
                value.integer = message.integers(name, least=_LEAST, most=_MOST)[index]
            else:
                value.integer = message.integer(name, least=_LEAST, most=_MOST)
        elif kind == FLOAT:
            value.real = message.numbers(name)[index] if index >= 0 else message.number(name)
        elif kind == BOOL:
            value.integer = message.flag(name)
        elif kind == STRING:
            text = message.texts(name)[index] if index >= 0 else message.text(name)
            self._alive.append(text.encode())
            value.text = self._alive[-1]
        else:
            value.integer = message.choice(name, value.text.decode().split(","))
        return 1

    def _const(self, _: Any, name: bytes, dims: int, shape: Any, data: int | None) -> int:
        what = f"add_const {name.decode()!r}"
        if not 1 <= dims <= MAX_DIMS:
            raise self.layer.error(f"{what}: a shape with {dims} extents; it has 1 to {MAX_DIMS}")
        extents = shape[:dims]
        if min(extents) < 1 or data is None:
            raise self.layer.error(f"{what}: the shape {extents} has no elements, or there are none")
        size = 4 * int(np.prod(extents, dtype=np.int64))
        self._keep({"const": name.decode(), "shape": extents}, ctypes.string_at(data, size))
        return 0

    def _add(self, _: Any, pointer: Any) -> int:
        call = pointer.contents
        inputs = _texts(call.input_names, call.input_num)
        outputs = _texts(call.output_names, call.output_num)
        shapes = _shapes(call.input_shapes, call.input_dims, len(inputs))
        known = dict(zip(self.layer.bottoms, self.layer.shapes, strict=True))
        for name, shape in zip(inputs, shapes or (), strict=False):
            if name in known and list(known[name]) != shape:
                raise self.layer.error(
                    f"add_tpu_layer: input {name!r} is given as {shape}; it is {list(known[name])}"
                )
        codes = call.input_dtypes[: len(inputs)] if call.input_dtypes else ()
        for name, code in zip(inputs, codes, strict=False):
            if name in known and code != DType.FP32:
                raise self.layer.error(f"add_tpu_layer: input {name!r} is given as {DType(code).numpy_name}")
        dtypes = None
        if call.output_dtypes:
            dtypes = [DType(code).numpy_name for code in call.output_dtypes[: len(outputs)]]
        row = {
            "op_type": call.op_type,
            "inputs": inputs,
            "output_names": outputs,
            "output_shapes": _shapes(call.output_shapes, call.output_dims, len(outputs)),
            "output_dtypes": dtypes,
        }
        size = call.param_size
        if size < 0 or (size > 0 and not call.layer_param):
            raise self.layer.error(f"add_tpu_layer: layer_param is null, or param_size is {size}")
        self._keep(row, ctypes.string_at(call.layer_param, size) if size else b"")
        return 0

    def _keep(self, row: dict[str, Any], data: bytes) -> None:
        self.added.append({**row, "size": len(data)})
        self.data.append(data)


def _texts(names: Any, number: int) -> list[str]:
    return [text.decode() for text in names[:number]] if names and number > 0 else []


def _shapes(shapes: Any, dims: Any, number: int) -> list[list[int]] | None:
    """None where either is null."""
    if not shapes or not dims:
        return None
    return [shapes[i][: dims[i]] for i in range(number)]


def _tensors(names: Sequence[str], shapes: Sequence[Sequence[int]], arrays: Sequence[Any] = ()) -> Any:
    made = (TensorC * max(len(names), 1))()
    for i, (name, shape) in enumerate(zip(names, shapes, strict=True)):
        made[i].name = name.encode()
        made[i].dims = len(shape)
        made[i].shape[: len(shape)] = shape
        if arrays:
            made[i].data = arrays[i].ctypes.data
    return made


class Libraries:
    """All libraries of one child."""

    def __init__(self, paths: Sequence[str], link: Link) -> None:
        self._link = link
        self._entries: list[tuple[Library, int, str, str]] = []
        for path in paths:
            link.activity = f"{path}, while it was loaded,"
            library = Library(Path(path))
            self._entries += [(library, i, t, place) for i, (t, place) in enumerate(library.types())]

    def types(self) -> list[tuple[str, str, str]]:
        """Type, library and place of each."""
        return [(type, str(library.path), place) for library, _, type, place in self._entries]

    def add(self, request: dict[str, Any], payload: bytes) -> tuple[dict[str, object], bytes]:
        """Have a library add a layer: what it adds, in order; the payload holds constants and parameters."""
        type = request["type"]
        library, index, place = next((x, i, place) for x, i, known, place in self._entries if known == type)
        weights, at = [], 0
        for shape in request["weights"]:
            size = 4 * int(np.prod(shape, dtype=np.int64))
            weights.append(np.frombuffer(payload[at : at + size], np.float32).reshape(shape))
            at += size
        bottoms, tops, shapes = request["bottoms"], request["tops"], request["shapes"]
        layer = CaffeLayer(
            type, request["name"], bottoms, tops, shapes, request["fields"], weights, request["where"]
        )
        given = LayerC(
            type.encode(), request["name"].encode(), len(bottoms), len(tops), len(weights), 0,
            _tensors(bottoms, shapes),
            (ctypes.c_char_p * max(len(tops), 1))(*(top.encode() for top in tops)),
            _tensors([f"blob{i}" for i in range(len(weights))], request["weights"], weights),
        )  # fmt: skip
        adding = Adding(layer)
        self._link.activity = f"{layer.error('').message}{place}: its add()"
        library.lib.imp_bmnetu_add(index, ctypes.byref(given), ctypes.byref(adding.host()))
        if adding.failed is not None:
            raise adding.failed
        if given.weights_read:
            layer.expect(weights=len(weights))
        layer.check_read(place)
        return {"added": adding.added}, b"".join(adding.data)


def start(args: list[str], fds: list[int], link: Link) -> Handler:
    """Load the libraries that `args` names and answer requests."""
    libraries = Libraries(args, link)

    def handle(header: dict[str, object], payload: bytes) -> tuple[dict[str, object], bytes]:
        if header["op"] == "types":
            return {"types": libraries.types()}, b""
        return libraries.add(header, payload)

    return handle
