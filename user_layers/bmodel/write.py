"""CompiledNet -> bmodel bytes, in the vendor's format.

The same nets and the same time give the same bytes. Everything is written as the vendor's tools
expect it: command groups both in the net and in its subnets, constants with their SHA-256, equal
binaries stored once, and the context behind the constants, because the vendor's runtime tells them
apart by address.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.chip import STATIC_CONTEXT_START
from firmware_sim.errors import ModelError, UsageError
from user_layers.bmodel.container import Pool, pack, read_packed
from user_layers.bmodel.generated.CmdGroup import CmdGroupT
from user_layers.bmodel.generated.CoeffMem import CoeffMemT
from user_layers.bmodel.generated.CpuParam import CpuParamT
from user_layers.bmodel.generated.Model import ModelT
from user_layers.bmodel.generated.Net import NetT
from user_layers.bmodel.generated.NetParameter import NetParameterT
from user_layers.bmodel.generated.Shape import ShapeT
from user_layers.bmodel.generated.StageIR import StageIRT
from user_layers.bmodel.generated.SubNet import SubNetT
from user_layers.bmodel.generated.Tensor import TensorT
from user_layers.bmodel.manifest import Manifest, ProgramUse
from user_layers.bmodel.model import (
    CHIP,
    CPU_USER_DEFINED,
    ONNX_PARAM,
    SUBNET_CPU,
    SUBNET_TPU,
    TYPE,
    VERSION,
    BModel,
)
from user_layers.files import write_atomic

if TYPE_CHECKING:  # the compiler imports this package
    from firmware_sim.wire import CommandGroup
    from user_layers.net.compiled import CompiledNet, NetTensor, Stage, Subnet

MEM_TPU, MEM_CPU = 1, 2  # flags of Tensor.mem_type


def save(path: Path, nets: CompiledNet | Sequence[CompiledNet], *, created: int | None = None) -> None:
    """Write the nets into one bmodel file, in one step: a failure leaves no half file behind."""
    write_atomic(path, write(nets, created=created))


def write(nets: CompiledNet | Sequence[CompiledNet], *, created: int | None = None) -> bytes:
    """The bytes of a bmodel with these nets.

    created: seconds since 1970; without it SOURCE_DATE_EPOCH, and without that the clock. Raises
    ModelError when the nets cannot be stored (two of one name, stages that differ in more than their
    shapes, addresses that a runtime could not relocate).
    """
    return pack(*_packed(nets, created))


def as_read(nets: CompiledNet | Sequence[CompiledNet]) -> BModel:
    """What `read` says of the bmodel that `write` makes, with constants that are the nets' own; errors as of
    `write`."""
    return read_packed(*_packed(nets, None))


def _packed(nets: CompiledNet | Sequence[CompiledNet], created: int | None) -> tuple[ModelT, Pool]:
    listed = list(nets) if isinstance(nets, Sequence) else [nets]
    if not listed:
        raise ModelError("a bmodel needs at least one net")
    names = [net.name for net in listed]
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"two nets are named {name!r}" if name else "a net has no name"
            raise ModelError(f"{problem}; nets of a bmodel are chosen by name")
    pool = Pool()
    model = ModelT()
    model.type = TYPE
    model.version = ".".join(map(str, VERSION))
    model.time = time.asctime(time.gmtime(_created(created)))
    model.chip = CHIP
    model.net = [_net(net, pool) for net in listed]
    model.neuronSize = max(p.ctxSize for net in model.net for p in net.parameter)
    return model, pool


def _created(created: int | None) -> int:
    if created is not None:
        return created
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if text is None:
        return int(time.time())
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"SOURCE_DATE_EPOCH is {text!r}", hint="set it to seconds since 1970, or unset it")
    return int(text)


def tool_name() -> str:
    """Who wrote the file."""
    try:
        return f"tpulayer {metadata.version('tpulayer')}"
    except metadata.PackageNotFoundError:
        return "tpulayer (not installed)"


def _net(net: CompiledNet, pool: Pool) -> NetT:
    if not net.stages:
        raise ModelError(f"net {net.name!r} has no stage")
    _check_stages(net)
    made = NetT()
    made.name = net.name
    made.parameter = [_parameter(net, stage, pool) for stage in net.stages]
    return made


def _check_stages(net: CompiledNet) -> None:
    """Stages are the same net for other shapes: all else must be equal, and the shapes must differ."""
    first = net.stages[0]
    seen: dict[tuple[tuple[int, ...], ...], int] = {}
    for index, stage in enumerate(net.stages):
        where = f"net {net.name!r}: stage {index}"
        if stage.is_dynamic != first.is_dynamic:
            raise ModelError(f"{where} is {'dynamic' if stage.is_dynamic else 'static'}, stage 0 is not")
        for what in ("inputs", "outputs"):
            mine, other = ([(t.name, t.dtype) for t in getattr(s, what)] for s in (stage, first))
            if mine != other:
                raise ModelError(f"{where} has the {what} {mine}, stage 0 has {other}")
        shapes = tuple(t.shape for t in stage.inputs)
        if shapes in seen:
            raise ModelError(f"{where} has the same input shapes as stage {seen[shapes]}")
        seen[shapes] = index


def _parameter(net: CompiledNet, stage: Stage, pool: Pool) -> NetParameterT:
    _check_addresses(net.name, stage)
    made = NetParameterT()
    on_host = _host_tensors(stage)
    made.inputTensor = [_tensor(t, on_host) for t in stage.inputs]
    made.outputTensor = [_tensor(t, on_host) for t in stage.outputs]
    made.cpuMemSize = sum(_words(t) for t in on_host.values())
    made.coreNum = 1
    made.isDynamic, made.nDynamic = int(stage.is_dynamic), int(stage.n_dynamic)
    made.hWDynamic = int(stage.h_w_dynamic)
    made.ctxAddr, made.ctxSize = stage.ctx_addr, stage.ctx_bytes
    made.coeffMem = _coeff(stage.coeff_addr, stage.coeff, pool)
    ir = bytearray()
    programs: list[ProgramUse] = []
    made.subNet = [_subnet(subnet, on_host, pool, ir, programs) for subnet in stage.subnets]
    if len(made.subNet) > 1:
        for i, entry in enumerate(made.subNet):
            entry.id, entry.nextSubnetIds = i, [i + 1] if i + 1 < len(made.subNet) else []
    made.cmdGroup = [group for entry in made.subNet for group in entry.cmdGroup or ()]
    if ir:
        made.binaryIr = pool.add(bytes(ir))
        stage_ir = StageIRT()
        stage_ir.irInfoLen = len(ir) // 4
        made.stageIr = [stage_ir]
        for entry in made.subNet:
            entry.nDynamic = made.nDynamic if entry.isDynamic else 0
            entry.hWDynamic = made.hWDynamic if entry.isDynamic else 0
    varying = tuple(t.name for t in stage.outputs if t.varies)
    c_fixed = stage.is_dynamic and not stage.c_dynamic
    made.netStat = pool.add(Manifest(tool_name(), net.layers, tuple(programs), varying, c_fixed).encode())
    return made


def _subnet(
    subnet: Subnet, on_host: dict[str, NetTensor], pool: Pool, ir: bytearray, programs: list[ProgramUse]
) -> SubNetT:
    """One subnet; a dynamic one's program goes into `ir`, each behind the one before it."""
    from user_layers.net.compiled import CpuBody, StaticBody

    made = SubNetT()
    made.subnetMode = SUBNET_TPU
    made.inputTensor = [_tensor(t, on_host) for t in subnet.inputs]
    made.outputTensor = [_tensor(t, on_host) for t in subnet.outputs]
    body = subnet.body
    if isinstance(body, StaticBody):
        made.cmdGroup = [_group(group, pool) for group in body.groups]
    elif isinstance(body, CpuBody):
        made.subnetMode = SUBNET_CPU
        param = CpuParamT()
        param.opType, param.isCustom = CPU_USER_DEFINED, 1
        param.binaryParam = pool.add(ONNX_PARAM + body.model)
        made.cpuParam = [param]
    else:
        made.isDynamic = 1
        made.irOffset, made.irLen = len(ir), -(-len(body.program) // 4)
        ir += body.program + bytes(-len(body.program) % 4)
        programs.append(ProgramUse(len(body.program), body.arena_addr, body.arena_bytes))
    return made


def _group(group: CommandGroup, pool: Pool) -> CmdGroupT:
    entry = CmdGroupT()
    entry.bdcNum, entry.gdmaNum = group.bd_num, group.gdma_num
    entry.bdcCmdByte, entry.gdmaCmdByte = len(group.bd), len(group.gdma)
    entry.binaryBdc, entry.binaryGdma = pool.add(group.bd), pool.add(group.gdma)
    return entry


def _check_addresses(name: str, stage: Stage) -> None:
    """Everything lies where a runtime can move it: constants first, then the context. ModelError."""
    if stage.ctx_addr < STATIC_CONTEXT_START:
        raise ModelError(
            f"net {name!r}: context at {stage.ctx_addr:#x}; it cannot start below {STATIC_CONTEXT_START:#x}"
        )
    coeff_bytes = len(stage.coeff)
    if coeff_bytes and not STATIC_CONTEXT_START <= stage.coeff_addr <= stage.ctx_addr - coeff_bytes:
        raise ModelError(
            f"net {name!r}: constants at {stage.coeff_addr:#x} with {coeff_bytes} bytes; they must lie "
            f"between {STATIC_CONTEXT_START:#x} and the context at {stage.ctx_addr:#x}"
        )
    ends = {t.name for t in (*stage.inputs, *stage.outputs)} if stage.is_dynamic else set()
    areas = ((stage.ctx_addr, stage.ctx_bytes), (stage.coeff_addr, coeff_bytes))
    inner = (t for subnet in stage.subnets for t in (*subnet.inputs, *subnet.outputs))
    for t in (*stage.inputs, *stage.outputs, *inner):
        inside = any(start <= t.addr <= start + size - t.nbytes for start, size in areas)
        if t.name not in ends and not inside:
            raise ModelError(
                f"net {name!r}: {t.name} at {t.addr:#x} with {t.nbytes} bytes is outside the context "
                f"({stage.ctx_bytes} bytes at {stage.ctx_addr:#x})"
            )


def _host_tensors(stage: Stage) -> dict[str, NetTensor]:
    """What CPU subnets read or make, by name, in order."""
    from user_layers.net.compiled import CpuBody

    return {
        t.name: t
        for subnet in stage.subnets
        if isinstance(subnet.body, CpuBody)
        for t in (*subnet.inputs, *subnet.outputs)
    }


def _coeff(addr: int, data: bytes, pool: Pool) -> CoeffMemT | None:
    if not data:
        return None
    made = CoeffMemT()
    made.address = addr
    made.checkCode = list(hashlib.sha256(data).digest())
    made.binaryCoeff = pool.add(data)
    return made


def _tensor(tensor: NetTensor, on_host: dict[str, NetTensor]) -> TensorT:
    made = TensorT()
    made.name = tensor.name
    made.dataType = int(tensor.dtype)
    made.gmemStmode = int(tensor.store_mode)
    made.scale = tensor.scale or 1.0
    made.deviceAddr = tensor.addr
    made.size = tensor.nbytes
    made.memType = MEM_TPU
    if tensor.name in on_host:
        made.memType = MEM_TPU | MEM_CPU
        before = itertools.takewhile(lambda name: name != tensor.name, on_host)
        made.cpuAddr = sum(_words(on_host[name]) for name in before)
    shape = ShapeT()
    shape.dim = list(tensor.shape)
    made.shape = [shape]
    return made


def _words(tensor: NetTensor) -> int:
    """Its place in host memory, in the format's 32-bit elements."""
    return -(-tensor.nbytes // 4)
