"""A net's stages in device memory, ready to run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from firmware_sim.device.api import Array, DeviceApi
from firmware_sim.device.current_trace import telling
from firmware_sim.shown import brief
from user_layers.bmodel.manifest import ProgramUse
from user_layers.bmodel.model import SUBNET_CPU, Net, Stage, SubNet, Tensor
from user_layers.runtime.attribution import Attribution
from user_layers.runtime.memory import Memory
from user_layers.runtime.parts import CpuPart, DynamicPart, LoadedPart, StaticPart, Tensors
from user_layers.runtime.relocate import Region, relocate_addr

_ALIGN = 128


@dataclass(frozen=True)
class Ran:
    """Outputs of one run and the seconds of its parts, as the host's clock saw them; host_s: in subnets on
    the host."""

    outputs: list[Array]
    stage: int
    load_s: float
    calculate_s: float
    get_s: float
    subnets_s: tuple[float, ...]
    host_s: float

    __repr__ = brief


class LoadedStage:
    """Subnets, and where the tensors between them lie. `context`: a block shared by the net's stages.

    A dynamic stage's inputs and outputs have memory of their own, of the largest size; all other tensors
    lie where they were compiled for, moved with the context, the constants or the net's input and output
    memory.
    """

    def __init__(
        self, memory: Memory, where: str, stage: Stage, context: int, attribution: Attribution
    ) -> None:
        self._attribution = attribution
        self._where = where
        self._stage = stage
        self._regions = [Region("the context", stage.ctx_addr, stage.ctx_size, context)]
        if stage.io_size:
            io = memory.alloc(stage.io_size, f"the inputs and outputs of {where}")
            self._regions.append(Region("the input and output memory", stage.io_addr, stage.io_size, io))
        self._coeff = 0
        if stage.coeff is not None:
            self._coeff = memory.constants(stage.coeff, where)
            size = len(stage.coeff.data)
            self._regions.append(Region("the constants", stage.coeff.addr, size, self._coeff, writable=False))
        self._context = context
        self._tensors = Tensors(memory.device, {})
        for t in (*stage.inputs, *stage.outputs):
            self._tensors.address[t.name] = (
                memory.alloc(t.size + -t.size % _ALIGN, t.name) if stage.is_dynamic else self._addr(t)
            )
        programs = iter(stage.manifest.programs if stage.manifest is not None else ())
        self._parts = [
            self._part(memory, f"{where} subnet {k}", subnet, next(programs) if subnet.is_dynamic else None)
            for k, subnet in enumerate(stage.subnets)
        ]

    def _addr(self, tensor: Tensor) -> int:
        return relocate_addr(tensor.addr, tensor.size, self._regions, f"{self._where}: {tensor.name}")

    def _part(self, memory: Memory, where: str, subnet: SubNet, program: ProgramUse | None) -> LoadedPart:
        if program is None and subnet.mode != SUBNET_CPU:
            return StaticPart(memory, where, subnet, self._regions, self._attribution)
        for t in (*subnet.inputs, *subnet.outputs):
            if t.name not in self._tensors.address:
                self._tensors.address[t.name] = self._addr(t)
        if program is None:
            return CpuPart(where, subnet)
        arena = self._context
        if program.arena_bytes:
            what = f"{where}: the firmware's memory"
            arena = relocate_addr(program.arena_addr, program.arena_bytes, self._regions, what)
        return DynamicPart(memory, where, subnet, self._stage.ir, program, arena, self._coeff)

    @property
    def on_host(self) -> tuple[bool, ...]:
        """Which subnets run on the host."""
        return tuple(isinstance(part, CpuPart) for part in self._parts)

    def load(self, arrays: Sequence[Array]) -> None:
        """Copy the net's inputs, in their order, to the device; a new run begins.

        DeviceError for a type other than compiled, or more bytes than the input has room for.
        """
        self._tensors.shape.clear()
        for t, array in zip(self._stage.inputs, arrays, strict=True):
            self._tensors.write(t, array, self._where)

    def calculate(self) -> tuple[float, ...]:
        """Run the subnets; the seconds of each."""
        times = []
        with telling(lambda: map(self._tensors.named, (*self._stage.inputs, *self._stage.outputs))):
            for part in self._parts:
                start = time.perf_counter()
                part.run(self._tensors)
                times.append(time.perf_counter() - start)
        return tuple(times)

    def outputs(self) -> list[Array]:
        """Copies of the net's outputs, in their order, in the shapes that the last run gave them."""
        return [self._tensors.read(t) for t in self._stage.outputs]


class LoadedNet:
    """One net in device memory. The constructor frees what it allocated when it fails."""

    def __init__(self, device: DeviceApi, net: Net, attribution: Attribution | None = None) -> None:
        known = attribution or Attribution()
        self._memory = Memory(device)
        try:
            # One context serves all stages, because only one of them runs at a time.
            size = max(stage.ctx_size for stage in net.stages)
            context = self._memory.alloc(size, f"the context of net {net.name!r}")
            self._stages = [
                LoadedStage(self._memory, f"net {net.name!r} stage {i}", stage, context, known)
                for i, stage in enumerate(net.stages)
            ]
        except BaseException:
            self._memory.free()
            raise

    def run(self, index: int, arrays: Sequence[Array]) -> Ran:
        """Run one stage; the arrays were checked against it."""
        stage = self._stages[index]
        t0 = time.perf_counter()
        stage.load(arrays)
        t1 = time.perf_counter()
        subnets = stage.calculate()
        t2 = time.perf_counter()
        outputs = stage.outputs()
        host = sum(s for s, on_host in zip(subnets, stage.on_host, strict=True) if on_host)
        return Ran(outputs, index, t1 - t0, t2 - t1, time.perf_counter() - t2, subnets, host)

    def free(self) -> None:
        """Give its device memory back; the net cannot run any more."""
        self._memory.free()
