"""Files with weights, `.caffemodel`: the blobs of layers by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.errors import ModelError, UsageError
from user_layers.caffe.schema import message
from user_layers.files import read_input, write_atomic
from user_layers.spelling.foreign import Array

_HDF5 = b"\x89HDF"
_HALF = 2
_RAW: dict[int, np.dtype[Any]] = {  # NVIDIA's branch: raw_data_type
    0: np.dtype("<f8"),
    1: np.dtype("<f4"),
    _HALF: np.dtype("<f2"),
}
_LEGACY = ("num", "channels", "height", "width")


def read_caffemodel(path: Path) -> Mapping[str, Sequence[Array]]:
    """The blobs of each layer that has some, float32 arrays.

    Errors: UsageError for a file that cannot be read; ModelError for one that is damaged or something else.
    """
    try:
        data = read_input(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    if data.startswith(_HDF5):
        raise ModelError(
            f"{path} is an HDF5 file",
            hint="have Caffe write it as binary protobuf: snapshot_format: BINARYPROTO",
        )
    net = _parsed(path, data)
    found: dict[str, list[Array]] = {}
    for layer in (*net.layers, *net.layer):
        if layer.blobs and layer.name not in found:
            where = f"{path}: layer {layer.name!r}"
            found[layer.name] = [_array(blob, f"{where}: blob {i}") for i, blob in enumerate(layer.blobs)]
    return found


Stored = Iterable[tuple[str, str, Sequence[Array]]]
"""Layers with weights: the name, the type and the blobs of each."""


def write_caffemodel(path: Path, name: str, layers: Stored) -> None:
    """Write a file with weights. name: of the net."""
    write_atomic(path, caffemodel(name, layers))


def caffemodel(name: str, layers: Stored) -> bytes:
    """A file with weights. name: of the net. Blobs of float16 are stored as such, all others as float32."""
    net = message("StoredNet")(name=name)
    for layer_name, kind, blobs in layers:
        layer = net.layer.add(name=layer_name, type=kind)
        for array in blobs:
            blob = layer.blobs.add()
            blob.shape.dim.extend(array.shape)
            if array.dtype == np.float16:
                blob.raw_data_type = _HALF
                blob.raw_data = array.astype(_RAW[_HALF]).tobytes()
            else:
                blob.data.append(np.ascontiguousarray(array, "<f4").tobytes())
    return bytes(net.SerializeToString())


def _parsed(path: Path, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    net = message("StoredNet")()
    try:
        net.ParseFromString(data)
    except (DecodeError, RecursionError):
        raise ModelError(
            f"{path} is not a .caffemodel, or it is not whole",
            hint=_of_text(data) or "copy or fetch it again",
        ) from None
    if any(layer.HasField("layer") for layer in net.layers):
        raise ModelError(
            f"{path} is of Caffe's first format (V0)",
            hint="upgrade_net_proto_binary of a later Caffe writes it in a newer one",
        )
    if not net.layer and not net.layers:
        raise ModelError(f"{path} is not a .caffemodel: it has no layers", hint=_of_text(data))
    return net


def _of_text(data: bytes) -> str:
    """A hint where the file is text: without control characters but those that part words and lines."""
    start = data[:4096]
    is_text = bool(start) and all(byte >= 32 or byte in b"\t\n\r\f" for byte in start)
    return "it is text; the file with the weights is binary" if is_text else ""


def _array(blob: Any, where: str) -> Array:
    dtype: np.dtype[Any]
    if blob.HasField("raw_data"):
        dtype = _RAW.get(blob.raw_data_type, np.dtype(np.void))
        if dtype.kind != "f":
            raise ModelError(f"{where} has numbers of type {blob.raw_data_type}; known are floats")
        parts = [blob.raw_data]
    elif blob.double_data and not blob.data:
        dtype, parts = np.dtype("<f8"), list(blob.double_data)
    else:
        dtype, parts = np.dtype("<f4"), list(blob.data)
    given = parts[0] if len(parts) == 1 else b"".join(parts)
    if not given:
        numbers: Array = _unpacked(blob)
    elif len(given) % dtype.itemsize:
        raise ModelError(f"{where} has {len(given)} bytes, which are no whole numbers of {dtype.itemsize}")
    else:
        numbers = np.frombuffer(given, dtype)
    numbers = numbers.astype(np.float32, copy=False)
    shape = _shape(blob, numbers.size)
    if int(np.prod(shape, dtype=object)) != numbers.size or min(shape, default=0) < 0:
        raise ModelError(f"{where} has the shape {list(shape)}, but {numbers.size} numbers")
    return numbers.reshape(shape)


def _unpacked(blob: Any) -> Array:
    """Numbers that are stored one by one, as the first writers did."""
    whole = message("BlobProto").FromString(blob.SerializeToString())
    return np.array(whole.data or whole.double_data, np.float32)


def _shape(blob: Any, size: int) -> tuple[int, ...]:
    if blob.HasField("shape"):
        return tuple(int(extent) for extent in blob.shape.dim)
    if any(blob.HasField(name) for name in _LEGACY):
        return tuple(int(getattr(blob, name)) for name in _LEGACY)
    return (size,)
