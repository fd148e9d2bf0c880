"""Parts of a net on the host: ONNX models through onnxruntime."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from firmware_sim.device.api import Array
from firmware_sim.errors import DeviceError, MissingError, ModelError

LIMIT_S = 600.0  # a loop in a model may have no end
_NUMPY = {  # onnxruntime's names of element types
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int16)": "int16",
    "tensor(uint16)": "uint16",
    "tensor(int32)": "int32",
    "tensor(uint32)": "uint32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}
# What the device holds where the model has a type that the device has not.
_DEVICE = {"int64": "int32", "bool": "float32"}


class CpuModel:
    """A serialized ONNX model, ready to run; what: how messages call it.

    Errors: MissingError without onnxruntime; ModelError for a model that it does not take, or with types
    that the device cannot hold.
    """

    def __init__(self, model: bytes, what: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingError(
                f"{what} runs on the host, and the package onnxruntime is not installed",
                hint="pip install 'tpulayer[onnx]'",
            ) from None
        try:
            self._session = open_session(model)
        except Exception as error:  # onnxruntime raises many kinds
            raise ModelError(f"{what}: onnxruntime refuses its model: {first_line(error)}") from None
        self._run_options = onnxruntime.RunOptions
        self._what = what
        self._inputs = [(v.name, self._dtype(v), v.shape) for v in self._session.get_inputs()]
        self._outputs = [(v.name, self._dtype(v)) for v in self._session.get_outputs()]

    def _dtype(self, value: Any) -> str:
        if value.type not in _NUMPY:
            raise ModelError(f"{self._what}: {value.name} is {value.type}, which the device cannot hold")
        return _NUMPY[value.type]

    def check(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Whether it takes and gives device tensors of these element types. ModelError otherwise."""
        for what, given, own in (
            ("inputs", inputs, [dtype for _, dtype, _ in self._inputs]),
            ("outputs", outputs, [dtype for _, dtype in self._outputs]),
        ):
            wanted = [_DEVICE.get(dtype, dtype) for dtype in own]
            if list(given) != wanted:
                raise ModelError(
                    f"{self._what}: its model has the {what} {own}, the net gives it {list(given)}"
                )

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Device arrays in, device arrays out. DeviceError when the model fails or a value does not fit."""
        feeds = {}
        for (name, dtype, shape), array in zip(self._inputs, arrays, strict=True):
            if len(array.shape) != (len(shape) or 1) or (not shape and array.size != 1):
                raise DeviceError(
                    f"{self._what}: {name} came out as {list(array.shape)}, its model declares {shape}"
                )
            value = array if shape else array.reshape(())  # onnxruntime: [] for no dimensions
            feeds[name] = np.asarray(value != 0) if dtype == "bool" else value.astype(dtype, copy=False)
        limit = self._run_options()
        limit.log_severity_level = 4  # what goes wrong is raised
        timer = threading.Timer(LIMIT_S, setattr, (limit, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            made = self._session.run(None, feeds, limit)
        except Exception as error:
            late = f"; it was stopped after {LIMIT_S:g} s" if limit.terminate else ""
            raise DeviceError(f"{self._what}: onnxruntime: {first_line(error)}{late}") from None
        finally:
            timer.cancel()
        return [
            self._to_device(name, np.asarray(value))
            for (name, _), value in zip(self._outputs, made, strict=True)
        ]

    def _to_device(self, name: str, value: Array) -> Array:
        dtype = _DEVICE.get(value.dtype.name, value.dtype.name)
        if value.dtype == np.int64 and value.size:
            limits = np.iinfo(np.int32)
            if value.min() < limits.min or value.max() > limits.max:
                raise DeviceError(f"{self._what}: {name} has values beyond the device's 32 bits")
        return np.ascontiguousarray(value.astype(dtype, copy=False)).reshape(value.shape or (1,))


def open_session(model: bytes | str) -> Any:
    """An onnxruntime.InferenceSession of a model or a file, on one thread, that says nothing.

    Raises what onnxruntime raises. Its optimizer fails on some models that it can run: then without it.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            return onnxruntime.InferenceSession(model, options, providers=providers)
        except Exception:
            raise error from None


def first_line(error: BaseException) -> str:
    """An error of onnx or onnxruntime on one line, without the places in their sources."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:3]) or type(error).__name__
    head, mark, tail = text.partition("[ONNXRuntimeError] : ")
    if mark:
        text = head + tail.partition(" : ")[2]
    text = re.sub(r"\S*/onnxruntime_src/\S+ .*?\) (?=[A-Z])", "", text)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 400 else f"{text[:397]}..."
