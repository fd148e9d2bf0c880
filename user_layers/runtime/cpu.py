"""Parts of a net on the host: ONNX models through onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firmware_sim.device.api import Array
from firmware_sim.errors import DeviceError, ModelError
from user_layers.runtime.onnx_limits import RUN_S
from user_layers.runtime.onnx_process import Session

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

    Errors: those of Session; ModelError for a model with types that the device cannot hold.
    """

    def __init__(self, model: bytes, what: str) -> None:
        try:
            self._session = Session(model, what)
        except ModelError as error:
            raise ModelError(f"{what}: onnxruntime refuses its model: {error.message}") from None
        self._what = what
        self._inputs = [(name, self._dtype(name, kind), shape) for name, kind, shape in self._session.inputs]
        self._outputs = [(name, self._dtype(name, kind)) for name, kind, _ in self._session.outputs]

    def _dtype(self, name: str, kind: str) -> str:
        if kind not in _NUMPY:
            raise ModelError(f"{self._what}: {name} is {kind}, which the device cannot hold")
        return _NUMPY[kind]

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
        try:
            made = self._session.run(feeds, RUN_S)
        except ModelError as error:
            raise DeviceError(f"{self._what}: onnxruntime: {error.message}") from None
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
