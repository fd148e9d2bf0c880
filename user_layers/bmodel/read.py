"""bmodel bytes -> checked Python objects.

Nothing of the file is trusted: the header against the file's length, the flatbuffer by verify.py,
then every offset into the binary part and every count that something else must agree with. Damaged
and foreign files give a ModelError that says what is wrong and where.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from firmware_sim.chip import DESCRIPTOR_BYTES, MAX_SHAPE_DIMS
from firmware_sim.errors import ModelError
from firmware_sim.wire import CommandGroup
from user_layers.bmodel import manifest
from user_layers.bmodel.generated.Model import Model as ModelTable
from user_layers.bmodel.model import (
    CHIP,
    HEADER_BYTES,
    MAGIC,
    SHA256_BYTES,
    SUBNET_CPU,
    TYPE,
    VERSION,
    BModel,
    Coeff,
    CpuLayer,
    Module,
    Net,
    Stage,
    SubNet,
    Tensor,
)
from user_layers.bmodel.verify import verify
from user_layers.files import read_input

MAX_CTX_BLOCKS = 64
MAX_OVERLAP = 4  # writers store equal pieces once; pieces that overlap otherwise do not occur
# The vendor's compiler counts the bits of what it hashes in 32 bits, so from here on its SHA-256 is none.
UNCHECKED_BYTES = 1 << 29
_MAX_DIM = (1 << 31) - 1
_MAGIC_BMTAP2 = 0xFF55AAFF


def read(source: Path | str | bytes) -> BModel:
    """Read a bmodel from a file or from its bytes. Raises ModelError for anything but a sound one."""
    if isinstance(source, bytes):
        return _Reader(*_parts(source)).model()
    path = Path(source)
    data = file_bytes(path)
    try:
        return _Reader(*_parts(data)).model()
    except ModelError as error:
        raise ModelError(f"{path}: {error.message}", hint=error.hint) from error


def read_parts(table: bytes, size: int, pieces: Mapping[tuple[int, int], bytes]) -> BModel:
    """The same of a file's flatbuffer and of its binary data, given in pieces: by start and size, all that
    the flatbuffer names. size: of all of it."""
    return _Reader(table, size, pieces).model()


def file_bytes(path: Path) -> bytes:
    """A file's content. ModelError when it cannot be had."""
    try:
        return read_input(path)
    except OSError as error:
        raise ModelError(f"cannot read the bmodel {path}: {error.strerror or error}") from error


def _parts(data: bytes) -> tuple[bytes, int, _Cut]:
    """The flatbuffer of a file, and its binary data."""
    if len(data) >= 4:
        magic: int = struct.unpack_from("<I", data)[0]
        if magic == _MAGIC_BMTAP2:
            raise ModelError("bmodel of the older bmtap2 kind, which has another format")
        if magic != MAGIC:
            raise ModelError(f"not a bmodel: starts with {magic:#010x}, not {MAGIC:#010x}")
    if len(data) < HEADER_BYTES:
        raise ModelError(f"truncated bmodel: {len(data)} bytes, its header alone has {HEADER_BYTES}")
    header_size, table_size, binary_size = struct.unpack_from("<3I", data, 4)
    if header_size != HEADER_BYTES:
        raise ModelError(f"damaged bmodel: header of {header_size} bytes, not {HEADER_BYTES}")
    start = HEADER_BYTES + table_size
    if len(data) < start:
        raise ModelError(f"truncated bmodel: flatbuffer to byte {start}, file of {len(data)} bytes")
    end = start + binary_size
    if len(data) < end:
        raise ModelError(f"truncated bmodel: binary data to byte {end}, file of {len(data)} bytes")
    if len(data) > end:
        raise ModelError(f"damaged bmodel: {len(data) - end} bytes follow its end at byte {end}")
    return data[HEADER_BYTES:start], binary_size, _Cut(memoryview(data)[start:])


class _Cut(dict[tuple[int, int], bytes]):
    """Pieces of binary data by start and size, cut out when they are first asked for."""

    def __init__(self, binary: memoryview) -> None:
        self._binary = binary

    def __missing__(self, place: tuple[int, int]) -> bytes:
        start, size = place
        self[place] = found = bytes(self._binary[start : start + size])
        return found


class _Reader:
    """table: the flatbuffer; size: bytes of the binary data; pieces: of it, by start and size."""

    def __init__(self, table: bytes, size: int, pieces: Mapping[tuple[int, int], bytes]) -> None:
        self.table = table
        self.size = size
        self.pieces = pieces
        self.asked: set[tuple[int, int]] = set()
        self.copied = 0
        self.checked: set[tuple[int, int, bytes]] = set()  # constants whose hash was right

    def model(self) -> BModel:
        verify(self.table)
        root = ModelTable.GetRootAs(self.table)
        model_type, version = _text(root.Type()), _text(root.Version())
        _check_version(model_type, version)
        chip = _text(root.Chip())
        if chip != CHIP:
            raise ModelError(f"bmodel for the chip {chip!r}; this is a {CHIP}", hint=f"compile it for {CHIP}")
        nets = tuple(self.net(t, f"net[{i}]") for i, t in enumerate(_all(root.Net, root.NetLength())))
        if not nets:
            raise ModelError("damaged bmodel: it has no net")
        if len({net.name for net in nets}) != len(nets):
            raise ModelError("damaged bmodel: two nets have the same name")
        return BModel(
            type=model_type,
            version=version,
            time=_text(root.Time()).strip(),
            chip=chip,
            nets=nets,
            device_num=root.DeviceNum(),
            kernel_module=self.module(root.KernelModule(), "kernel_module"),
            cpuop_module=self.module(root.CpuopModule(), "cpuop_module"),
        )

    def piece(self, binary: Any, path: str) -> bytes:
        """The bytes of a Binary; none for a missing one."""
        if binary is None:
            return b""
        start, size = binary.Start(), binary.Size()
        if start + size > self.size:
            raise ModelError(
                f"damaged bmodel: {path}: bytes {start} to {start + size} of {self.size} binary bytes"
            )
        if (start, size) not in self.asked:
            self.asked.add((start, size))
            self.copied += size
            if self.copied > MAX_OVERLAP * self.size:
                raise ModelError(f"damaged bmodel: {path}: pieces of binary data overlap over and over")
        return self.pieces[start, size]

    def module(self, table: Any, path: str) -> Module | None:
        if table is None:
            return None
        # The vendor's tools write an empty module where there is none.
        data = self.piece(table.Binary(), f"{path}.binary")
        return Module(_text(table.FileName()), data) if data else None

    def net(self, table: Any, path: str) -> Net:
        name = _text(table.Name())
        stages = tuple(
            self.stage(t, f"{path}.parameter[{i}]")
            for i, t in enumerate(_all(table.Parameter, table.ParameterLength()))
        )
        if not stages:
            old = table.NetStaticLength() or table.NetDynamicLength()
            why = "is stored in the form of old bmodels (net_static, net_dynamic)" if old else "has no stage"
            raise ModelError(f"{path}: net {name!r} {why}", hint="compile it again")
        return Net(name, stages, table.AddrMode(), table.Cascade() is not None)

    def stage(self, table: Any, path: str) -> Stage:
        groups = self.groups(table.CmdGroup, table.CmdGroupLength(), f"{path}.cmd_group")
        ir = self.piece(table.BinaryIr(), f"{path}.binary_ir")
        subnets = tuple(
            self.subnet(t, f"{path}.sub_net[{i}]", len(ir))
            for i, t in enumerate(_all(table.SubNet, table.SubNetLength()))
        )
        dynamic = bool(table.IsDynamic())
        if not subnets:
            subnets = (SubNet(0, groups, dynamic, 0, len(ir) // 4),)
        elif groups and not any(s.groups for s in subnets):
            # Files whose subnets leave their streams to the net have one TPU subnet.
            if len(subnets) > 1:
                raise ModelError(f"damaged bmodel: {path}: its command groups belong to none of its subnets")
            subnets = (replace(subnets[0], groups=groups),)
        blocks = table.CtxSizesLength()
        if blocks > MAX_CTX_BLOCKS:
            raise ModelError(f"damaged bmodel: {path}.ctx_sizes: {blocks} blocks, at most {MAX_CTX_BLOCKS}")
        sizes = tuple(int(table.CtxSizes(i)) for i in range(blocks)) or (table.CtxSize(),)
        where = f"{path}.net_stat"
        noted = manifest.decode(self.piece(table.NetStat(), where), where)
        return Stage(
            inputs=self.tensors(table.InputTensor, table.InputTensorLength(), f"{path}.input_tensor"),
            outputs=self.tensors(table.OutputTensor, table.OutputTensorLength(), f"{path}.output_tensor"),
            ctx_addr=table.CtxAddr(),
            ctx_sizes=sizes,
            coeff=self.coeff(table.CoeffMem(), f"{path}.coeff_mem"),
            is_dynamic=dynamic,
            n_dynamic=bool(table.NDynamic()),
            c_dynamic=dynamic and not (noted is not None and noted.c_fixed),
            h_w_dynamic=bool(table.HWDynamic()),
            subnets=subnets,
            ir=ir,
            cpu_mem_size=table.CpuMemSize(),
            core_num=table.CoreNum() or 1,
            io_addr=table.IoAddr(),
            io_size=table.IoSize(),
            manifest=noted,
        )

    def groups(self, get: Callable[[int], Any], count: int, path: str) -> tuple[CommandGroup, ...]:
        found = []
        for i, table in enumerate(_all(get, count)):
            streams = []
            for engine, number, binary in (
                ("bdc", table.BdcNum(), table.BinaryBdc()),
                ("gdma", table.GdmaNum(), table.BinaryGdma()),
            ):
                where = f"{path}[{i}].binary_{engine}"
                data = self.piece(binary, where)
                if len(data) != number * DESCRIPTOR_BYTES:
                    raise ModelError(
                        f"damaged bmodel: {where}: {len(data)} bytes, and {number} descriptors "
                        f"of {DESCRIPTOR_BYTES} bytes"
                    )
                streams.append(data)
            found.append(CommandGroup(*streams))
        return tuple(found)

    def subnet(self, table: Any, path: str, ir_bytes: int) -> SubNet:
        mode = table.SubnetMode()
        offset, words = table.IrOffset(), table.IrLen()
        if offset + 4 * words > ir_bytes >= offset + words:
            words //= 4  # newer compilers of the vendor count bytes
        end = offset + 4 * words
        if table.IsDynamic() and end > ir_bytes:
            raise ModelError(f"damaged bmodel: {path}: program to byte {end} of binary_ir with {ir_bytes}")
        constants = []
        cpu = None
        if mode == SUBNET_CPU:
            if table.CpuParamLength() != 1:
                raise ModelError(
                    f"damaged bmodel: {path}: {table.CpuParamLength()} CPU layers; a subnet has one"
                )
            for i, param in enumerate(_all(table.CpuParam, 1)):
                data = self.piece(param.BinaryParam(), f"{path}.cpu_param[{i}].binary_param")
                cpu = CpuLayer(param.OpType(), data)
                for k, const in enumerate(_all(param.CpuConst, param.CpuConstLength())):
                    where = f"{path}.cpu_param[{i}].cpu_const[{k}]"
                    size = len(self.piece(const.ConstData(), f"{where}.const_data"))
                    constants.append((_check_code(const, where), size))
        groups = self.groups(table.CmdGroup, table.CmdGroupLength(), f"{path}.cmd_group")
        return SubNet(
            mode,
            groups,
            bool(table.IsDynamic()),
            offset,
            words,
            inputs=self.tensors(table.InputTensor, table.InputTensorLength(), f"{path}.input_tensor"),
            outputs=self.tensors(table.OutputTensor, table.OutputTensorLength(), f"{path}.output_tensor"),
            cpu=cpu,
            host_const_sizes=tuple(constants),
        )

    def coeff(self, table: Any, path: str) -> Coeff | None:
        if table is None:
            return None
        binary = table.BinaryCoeff()
        data = self.piece(binary, f"{path}.binary_coeff")
        code = _check_code(table, path)
        if code and data:
            key = (binary.Start(), binary.Size(), code)
            if len(data) >= UNCHECKED_BYTES:
                self.checked.add(key)
            if key not in self.checked and hashlib.sha256(data).digest() != code:
                raise ModelError(f"damaged bmodel: {path}: the constants do not have their stored SHA-256")
            self.checked.add(key)
        return Coeff(table.Address(), data, code) if data else None

    def tensors(self, get: Callable[[int], Any], count: int, path: str) -> tuple[Tensor, ...]:
        return tuple(_tensor(t, f"{path}[{i}]") for i, t in enumerate(_all(get, count)))


def _tensor(table: Any, path: str) -> Tensor:
    name = _text(table.Name())
    if table.ShapeLength() == 0:
        raise ModelError(f"damaged bmodel: {path}: tensor {name!r} has no shape")
    shape = table.Shape(0)
    rank = shape.DimLength()
    if rank > MAX_SHAPE_DIMS:
        raise ModelError(f"damaged bmodel: {path}: {rank} dimensions, at most {MAX_SHAPE_DIMS}")
    dims = tuple(int(shape.Dim(i)) for i in range(rank))
    if not all(1 <= d <= _MAX_DIM for d in dims):
        raise ModelError(f"damaged bmodel: {path}: tensor {name!r} has the shape {list(dims)}")
    return Tensor(
        name=name,
        shape=dims,
        dtype=table.DataType(),
        store_mode=table.GmemStmode(),
        addr=table.DeviceAddr(),
        size=table.Size(),
        scale=table.Scale(),
        zero_point=table.ZeroPoint(),
        pad_h=table.PadH(),
        mem_type=table.MemType(),
    )


def _check_code(table: Any, path: str) -> bytes:
    count = table.CheckCodeLength()
    if count not in (0, SHA256_BYTES):
        raise ModelError(f"damaged bmodel: {path}.check_code: {count} bytes, a SHA-256 has {SHA256_BYTES}")
    return bytes(table.CheckCode(i) for i in range(count))


def _check_version(model_type: str, version: str) -> None:
    known = ".".join(map(str, VERSION))
    # newer compilers of the vendor add their own version: 2.2+v1.30
    if model_type != TYPE or re.fullmatch(r"\d{1,4}\.\d{1,4}(\+.{0,64})?", version, re.ASCII) is None:
        raise ModelError(f"bmodel of type {model_type!r} version {version!r}; known is {TYPE!r} {known}")
    major, minor = map(int, version.split("+")[0].split("."))
    if major != VERSION[0] or minor > VERSION[1]:
        age = "newer" if (major, minor) > VERSION else "older"
        raise ModelError(
            f"bmodel version {version} is {age} than what this tpulayer reads ({VERSION[0]}.0 to {known})",
            hint="update tpulayer" if age == "newer" else "compile it again",
        )


def _all(get: Callable[[int], Any], count: int) -> list[Any]:
    return [get(i) for i in range(count)]


def _text(value: bytes) -> str:
    return value.decode()
