"""The child process that holds plugins: loads them with ctypes and answers requests.

The structures mirror sdk/include/bmplugin_abi.h; a test compares sizes and offsets with the header.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmware_sim.errors import CompileError, UsageError
from firmware_sim.processes.process_child import Handler, Link
from user_layers.plugin.methods import BY_NAME, METHODS

ABI_VERSION = 8
OLDEST_ABI_VERSION = 1  # whose descriptors prepare no constants
_SINCE = {
    BY_NAME["is_concat_layer"].number: 3,
    BY_NAME["accepts_larger_tiles"].number: 4,
    BY_NAME["prepared_with"].number: 5,
    BY_NAME["input_dtype"].number: 7,
    BY_NAME["input_store_mode"].number: 7,
    BY_NAME["each_row_alone"].number: 8,
}
"""Methods by number: the first version that has them."""
_WITHOUT_ARGUMENT = {
    BY_NAME[f"backward_{name}"].number for name in ("kh", "stride_h", "up_pad_h", "down_pad_h")
}
"""Methods by number that take no argument before version 6: they describe the layer's own window."""
MAX_DIMS = 8
MAX_TENSORS = 16
HAS_LOCAL = 1
_NAME_BYTES = 256
_LIBC = ctypes.CDLL(None)
_NAMES = {m.number: m.name for m in METHODS}


class Layer(ctypes.Structure):
    """bmplugin_layer of bmplugin_abi.h: one row of the plugin's table."""

    _fields_ = (
        ("op_type", ctypes.c_int32),
        ("param_size", ctypes.c_uint32),
        ("param_hash", ctypes.c_uint64),
        ("op_name", ctypes.c_char_p),
        ("descriptor", ctypes.c_char_p),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class Tensor(ctypes.Structure):
    """bmplugin_tensor of bmplugin_abi.h: an input or output, shape in elements."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dims", ctypes.c_uint32),
        ("shape", ctypes.c_int32 * MAX_DIMS),
        ("dtype", ctypes.c_int32),
        ("ttype", ctypes.c_int32),
    )


class Format(ctypes.Structure):
    """bmplugin_format of bmplugin_abi.h: what a tensor has beside its type."""

    _fields_ = (("store_mode", ctypes.c_int32), ("scale", ctypes.c_float))


class Node(ctypes.Structure):
    """bmplugin_node of bmplugin_abi.h: what a descriptor is made for."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("op_type", ctypes.c_int32),
        ("param_size", ctypes.c_uint32),
        ("param", ctypes.c_char_p),
        ("input_num", ctypes.c_uint32),
        ("output_num", ctypes.c_uint32),
        ("inputs", Tensor * MAX_TENSORS),
        ("outputs", Tensor * MAX_TENSORS),
        ("input_formats", Format * MAX_TENSORS),
        ("output_formats", Format * MAX_TENSORS),
    )


class Plugin:
    """One loaded plugin."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.lib = ctypes.CDLL(str(path))
        except OSError as e:
            raise UsageError(
                f"{path}: cannot be loaded ({e})", hint="build it for this machine: `tpulayer rebuild_layers`"
            ) from None
        try:
            self._declare()
        except AttributeError as e:
            raise UsageError(
                f"{path}: no TPU-layer plugin ({e})", hint="build it with `tpulayer build_layers`"
            ) from None

    def _declare(self) -> None:
        lib = self.lib
        version = lib.bmplugin_abi_version
        version.restype = ctypes.c_int32
        found = version()
        if not OLDEST_ABI_VERSION <= found <= ABI_VERSION:
            raise UsageError(
                f"{self.path}: made for version {found} of the plugin interface, this toolkit has versions "
                f"{OLDEST_ABI_VERSION} to {ABI_VERSION}",
                hint="build it again with `tpulayer rebuild_layers`",
            )
        lib.bmplugin_layer_count.restype = ctypes.c_int32
        lib.bmplugin_layer_at.restype = ctypes.c_int32
        lib.bmplugin_layer_at.argtypes = [ctypes.c_int32, ctypes.POINTER(Layer)]
        lib.bmplugin_create.restype = ctypes.c_void_p
        lib.bmplugin_create.argtypes = [ctypes.POINTER(Node)]
        lib.bmplugin_name.restype = ctypes.c_int32
        lib.bmplugin_name.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32]
        lib.bmplugin_call.restype = ctypes.c_int32
        lib.bmplugin_call.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int32,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_uint32,
            ctypes.POINTER(ctypes.c_int64),
        ]
        lib.bmplugin_error.restype = ctypes.c_char_p
        self.version = found
        self.prepares = found >= 2
        if self.prepares:
            int_p = ctypes.POINTER(ctypes.c_int32)
            lib.bmplugin_prepared.restype = lib.bmplugin_prepare.restype = ctypes.c_int32
            lib.bmplugin_prepared.argtypes = [
                ctypes.c_void_p,
                ctypes.c_int32,
                ctypes.POINTER(ctypes.c_uint32),
                int_p,
                int_p,
            ]
            if found >= _SINCE[BY_NAME["prepared_with"].number]:
                lib.bmplugin_constant.restype = ctypes.c_int32
                lib.bmplugin_constant.argtypes = [
                    ctypes.c_void_p,
                    ctypes.c_int32,
                    ctypes.c_void_p,
                    ctypes.c_uint64,
                ]
            lib.bmplugin_prepare.argtypes = [
                ctypes.c_void_p,
                ctypes.c_int32,
                ctypes.c_void_p,
                ctypes.c_uint64,
                ctypes.c_void_p,
                ctypes.c_uint64,
            ]

    def error(self) -> str:
        """Why the newest call into this plugin failed, in its own words."""
        text = self.lib.bmplugin_error()
        return text.decode("utf-8", "replace") if text else "no reason given"

    def layers(self) -> list[Layer]:
        """All layers in the order of the plugin's table. UsageError for one that it does not give."""
        found = []
        for i in range(self.lib.bmplugin_layer_count()):
            layer = Layer()
            if self.lib.bmplugin_layer_at(i, ctypes.byref(layer)) < 0:
                raise UsageError(f"{self.path}: layer {i} cannot be read: {self.error()}")
            found.append(layer)
        return found


@dataclass
class Bound:
    """A descriptor in a plugin, and how messages call it."""

    plugin: Plugin
    handle: int
    label: str


class Host:
    """All plugins of one child, and the descriptors made so far (they live as long as the child)."""

    def __init__(self, paths: Sequence[str], link: Link) -> None:
        self._link = link
        self._plugins: dict[int, tuple[Plugin, Layer]] = {}
        self._bound: list[Bound] = []
        for path in paths:
            link.activity = f"plugin {path}, while it was loaded,"
            plugin = Plugin(Path(path))
            for layer in plugin.layers():
                if layer.op_type in self._plugins:
                    other, known = self._plugins[layer.op_type]
                    raise UsageError(
                        f"op_type {layer.op_type} is {known.op_name.decode()} in {other.path} and "
                        f"{layer.op_name.decode()} in {plugin.path}",
                        hint="load one plugin with user layers only",
                    )
                self._plugins[layer.op_type] = (plugin, layer)

    def layers(self) -> list[dict[str, Any]]:
        """What client.PluginLayer holds, as JSON, for all layers of all plugins by ascending op_type."""
        return [
            {
                "op_name": x.op_name.decode(),
                "op_type": x.op_type,
                "param_size": x.param_size,
                "param_hash": x.param_hash,
                "descriptor": x.descriptor.decode(),
                "path": str(plugin.path),
                "has_local": bool(x.flags & HAS_LOCAL),
            }
            for _, (plugin, x) in sorted(self._plugins.items())
        ]

    def create(self, request: dict[str, Any], param: bytes) -> dict[str, object]:
        """Make a node's descriptor: {name, op_type, inputs, outputs}; param: its parameter struct.

        Returns {handle, name}. CompileError when the constructor or get_name throws.
        """
        plugin, layer = self._plugins[request["op_type"]]
        label = f"layer {request['name']} ({layer.op_name.decode()}): {layer.descriptor.decode()}"
        node = Node(
            name=request["name"].encode(), op_type=request["op_type"], param_size=len(param), param=param
        )
        node.input_num = _fill(node.inputs, node.input_formats, request["inputs"])
        node.output_num = _fill(node.outputs, node.output_formats, request["outputs"])
        self._link.activity = f"{label}, its constructor,"
        handle = plugin.lib.bmplugin_create(ctypes.byref(node))
        if not handle:
            raise CompileError(f"{label} cannot be made: {plugin.error()}")
        self._link.activity = f"{label}::get_name"
        text = ctypes.create_string_buffer(_NAME_BYTES)
        if plugin.lib.bmplugin_name(handle, text, _NAME_BYTES) < 0:
            raise CompileError(f"{label}::get_name failed: {plugin.error()}")
        self._bound.append(Bound(plugin, handle, label))
        return {"handle": len(self._bound) - 1, "name": text.value.decode("utf-8", "replace")}

    def call(self, request: dict[str, Any]) -> dict[str, object]:
        """Virtual methods, in turn: {handle, calls}, each of these [method, args]; method by its number.
        Returns {results}, ints.

        A plugin of an older interface that lacks the method answers 0 (DTYPE_FP32, STORE_MODE_1N), or what
        goes in for prepared_with.
        CompileError when the method throws.
        """
        bound = self._bound[request["handle"]]
        return {"results": [self._call(bound, method, args) for method, args in request["calls"]]}

    def _call(self, bound: Bound, method: int, args: list[int]) -> int:
        if bound.plugin.version < _SINCE.get(method, 1):
            return args[0] if _NAMES[method] == "prepared_with" else 0
        if bound.plugin.version < 6 and method in _WITHOUT_ARGUMENT:
            args = []
        what = f"{bound.label}::{_NAMES[method]}({', '.join(map(str, args))})"
        self._link.activity = what
        values = (ctypes.c_int64 * len(args))(*args)
        result = ctypes.c_int64()
        lib = bound.plugin.lib
        if lib.bmplugin_call(bound.handle, method, values, len(args), ctypes.byref(result)) < 0:
            raise CompileError(f"{what} failed: {bound.plugin.error()}")
        return result.value

    def prepared(self, request: dict[str, Any]) -> dict[str, object]:
        """prepared_shape and prepared_dtype of {handle, input}, as {shape, dtype}.

        The shape is empty where nothing is prepared. CompileError when one of them throws.
        """
        bound, index = self._bound[request["handle"]], request["input"]
        if not bound.plugin.prepares:
            return {"shape": []}
        what = self._link.activity = f"{bound.label}::prepared_shape({index})"
        dims, dtype = ctypes.c_uint32(), ctypes.c_int32()
        shape = (ctypes.c_int32 * MAX_DIMS)()
        lib = bound.plugin.lib
        if lib.bmplugin_prepared(bound.handle, index, ctypes.byref(dims), shape, ctypes.byref(dtype)) < 0:
            raise CompileError(f"{what} failed: {bound.plugin.error()}")
        return {"shape": list(shape[: dims.value]), "dtype": dtype.value}

    def prepare(self, request: dict[str, Any], payload: bytes) -> bytes:
        """payload: the constant, then the others that it takes in; `sizes` says which and how long."""
        bound, index, size = self._bound[request["handle"]], request["input"], request["bytes"]
        what = self._link.activity = f"{bound.label}::prepare({index})"
        lib = bound.plugin.lib

        def check(status: int) -> None:
            if status < 0:
                raise CompileError(f"{what} failed: {bound.plugin.error()}")

        given = ctypes.cast(ctypes.c_char_p(payload), ctypes.c_void_p).value or 0
        with Guarded(size) as target:
            # A constant may be most of a net: what was given ends before the result is copied.
            with contextlib.ExitStack() as sources:
                first, start = None, 0
                for which, length in request["sizes"]:
                    source = sources.enter_context(Guarded(length))
                    ctypes.memmove(source.address, given + start, length)
                    start += length
                    if first is None:
                        first = source.address, length
                    else:
                        check(lib.bmplugin_constant(bound.handle, which, source.address, length))
                assert first is not None
                check(lib.bmplugin_prepare(bound.handle, index, *first, target.address, size))
            return ctypes.string_at(target.address, size)


class Guarded:
    """`size` zeroed bytes that end where an inaccessible page begins: a method that goes beyond them crashes
    here and now. A context manager."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        room = -(-size // page) * page
        self._map = mmap.mmap(-1, room + page)
        self._anchor: Any = ctypes.c_char.from_buffer(self._map)
        start = ctypes.addressof(self._anchor)
        if _LIBC.mprotect(ctypes.c_void_p(start + room), ctypes.c_size_t(page), 0) != 0:
            raise UsageError(f"no memory of {size} bytes for a constant")
        self.address = start + room - size

    def __enter__(self) -> Guarded:
        return self

    def __exit__(self, *_: object) -> None:
        self._anchor = None
        self._map.close()


def _fill(target: Any, formats: Any, tensors: list[list[Any]]) -> int:
    for i, (name, shape, dtype, ttype, store_mode, scale) in enumerate(tensors):
        target[i].name = name.encode()
        target[i].dims = len(shape)
        target[i].shape[: len(shape)] = shape
        target[i].dtype, target[i].ttype = dtype, ttype
        formats[i].store_mode, formats[i].scale = store_mode, scale
    return len(tensors)


def start(args: list[str], fds: list[int], link: Link) -> Handler:
    """Load the plugins that `args` names and answer requests."""
    host = Host(args, link)

    def handle(header: dict[str, object], payload: bytes) -> tuple[dict[str, object], bytes]:
        operation = header["op"]
        if operation == "layers":
            return {"layers": host.layers()}, b""
        if operation == "create":
            return host.create(header, payload), b""
        if operation == "prepared":
            return host.prepared(header), b""
        if operation == "prepare":
            return {}, host.prepare(header, payload)
        return host.call(header), b""

    return handle
