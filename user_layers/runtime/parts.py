"""The subnets of a loaded stage: command streams, programs for the firmware, models on the host.

While a stage runs, `Tensors` says where each tensor between the subnets lies and which shape it has this
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from firmware_sim.chip import CLOCK_HZ
from firmware_sim.device.api import Array, DeviceApi
from firmware_sim.device.current_trace import NamedTensor
from firmware_sim.device.doubtful import Filled
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.image import StreamGroup
from firmware_sim.wire import CommandGroup, DType, TensorRecord
from user_layers.bmodel.manifest import ProgramUse
from user_layers.bmodel.model import SubNet, Tensor
from user_layers.runtime.attribution import Attribution
from user_layers.runtime.cpu import CpuModel
from user_layers.runtime.memory import Memory
from user_layers.runtime.relocate import Region, relocate_sorts, relocate_stream
from user_layers.runtime.store_mode import batches_together, format_of, interleave, separate, stored_shape


@dataclass
class Tensors:
    """address: of each tensor that leaves or enters a subnet; shape: of those made so far in this run."""

    device: DeviceApi
    address: dict[str, int]
    shape: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def record(self, tensor: Tensor) -> TensorRecord:
        """A tensor with its place and its shape, or the largest one where it is still to be made."""
        shape = self.shape.get(tensor.name, tensor.shape)
        form = format_of(tensor)
        return TensorRecord(shape, form.dtype, store_mode=form.store_mode, addr=self.address[tensor.name])

    def named(self, tensor: Tensor) -> NamedTensor:
        """A tensor for those who look into memory."""
        one = self.record(tensor)
        together, varies = batches_together(tensor), tensor.name not in self.shape
        return NamedTensor(tensor.name, one.addr, one.shape, one.dtype.numpy_name, together, varies)

    def read(self, tensor: Tensor) -> Array:
        """A copy of a tensor in the shape it has in this run, its batches taken apart (2N, 4N)."""
        record, together = self.record(tensor), batches_together(tensor)
        shape = stored_shape(record.shape, together)
        filled = None
        if together > 1 and (rest := record.shape[0] % together):
            size, word = record.dtype.itemsize, record.dtype.itemsize * together
            filled = Filled((shape[0] - 1) * shape[1] * word, word, rest * size)
        stored = self.device.read_array(record.addr, shape, record.dtype.numpy_name, filled)
        return separate(stored, record.shape, together)

    def write(self, tensor: Tensor, array: Array, where: str) -> None:
        """Copy an array to the device in the tensor's store mode.

        DeviceError for another type than compiled, or when it has no room; where: for messages.
        """
        stored = interleave(array, batches_together(tensor))
        self.made(tensor, array.shape, array.dtype.name, stored.nbytes, where)
        self.device.write(self.address[tensor.name], stored)

    def made(self, tensor: Tensor, shape: tuple[int, ...], dtype: str, nbytes: int, where: str) -> None:
        """Note the shape that came out. DeviceError when the tensor has no room for it."""
        wanted = DType(tensor.dtype).numpy_name
        if dtype != wanted or nbytes > tensor.size:
            raise DeviceError(
                f"{where}: {tensor.name!r} is {list(shape)} {dtype}; compiled was {list(tensor.shape)} "
                f"{wanted} at most"
            )
        self.shape[tensor.name] = shape


class StaticPart:
    """Command streams in device memory, relocated."""

    def __init__(
        self,
        memory: Memory,
        where: str,
        subnet: SubNet,
        regions: Sequence[Region],
        attribution: Attribution,
    ) -> None:
        self._issuer = attribution.issuer(subnet.groups)
        self._where = where
        self._subnet = subnet
        self._groups = _upload(memory, where, subnet.groups, regions)

    def run(self, tensors: Tensors) -> None:
        """Run the streams; outputs have the compiled shapes.

        DeviceError where a part before made another shape than the one they were recorded for.
        """
        for t in self._subnet.inputs:
            shape = tensors.shape.get(t.name, t.shape)
            if shape != t.shape:
                raise DeviceError(
                    f"{self._where} was recorded for {t.name!r} of the shape {list(t.shape)}, which came out "
                    f"as {list(shape)}",
                    hint="compile the net with --dynamic",
                )
        tensors.device.run_streams(self._groups, self._modelled, self._issuer)
        tensors.shape.update((t.name, t.shape) for t in self._subnet.outputs)

    def _modelled(self) -> float:
        from firmware_sim.timeline import Timer

        timer = Timer()
        return sum(timer.timeline(group).cycles for group in self._subnet.groups) / CLOCK_HZ


def _upload(
    memory: Memory, where: str, groups: Sequence[CommandGroup], regions: Sequence[Region]
) -> list[StreamGroup]:
    """Streams in DDR, as they are stored but for their addresses.

    A card wants more, which the vendor's runtime adds here: cmd_end in the last BD and chain_end in the last
    GDMA descriptor of each group, and the 32 words of every BD descriptor in reverse order. The emulated
    engines take the counts from the request instead.
    """
    streams = bytearray()
    placed = []
    for i, group in enumerate(groups):
        gdma = relocate_stream(group.gdma, regions, f"{where} group {i}")
        bd = relocate_sorts(group.bd, regions, f"{where} group {i}")
        placed.append((len(streams), len(streams) + len(bd), group))
        streams += bd + gdma
    base = memory.store(bytes(streams), f"the commands of {where}", 0)
    return [StreamGroup(base + bd, base + gdma, g.bd_num, g.gdma_num) for bd, gdma, g in placed]


class DynamicPart:
    """A program in device memory; `arena` is what the firmware may allocate from."""

    def __init__(
        self,
        memory: Memory,
        where: str,
        subnet: SubNet,
        ir: bytes,
        program: ProgramUse,
        arena: int,
        coeff: int,
    ) -> None:
        self._where = where
        self._subnet = subnet
        self._nbytes = program.nbytes
        self._program = memory.store(
            ir[subnet.ir_offset : subnet.ir_offset + 4 * subnet.ir_len], f"the program of {where}", 0
        )
        self._arena, self._arena_bytes = arena, program.arena_bytes
        self._coeff = coeff

    def run(self, tensors: Tensors) -> None:
        """Let the firmware run the program; outputs get the shapes that it finds.

        DeviceError when one has no room for its shape.
        """
        made = tensors.device.run_program(
            self._program,
            self._nbytes,
            [tensors.record(t) for t in self._subnet.inputs],
            [tensors.record(t) for t in self._subnet.outputs],
            self._arena,
            self._arena_bytes,
            self._coeff,
        )
        for t, record in zip(self._subnet.outputs, made, strict=True):
            tensors.made(t, record.shape, record.dtype.numpy_name, record.nbytes, self._where)


class CpuPart:
    """An ONNX model on the host, between copies from and to the device."""

    def __init__(self, where: str, subnet: SubNet) -> None:
        assert subnet.cpu is not None and subnet.cpu.onnx is not None  # check_runnable
        self._where = where
        self._subnet = subnet
        self._model = CpuModel(subnet.cpu.onnx, where)
        self._model.check(
            [DType(t.dtype).numpy_name for t in subnet.inputs],
            [DType(t.dtype).numpy_name for t in subnet.outputs],
        )

    def run(self, tensors: Tensors) -> None:
        """Read the inputs, run the model, and write its outputs back. DeviceError when one has no room."""
        made = self._model.run([tensors.read(t) for t in self._subnet.inputs])
        for t, array in zip(self._subnet.outputs, made, strict=True):
            tensors.write(t, array, self._where)


LoadedPart = StaticPart | DynamicPart | CpuPart
