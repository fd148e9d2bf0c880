"""LiteRT's C interface, of the library in its wheel: what its Python interface does not give."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from user_layers.delegates.litert import litert_libraries
from user_layers.spelling.foreign import Array

CPU, NPU = 1, 4
_HOST, _READ, _WRITE, _TEXT, _FLOAT32 = 1, 0, 1, 8, 1
Handle = ctypes.c_void_p


class Ranked(ctypes.Structure):
    """A tensor's type of elements and extents."""

    _fields_ = [
        ("element", ctypes.c_int),
        ("rank", ctypes.c_uint32),
        ("dims", ctypes.c_int32 * 8),
        ("strides", ctypes.c_uint32 * 8),
    ]


class Any_(ctypes.Structure):
    """A value of several types; here a text or a whole number."""

    _fields_ = [("type", ctypes.c_int), ("value", ctypes.c_int64)]


class Option(ctypes.Structure):
    """An option of an environment."""

    _fields_ = [("tag", ctypes.c_int), ("value", Any_)]


class Metric(ctypes.Structure):
    """What LiteRT tells of a run."""

    _fields_ = [("name", ctypes.c_char_p), ("value", Any_)]


class CError(Exception):
    """A status that is not 0."""


class CModel:
    """A model on NPU | CPU. told: the text of opaque options called "tpulayer"."""

    def __init__(self, path: Path, told: str = "", accelerators: int = CPU | NPU) -> None:
        import ai_edge_litert

        os.environ.setdefault("TPULAYER_PYTHON", sys.executable)  # of the compiler's process
        self._c = ctypes.CDLL(str(Path(next(iter(ai_edge_litert.__path__)), "libLiteRt.so")))
        self._kept = [ctypes.create_string_buffer(text.encode()) for text in (str(litert_libraries()), told)]
        folder = ctypes.addressof(self._kept[0])
        options = (Option * 2)(*(Option(tag, Any_(_TEXT, folder)) for tag in (0, 1)))
        self.environment, self.model, self.compiled, self.options = (Handle() for _ in range(4))
        self.call("LiteRtCreateEnvironment", 2, options, ctypes.byref(self.environment))
        self.call("LiteRtCreateModelFromFile", self.environment, str(path).encode(), ctypes.byref(self.model))
        self.call("LiteRtCreateOptions", ctypes.byref(self.options))
        self.call("LiteRtSetOptionsHardwareAccelerators", self.options, accelerators)
        if told:
            opaque = Handle()
            self._free = ctypes.CFUNCTYPE(None, Handle)(lambda data: None)
            data = Handle(ctypes.addressof(self._kept[1]))
            self.call("LiteRtCreateOpaqueOptions", b"tpulayer", data, self._free, ctypes.byref(opaque))
            self.call("LiteRtAddOpaqueOptions", self.options, opaque)
        self.call(
            "LiteRtCreateCompiledModel",
            self.environment,
            self.model,
            self.options,
            ctypes.byref(self.compiled),
        )

    def call(self, name: str, *words: Any) -> None:
        """Call a function. Raises CError."""
        status = getattr(self._c, name)(*words)
        if status:
            raise CError(f"{name}: status {status}")

    def run(self, x: Array, shape: tuple[int, ...], *, background: bool = False) -> tuple[Array, bool]:
        """The only output of a model with one input, both float32, and whether it ran in the background."""
        given, made = self._buffer(x.shape), self._buffer(shape)
        memory = Handle()
        self.call("LiteRtLockTensorBuffer", given, ctypes.byref(memory), _WRITE)
        ctypes.memmove(memory, x.ctypes.data, x.nbytes)
        self.call("LiteRtUnlockTensorBuffer", given)
        inputs, outputs, later = (Handle * 1)(given.value), (Handle * 1)(made.value), ctypes.c_bool()
        words: list[Any] = [
            self.compiled,
            ctypes.c_size_t(0),
            ctypes.c_size_t(1),
            inputs,
            ctypes.c_size_t(1),
            outputs,
        ]
        if background:
            self.call("LiteRtRunCompiledModelAsync", *words, ctypes.byref(later))
        else:
            self.call("LiteRtRunCompiledModel", *words)
        self.call("LiteRtLockTensorBuffer", made, ctypes.byref(memory), _READ)  # waits for what is not ready
        y = np.empty(shape, np.float32)
        ctypes.memmove(y.ctypes.data, memory, y.nbytes)
        self.call("LiteRtUnlockTensorBuffer", made)
        for buffer in (given, made):
            self._c.LiteRtDestroyTensorBuffer(buffer)
        return y, later.value

    def _buffer(self, shape: tuple[int, ...]) -> Handle:
        made = Handle()
        kind = Ranked(_FLOAT32, len(shape), (ctypes.c_int32 * 8)(*shape))
        size = ctypes.c_size_t(int(np.prod(shape)) * 4)
        self.call(
            "LiteRtCreateManagedTensorBuffer",
            self.environment,
            _HOST,
            ctypes.byref(kind),
            size,
            ctypes.byref(made),
        )
        return made

    def metrics(self, x: Array, shape: tuple[int, ...]) -> dict[str, int]:
        """What LiteRT measures of one run; names that come several times are added up."""
        found, metric, count = Handle(), Metric(), ctypes.c_int()
        self.call("LiteRtCreateMetrics", ctypes.byref(found))
        self.call("LiteRtCompiledModelStartMetricsCollection", self.compiled, 0)
        self.run(x, shape)
        self.call("LiteRtCompiledModelStopMetricsCollection", self.compiled, found)
        self.call("LiteRtGetNumMetrics", found, ctypes.byref(count))
        total: dict[str, int] = {}
        for index in range(count.value):
            self.call("LiteRtGetMetric", found, index, ctypes.byref(metric))
            name = (metric.name or b"").decode()
            total[name] = total.get(name, 0) + metric.value.value
        self._c.LiteRtDestroyMetrics(found)
        return total

    def close(self) -> None:
        """Give everything back."""
        self._c.LiteRtDestroyCompiledModel(self.compiled)
        self._c.LiteRtDestroyOptions(self.options)
        self._c.LiteRtDestroyModel(self.model)
        self._c.LiteRtDestroyEnvironment(self.environment)
