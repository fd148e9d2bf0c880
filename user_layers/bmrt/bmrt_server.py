"""The process behind libbmlib.so and libbmrt.so: bmlib's requests, and nets of bmodels on the same device.

A runtime (bmrt_create) is a number; its nets run on tensors in the caller's device memory. What goes over
the socket is little endian without gaps and has its twins in sdk/host/bmrt_*.c: a tensor is _TENSOR, a text
its length in 4 bytes and then its bytes; `describe` says what a net is.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from firmware_sim.device.host_server import Host
from firmware_sim.device.host_server import main as serve_host
from firmware_sim.errors import AddressError, DeviceError, ModelError, UsageError
from firmware_sim.firmware.image import FirmwareImage
from firmware_sim.wire import Format, StoreMode

if TYPE_CHECKING:
    from firmware_sim.device.api import Array
    from firmware_sim.device.client import Device
    from user_layers.runtime.bmruntime import BModelRuntime
    from user_layers.runtime.network import NetworkInfo, TensorInfo

_CREATE, _DESTROY, _LOAD, _LAUNCH, _STAGE = range(32, 37)
_MAX_DIMS = 8  # BM_MAX_DIMS_NUM
_TENSOR = struct.Struct("<12iQQ")  # dtype, store mode, num_dims, dims[8], given, device address and bytes
_SHAPE = struct.Struct("<9i")


@dataclass
class _Runtime:
    """What bmrt_create gave: nets, and the device memory of their inputs and outputs, shared by stages."""

    nets: BModelRuntime
    blocks: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceTensor:
    """A bm_tensor_t: codes of dtype and store mode, shape, and the device memory it lies in (given: the
    caller's; an output without it gets new memory)."""

    dtype: int
    store_mode: int
    shape: tuple[int, ...]
    addr: int
    nbytes: int
    given: bool = True

    @classmethod
    def decode(cls, data: bytes, index: int) -> DeviceTensor:
        """The index-th of the tensors in `data`. UsageError for a num_dims beyond 8 or below 0."""
        dtype, mode, num_dims, *rest = _TENSOR.unpack_from(data, index * _TENSOR.size)
        if not 0 <= num_dims <= _MAX_DIMS:
            raise UsageError(f"tensor {index} has {num_dims} dimensions; 0 to {_MAX_DIMS} are possible")
        return cls(dtype, mode, tuple(rest[:num_dims]), rest[-2], rest[-1], rest[-3] != 0)

    def encode(self) -> bytes:
        """The bytes that libbmrt.so reads back into a bm_tensor_t."""
        dims = (*self.shape, *[0] * (_MAX_DIMS - len(self.shape)))
        return _TENSOR.pack(
            self.dtype, self.store_mode, len(self.shape), *dims, self.given, self.addr, self.nbytes
        )


class BmrtHost(Host):
    """bmlib's requests, and those of libbmrt.so."""

    def __init__(self, dev_id: int, program: FirmwareImage | None = None) -> None:
        super().__init__(dev_id, program)
        self._runtimes: dict[int, _Runtime] = {}
        self._created = 0

    def usual_firmware(self) -> FirmwareImage:
        """That of bmrt_test: see `firmware_image`."""
        from user_layers.toolchain.firmware import firmware_image
        from user_layers.workspace import Workspace

        return firmware_image(Workspace.around(), dev_id=self.dev_id)

    def answer(self, op: int, text: str, a: int, b: int, c: int, data: bytes) -> tuple[int, bytes] | None:
        """Create: the runtime's number. Destroy: a. Load into a: data is a path (b = 1) or a bmodel; the nets
        that it brought. Launch in a: the net `text` on the first b of data's tensors; the other c are its
        outputs, which get memory of their own unless theirs is given; the outputs. Stage in a: of the net
        `text`, for inputs of data's shapes."""
        if op == _CREATE:
            return self._create(), b""
        if op == _DESTROY:
            self._destroy(a)
        elif op == _LOAD:
            return 0, self._load_nets(self._runtime(a), os.fsdecode(data) if b else data)
        elif op == _LAUNCH:
            return 0, self._launch(self._runtime(a), text, b, c, data)
        elif op == _STAGE:
            return self._stage(self._runtime(a), text, data), b""
        else:
            return super().answer(op, text, a, b, c, data)
        return 0, b""

    def _create(self) -> int:
        from user_layers.runtime.bmruntime import BModelRuntime

        self._created += 1
        self._runtimes[self._created] = _Runtime(BModelRuntime(self.device))
        return self._created

    def _runtime(self, number: int) -> _Runtime:
        try:
            return self._runtimes[number]
        except KeyError:
            raise UsageError(f"there is no runtime {number}") from None

    def _destroy(self, number: int) -> None:
        runtime = self._runtime(number)
        del self._runtimes[number]
        runtime.nets.close()
        for addr in runtime.blocks:
            self.device.free(addr)

    def _load_nets(self, runtime: _Runtime, source: str | bytes) -> bytes:
        """As the vendor's runtime does, nets whose names are loaded stay as they are, and the others come."""
        from user_layers.bmodel import read

        model = read(source)
        known = {info.name for info in runtime.nets.networks}
        for net in model.nets:
            if net.name in known:
                print(f"bmrt: the net {net.name!r} is loaded already and stays as it is", file=sys.stderr)
        fresh = replace(model, nets=tuple(net for net in model.nets if net.name not in known))
        names = runtime.nets.load(fresh)
        blocks: list[int] = []
        try:
            nets = [
                describe(runtime.nets.network(name), net.addr_mode, self.device, blocks)
                for name, net in zip(names, fresh.nets, strict=True)
            ]
        except BaseException:
            for addr in blocks:
                self.device.free(addr)
            for name in names:
                runtime.nets.unload(name)
            raise
        runtime.blocks += blocks
        return struct.pack("<I", len(nets)) + b"".join(nets)

    def _launch(self, runtime: _Runtime, name: str, inputs: int, outputs: int, data: bytes) -> bytes:
        info = runtime.nets.network(name)
        _check_count(info, "inputs", info.inputs, inputs)
        _check_count(info, "outputs", info.outputs, outputs)
        tensors = [DeviceTensor.decode(data, i) for i in range(len(data) // _TENSOR.size)]
        from user_layers.runtime.store_mode import interleave

        given, wanted = tensors[:inputs], tensors[inputs:]
        arrays = [_read(info, tensor, t, self.device) for tensor, t in zip(info.inputs, given, strict=True)]
        modes = [
            _together(info, "output", tensor, place)
            for tensor, place in zip(info.outputs, wanted, strict=True)
        ]
        with self.timed():
            results = runtime.nets.launch(name, arrays)
        stored = [
            interleave(array, mode if array.ndim else 1) for array, mode in zip(results, modes, strict=True)
        ]
        if all(place.given for place in wanted):
            for tensor, array, raw, place in zip(info.outputs, results, stored, wanted, strict=True):
                where = f"net {name!r}: output {tensor.name!r} {list(array.shape)}"
                _check_place(where, raw.nbytes, place, self.device)
            rooms = [(place.addr, place.nbytes) for place in wanted]
        else:
            rooms = self._room(stored)
        made = []
        for tensor, array, raw, place, (addr, nbytes) in zip(
            info.outputs, results, stored, wanted, rooms, strict=True
        ):
            self.device.write(addr, raw)
            made.append(DeviceTensor(tensor.dtype, place.store_mode, array.shape, addr, nbytes).encode())
        return b"".join(made)

    def _stage(self, runtime: _Runtime, name: str, data: bytes) -> int:
        from user_layers.runtime.network import choose_stage

        info = runtime.nets.network(name)
        shapes = [tuple(dims[:count]) for count, *dims in _SHAPE.iter_unpack(data)]
        return choose_stage(info, shapes, None)

    def _room(self, arrays: Sequence[Array]) -> list[tuple[int, int]]:
        """Memory for each array: address and bytes."""
        places: list[tuple[int, int]] = []
        try:
            for array in arrays:
                places.append((self.device.malloc(max(array.nbytes, 1)), array.nbytes))
        except BaseException:
            for addr, _ in places:
                self.device.free(addr)
            raise
        return places


def _check_count(info: NetworkInfo, what: str, tensors: Sequence[TensorInfo], given: int) -> None:
    if given != len(tensors):
        names = ", ".join(t.name for t in tensors)
        raise UsageError(f"net {info.name!r} has {len(tensors)} {what} ({names}), given are {given}")


def _read(info: NetworkInfo, tensor: TensorInfo, given: DeviceTensor, device: Device) -> Array:
    """The input in the caller's memory. UsageError for what cannot be this one."""
    from user_layers.bmodel.model import dtype_name
    from user_layers.runtime.store_mode import separate, stored_shape

    where = f"net {info.name!r}: input {tensor.name!r}"
    if given.dtype != tensor.dtype:
        named = dtype_name(given.dtype) if given.dtype >= 0 else f"unknown type {given.dtype}"
        raise UsageError(f"{where} is given as {named}, the net takes {tensor.dtype.numpy_name}")
    if any(n < 1 for n in given.shape):
        raise UsageError(f"{where} has the shape {list(given.shape)}; sizes are 1 or more")
    together = _together(info, "input", tensor, given) if given.shape else 1
    stored = stored_shape(given.shape, together)
    nbytes = prod(stored) * tensor.dtype.itemsize
    if nbytes > given.nbytes:
        raise UsageError(f"{where} {list(given.shape)} has {nbytes} bytes, its device memory {given.nbytes}")
    return separate(device.read_array(given.addr, stored, tensor.dtype.numpy_name), given.shape, together)


def _check_place(where: str, nbytes: int, place: DeviceTensor, device: Device) -> None:
    """Whether an output fits into the memory that the caller gives for it, and may be written there."""
    if nbytes > place.nbytes:
        raise UsageError(f"{where} has {nbytes} bytes, its device memory {place.nbytes}")
    try:
        device.check_writable(place.addr, nbytes)
    except AddressError as error:
        raise AddressError(f"{where}: {error.message}", hint=error.hint) from None


def _together(info: NetworkInfo, what: str, tensor: TensorInfo, given: DeviceTensor) -> int:
    """How many batches share a word of the caller's memory; the net's own mode is the runtime's matter."""
    form = Format.of_codes(tensor.dtype, given.store_mode)
    if form is None:
        mode = next((m.text for m in StoreMode if m == given.store_mode), str(given.store_mode))
        raise UsageError(
            f"net {info.name!r}: {what} {tensor.name!r} has the store mode {mode}; {tensor.dtype.numpy_name} "
            "lies in 1N, with 16 bits also in 2N, with 8 bits also in 4N"
        )
    return form.together


def describe(info: NetworkInfo, addr_mode: int, device: Device, blocks: list[int]) -> bytes:
    """A net for bm_net_info_t; what is allocated for its inputs and outputs is added to `blocks`.

    Name, dynamic, addr_mode, numbers of inputs, outputs and stages; of each input and output its name, dtype,
    scale, zero point, largest size in bytes and address; of each stage the shapes (_SHAPE) of both.
    """
    out = bytearray(_text(info.name))
    out += struct.pack(
        "<iiIII", info.is_dynamic, addr_mode, len(info.inputs), len(info.outputs), len(info.stages)
    )
    for tensors, shapes in (
        (info.inputs, [stage.input_shapes for stage in info.stages]),
        (info.outputs, [stage.output_shapes for stage in info.stages]),
    ):
        for i, tensor in enumerate(tensors):
            most = max(room_for(stage[i], tensor.dtype.itemsize) for stage in shapes)
            if most > 0xFFFFFFFF:
                raise ModelError(
                    f"net {info.name!r}: {tensor.name!r} has {most} bytes; bm_device_mem_t holds 4 GiB"
                )
            blocks.append(device.malloc(max(most, 1), f"{tensor.name} of net {info.name!r}"))
            out += _text(tensor.name)
            out += struct.pack("<ifiQQ", tensor.dtype, tensor.scale, tensor.zero_point, most, blocks[-1])
    for stage in info.stages:
        for shape in (*stage.input_shapes, *stage.output_shapes):
            if len(shape) > _MAX_DIMS:
                raise DeviceError(f"net {info.name!r}: {list(shape)} has more than {_MAX_DIMS} dimensions")
            out += _SHAPE.pack(len(shape), *shape, *[0] * (_MAX_DIMS - len(shape)))
    return bytes(out)


def room_for(shape: Sequence[int], itemsize: int) -> int:
    """Bytes that a tensor may need: those of 8 bits may be stored in mode 4N, n rounded up to 4."""
    if itemsize == 1 and shape:
        shape = (shape[0] + -shape[0] % 4, *shape[1:])
    return prod(shape) * itemsize


def _text(text: str) -> bytes:
    data = text.encode(errors="replace")
    return struct.pack("<I", len(data)) + data


def main() -> None:
    """Serve the C libraries; see firmware_sim.device.host_server."""
    serve_host(BmrtHost)
