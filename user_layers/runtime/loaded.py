"""A net's stages in device memory, ready to run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware_sim.chip import DDR_BYTES
from firmware_sim.errors import DeviceError, ModelError
from firmware_sim.firmware import FirmwareInfo, FirmwareLayer, StreamGroup
from firmware_sim.wire import BUILTIN_OP_BASE, PROGRAM_MAGIC, DType, StoreMode, TensorRecord
from user_layers.bmodel.model import SUBNET_MODES, SUBNET_TPU, Net, Stage, SubNet, Tensor
from user_layers.runtime.device_api import Array, DeviceApi
from user_layers.runtime.network import dtype_of
from user_layers.runtime.relocate import Region, relocate_addr, relocate_stream

if TYPE_CHECKING:
    from user_layers.compiler.result import LayerUse

_ALIGN = 128
_OTHER_LAYERS = "compile the model again, or rebuild the firmware (build_layers) it was compiled with"


class Memory:
    """Device memory that is given back together."""

    def __init__(self, device: DeviceApi) -> None:
        self.device = device
        self._blocks: list[int] = []
        self._constants: dict[bytes, int] = {}

    def alloc(self, nbytes: int) -> int:
        addr = self.device.malloc(max(nbytes, 1))
        self._blocks.append(addr)
        return addr

    def constants(self, stage: Stage) -> int:
        """Address of the stage's constants in device memory; stages with the same ones share them."""
        coeff = stage.coeff
        if coeff is None:
            return 0
        addr = self._constants.get(coeff.data)
        if addr is None:
            addr = self._constants[coeff.data] = self.alloc(len(coeff.data))
            self.device.write(addr, coeff.data)
        return addr

    def free(self) -> None:
        while self._blocks:
            self.device.free(self._blocks.pop())


@dataclass(frozen=True)
class Ran:
    """Outputs of one run and the seconds of its parts, as the host's clock saw them."""

    outputs: list[Array]
    stage: int
    load_s: float
    calculate_s: float
    get_s: float
    subnets_s: tuple[float, ...]


def check_firmware(net: Net, info: FirmwareInfo) -> None:
    """Refuse a net that uses a user layer which the firmware does not have as it was compiled.

    Layers that the net does not use may come, go and change. ModelError names the layer.
    """
    has = {layer.op_type: layer for layer in info.layers}
    for stage in net.stages:
        for use in stage.manifest.layers if stage.manifest is not None else ():
            if use.op_type < BUILTIN_OP_BASE:
                _check_layer(net, use, has)


def _check_layer(net: Net, use: LayerUse, has: Mapping[int, FirmwareLayer]) -> None:
    what = f"net {net.name!r} uses the layer {use.op} (op_type {use.op_type})"
    found = has.get(use.op_type)
    if found is None:
        listed = ", ".join(f"{layer.op} (op_type {layer.op_type})" for layer in has.values())
        raise ModelError(
            f"{what}, which the firmware does not have; it has {listed or 'no user layers'}",
            hint="rebuild the firmware with the layer's sources (build_layers)",
        )
    if found.op != use.op:
        raise ModelError(
            f"{what}, but op_type {use.op_type} of the firmware is {found.op}", hint=_OTHER_LAYERS
        )
    if (found.param_bytes, found.param_hash) != (use.param_bytes, use.param_hash):
        raise ModelError(
            f"{what}, whose parameter struct has changed since: {use.param_bytes} bytes with hash "
            f"{use.param_hash:#018x} then, {found.param_bytes} bytes with hash {found.param_hash:#018x} in "
            "the firmware",
            hint=_OTHER_LAYERS,
        )


def check_runnable(net: Net) -> None:
    """Refuse what this runtime does not run. ModelError says which part of the net."""
    where = f"net {net.name!r}"
    if net.cascade:
        raise ModelError(f"{where} is one part of a net for several devices; one BM1684 runs whole nets")
    if net.addr_mode not in (0, 1):
        raise ModelError(f"{where} has the address mode {net.addr_mode}; known are 0 and 1")
    for i, stage in enumerate(net.stages):
        here = f"{where} stage {i}"
        if stage.core_num != 1:
            raise ModelError(f"{here} is for {stage.core_num} cores; a BM1684 has one")
        for what, size in (("context", stage.ctx_size), ("input and output memory", stage.io_size)):
            if size > DDR_BYTES:
                raise ModelError(f"{here}: {what} of {size} bytes; a BM1684 has {DDR_BYTES} bytes of DDR")
        for k, subnet in enumerate(stage.subnets):
            if subnet.mode != SUBNET_TPU:
                known = 0 <= subnet.mode < len(SUBNET_MODES)
                kind = SUBNET_MODES[subnet.mode] if known else f"unknown ({subnet.mode})"
                raise ModelError(f"{here}: subnet {k} is of the kind {kind}; only TPU subnets run here")
            if subnet.is_dynamic != stage.is_dynamic:
                raise ModelError(f"{here} mixes static and dynamic subnets; only nets of one kind run here")
        if stage.is_dynamic:
            if len(stage.subnets) != 1:
                raise ModelError(f"{here} has {len(stage.subnets)} dynamic subnets; one runs here")
            _check_program(stage, here)
        for t in (*stage.inputs, *stage.outputs):
            if t.store_mode != StoreMode.N1:
                raise ModelError(
                    f"{here}: {t.name} is stored in mode {t.store_mode} (2N or 4N); only 1N runs here"
                )
            needed = t.elem_num * dtype_of(net.name, t).itemsize
            if t.size < needed:
                raise ModelError(f"{here}: {t.name} needs {needed} bytes, the bmodel gives it {t.size}")


def _check_program(stage: Stage, here: str) -> None:
    if stage.manifest is None or stage.ir[:4] != PROGRAM_MAGIC.to_bytes(4, "little"):
        raise ModelError(
            f"{here} is a dynamic net of another compiler: only that compiler's firmware reads its layers",
            hint="compile it with tpulayer, or compile it static",
        )
    size = stage.manifest.program_bytes
    subnet = stage.subnets[0]
    if subnet.ir_offset or not 4 * subnet.ir_len - 4 < size <= 4 * subnet.ir_len:
        raise ModelError(
            f"damaged bmodel: {here}: program of {size} bytes, stored are {subnet.ir_len} words "
            f"at byte {subnet.ir_offset}"
        )


class StaticStage:
    """Command streams in device memory, relocated to a context block shared by the net's stages."""

    def __init__(self, memory: Memory, where: str, stage: Stage, context: int) -> None:
        self._device = memory.device
        self._stage = stage
        self._regions = [Region("the context", stage.ctx_addr, stage.ctx_size, context)]
        if stage.io_size:
            io = memory.alloc(stage.io_size)
            self._regions.append(Region("the input and output memory", stage.io_addr, stage.io_size, io))
        if stage.coeff is not None:
            size = len(stage.coeff.data)
            moved = memory.constants(stage)
            self._regions.append(Region("the constants", stage.coeff.addr, size, moved, writable=False))
        self._inputs = [self._addr(t, where) for t in stage.inputs]
        self._outputs = [self._addr(t, where) for t in stage.outputs]
        self._subnets = [
            self._upload(memory, f"{where} subnet {k}", subnet) for k, subnet in enumerate(stage.subnets)
        ]

    def _addr(self, tensor: Tensor, where: str) -> int:
        return relocate_addr(tensor.addr, tensor.size, self._regions, f"{where}: {tensor.name}")

    def _upload(self, memory: Memory, where: str, subnet: SubNet) -> list[StreamGroup]:
        """Streams in DDR, as they are stored but for their addresses.

        A card wants more, which the vendor's runtime adds here: cmd_end in the last BD and chain_end in the
        last GDMA descriptor of each group, and the 32 words of every BD descriptor in reverse order. The
        emulated engines take the counts from the request instead.
        """
        streams = bytearray()
        placed = []
        for i, group in enumerate(subnet.groups):
            gdma = relocate_stream(group.gdma, self._regions, f"{where} group {i}")
            placed.append((len(streams), len(streams) + len(group.bd), group))
            streams += group.bd + gdma
        base = memory.alloc(len(streams))
        memory.device.write(base, bytes(streams))
        return [StreamGroup(base + bd, base + gdma, g.bd_num, g.gdma_num) for bd, gdma, g in placed]

    def load(self, arrays: Sequence[Array]) -> None:
        for addr, array in zip(self._inputs, arrays, strict=True):
            self._device.write(addr, array)

    def calculate(self) -> tuple[float, ...]:
        times = []
        for groups in self._subnets:
            start = time.perf_counter()
            self._device.run_streams(groups)
            times.append(time.perf_counter() - start)
        return tuple(times)

    def outputs(self) -> list[Array]:
        return [
            self._device.read_array(addr, t.shape, DType(t.dtype).numpy_name)
            for addr, t in zip(self._outputs, self._stage.outputs, strict=True)
        ]


class DynamicStage:
    """A program in device memory, with inputs and outputs of the largest size. `context`: neurons."""

    def __init__(self, memory: Memory, where: str, stage: Stage, context: int) -> None:
        assert stage.manifest is not None  # check_runnable
        self._device = memory.device
        self._where = where
        self._stage = stage
        self._context = context
        self._coeff = memory.constants(stage)
        self._program_bytes = stage.manifest.program_bytes
        self._program = memory.alloc(len(stage.ir))
        memory.device.write(self._program, stage.ir)
        self._inputs = [memory.alloc(t.size + -t.size % _ALIGN) for t in stage.inputs]
        self._outputs = [memory.alloc(t.size + -t.size % _ALIGN) for t in stage.outputs]
        self._given: list[TensorRecord] = []
        self._made: list[TensorRecord] = []

    def load(self, arrays: Sequence[Array]) -> None:
        self._given = []
        for addr, t, array in zip(self._inputs, self._stage.inputs, arrays, strict=True):
            self._device.write(addr, array)
            self._given.append(TensorRecord(array.shape, DType(t.dtype), addr=addr))

    def calculate(self) -> tuple[float, ...]:
        outputs = [
            TensorRecord(t.shape, DType(t.dtype), addr=addr)
            for addr, t in zip(self._outputs, self._stage.outputs, strict=True)
        ]
        start = time.perf_counter()
        self._made = self._device.run_program(
            self._program,
            self._program_bytes,
            self._given,
            outputs,
            self._context,
            self._stage.ctx_size,
            self._coeff,
        )
        return (time.perf_counter() - start,)

    def outputs(self) -> list[Array]:
        arrays = []
        for addr, t, made in zip(self._outputs, self._stage.outputs, self._made, strict=True):
            if made.dtype != t.dtype or made.nbytes > t.size:
                raise DeviceError(
                    f"{self._where}: output {t.name!r} is {list(made.shape)} {made.dtype.numpy_name}; "
                    f"compiled was {list(t.shape)} {DType(t.dtype).numpy_name} at most"
                )
            arrays.append(self._device.read_array(addr, made.shape, DType(t.dtype).numpy_name))
        return arrays


class LoadedNet:
    """One net in device memory. The constructor frees what it allocated when it fails."""

    def __init__(self, device: DeviceApi, net: Net) -> None:
        self._memory = Memory(device)
        try:
            # One context serves all stages, because only one of them runs at a time.
            context = self._memory.alloc(max(stage.ctx_size for stage in net.stages))
            make: Callable[[Memory, str, Stage, int], StaticStage | DynamicStage]
            make = DynamicStage if net.is_dynamic else StaticStage
            self._stages = [
                make(self._memory, f"net {net.name!r} stage {i}", stage, context)
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
        return Ran(outputs, index, t1 - t0, t2 - t1, time.perf_counter() - t2, subnets)

    def free(self) -> None:
        self._memory.free()
