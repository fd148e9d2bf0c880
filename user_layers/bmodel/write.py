"""CompiledNet -> bmodel bytes, in the vendor's format.

The same nets and the same time give the same bytes. Everything is written as the vendor's tools
expect it: command groups both in the net and in its one subnet, constants with their SHA-256, equal
binaries stored once, and the context behind the constants, because the vendor's runtime tells them
apart by address.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import flatbuffers

from firmware_sim.chip import STATIC_CONTEXT_START
from firmware_sim.errors import ModelError, UsageError
from user_layers.bmodel.generated.Binary import BinaryT
from user_layers.bmodel.generated.CmdGroup import CmdGroupT
from user_layers.bmodel.generated.CoeffMem import CoeffMemT
from user_layers.bmodel.generated.Model import ModelT
from user_layers.bmodel.generated.Net import NetT
from user_layers.bmodel.generated.NetParameter import NetParameterT
from user_layers.bmodel.generated.Shape import ShapeT
from user_layers.bmodel.generated.StageIR import StageIRT
from user_layers.bmodel.generated.SubNet import SubNetT
from user_layers.bmodel.generated.Tensor import TensorT
from user_layers.bmodel.manifest import Manifest
from user_layers.bmodel.model import CHIP, HEADER_BYTES, MAGIC, SUBNET_TPU, TYPE, VERSION
from user_layers.files import write_atomic

if TYPE_CHECKING:  # the compiler imports this package
    from user_layers.compiler.result import CompiledNet, DynamicBody, NetTensor, Stage, StaticBody

CONTEXT_ALIGN = 4096
MEM_TPU = 1
_U32_MAX = 0xFFFF_FFFF


def save(path: Path, nets: CompiledNet | Sequence[CompiledNet], *, created: int | None = None) -> None:
    """Write the nets into one bmodel file, in one step: a failure leaves no half file behind."""
    write_atomic(path, write(nets, created=created))


def write(nets: CompiledNet | Sequence[CompiledNet], *, created: int | None = None) -> bytes:
    """The bytes of a bmodel with these nets.

    created: seconds since 1970; without it SOURCE_DATE_EPOCH, and without that the clock. Raises
    ModelError when the nets cannot be stored (two of one name, stages that differ in more than their
    shapes, addresses that a runtime could not relocate).
    """
    listed = list(nets) if isinstance(nets, Sequence) else [nets]
    if not listed:
        raise ModelError("a bmodel needs at least one net")
    names = [net.name for net in listed]
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"two nets are named {name!r}" if name else "a net has no name"
            raise ModelError(f"{problem}; nets of a bmodel are chosen by name")
    pool = _Pool()
    model = ModelT()
    model.type = TYPE
    model.version = ".".join(map(str, VERSION))
    model.time = time.asctime(time.gmtime(_created(created)))
    model.chip = CHIP
    model.net = [_net(net, pool) for net in listed]
    model.neuronSize = max(p.ctxSize for net in model.net for p in net.parameter)
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder))
    table = bytes(builder.Output())
    if len(table) > _U32_MAX or len(pool.data) > _U32_MAX:
        raise ModelError(f"bmodel too large: {len(pool.data)} bytes of binary data, at most 4 GiB")
    header = struct.pack("<4I48x", MAGIC, HEADER_BYTES, len(table), len(pool.data))
    return header + table + bytes(pool.data)


class _Pool:
    """The binary part: equal pieces are stored once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._known: dict[bytes, int] = {}

    def add(self, piece: bytes) -> BinaryT:
        start = self._known.get(piece)
        if start is None:
            start = self._known[piece] = len(self.data)
            self.data += piece
        binary = BinaryT()
        binary.start, binary.size = start, len(piece)
        return binary


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


def _net(net: CompiledNet, pool: _Pool) -> NetT:
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


def _parameter(net: CompiledNet, stage: Stage, pool: _Pool) -> NetParameterT:
    from user_layers.compiler.result import DynamicBody

    made = NetParameterT()
    made.inputTensor = [_tensor(t) for t in stage.inputs]
    made.outputTensor = [_tensor(t) for t in stage.outputs]
    made.coreNum = 1
    made.isDynamic = int(stage.is_dynamic)
    subnet = SubNetT()
    subnet.subnetMode = SUBNET_TPU
    subnet.inputTensor = made.inputTensor
    subnet.outputTensor = made.outputTensor
    subnet.isDynamic = made.isDynamic
    made.subNet = [subnet]
    program_bytes = 0
    if isinstance(stage.body, DynamicBody):
        program_bytes = len(stage.body.program)
        _dynamic(made, stage.body, pool)
    else:
        _static(made, net.name, stage, stage.body, pool)
    manifest = Manifest(tool_name(), net.layers, program_bytes)
    made.netStat = pool.add(manifest.encode())
    return made


def _static(made: NetParameterT, name: str, stage: Stage, body: StaticBody, pool: _Pool) -> None:
    made.ctxAddr, made.ctxSize = body.ctx_addr, body.ctx_bytes
    if body.ctx_addr < STATIC_CONTEXT_START:
        raise ModelError(
            f"net {name!r}: context at {body.ctx_addr:#x}; it cannot start below {STATIC_CONTEXT_START:#x}"
        )
    if body.coeff and not STATIC_CONTEXT_START <= body.coeff_addr <= body.ctx_addr - len(body.coeff):
        raise ModelError(
            f"net {name!r}: constants at {body.coeff_addr:#x} with {len(body.coeff)} bytes; they must lie "
            f"between {STATIC_CONTEXT_START:#x} and the context at {body.ctx_addr:#x}"
        )
    for t in (*stage.inputs, *stage.outputs):
        if not body.ctx_addr <= t.addr <= body.ctx_addr + body.ctx_bytes - t.nbytes:
            raise ModelError(
                f"net {name!r}: {t.name} at {t.addr:#x} with {t.nbytes} bytes is outside the context "
                f"({body.ctx_bytes} bytes at {body.ctx_addr:#x})"
            )
    made.coeffMem = _coeff(body.coeff_addr, body.coeff, pool)
    made.cmdGroup = []
    for group in body.groups:
        entry = CmdGroupT()
        entry.bdcNum, entry.gdmaNum = group.bd_num, group.gdma_num
        entry.bdcCmdByte, entry.gdmaCmdByte = len(group.bd), len(group.gdma)
        entry.binaryBdc, entry.binaryGdma = pool.add(group.bd), pool.add(group.gdma)
        made.cmdGroup.append(entry)
    made.subNet[0].cmdGroup = made.cmdGroup


def _dynamic(made: NetParameterT, body: DynamicBody, pool: _Pool) -> None:
    coeff_end = STATIC_CONTEXT_START + len(body.coeff)
    made.ctxAddr = coeff_end + -coeff_end % CONTEXT_ALIGN
    made.ctxSize = body.neuron_bytes
    made.coeffMem = _coeff(STATIC_CONTEXT_START, body.coeff, pool)
    made.nDynamic, made.hWDynamic = int(body.n_dynamic), int(body.h_w_dynamic)
    padded = body.program + bytes(-len(body.program) % 4)
    made.binaryIr = pool.add(padded)
    stage_ir = StageIRT()
    stage_ir.irInfoLen = len(padded) // 4
    made.stageIr = [stage_ir]
    subnet = made.subNet[0]
    subnet.irOffset, subnet.irLen = 0, stage_ir.irInfoLen
    subnet.nDynamic, subnet.hWDynamic = made.nDynamic, made.hWDynamic


def _coeff(addr: int, data: bytes, pool: _Pool) -> CoeffMemT | None:
    if not data:
        return None
    made = CoeffMemT()
    made.address = addr
    made.checkCode = list(hashlib.sha256(data).digest())
    made.binaryCoeff = pool.add(data)
    return made


def _tensor(tensor: NetTensor) -> TensorT:
    made = TensorT()
    made.name = tensor.name
    made.dataType = int(tensor.dtype)
    made.gmemStmode = int(tensor.store_mode)
    made.deviceAddr = tensor.addr
    made.size = tensor.nbytes
    made.memType = MEM_TPU
    shape = ShapeT()
    shape.dim = list(tensor.shape)
    made.shape = [shape]
    return made
