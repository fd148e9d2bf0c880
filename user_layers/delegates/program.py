"""Compiled partitions as bytes, which frameworks carry in their files and libtpulayer_delegate.so loads.

Little endian, without padding: a head, a record for each partition, then what the records point to (places
are counted from the beginning; records begin at multiples of 8). The twin is sdk/delegate/core/program.c.

    head       magic, version, number of partitions, bytes of all, CRC-32 of what follows the head
    partition  flags (1: dynamic), bytes of the name, numbers of inputs, outputs and layers, zero; places of
               the name, of the tensors (inputs, then outputs), of the layers, of the bmodel; bytes of that
    tensor     place of its name; bytes of that, dtype, the net's dtype, rank, its index in the net (-1: the
               net has not got it), zero; eight extents, eight axes of the buffer in the net's order
    layer      place of its name, cycles, place of its operations (32 bits each); bytes of the name, number of
               operations
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

import numpy as np

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.errors import CompileError, ModelError
from firmware_sim.shown import brief
from user_layers.onnx.types import held_as
from user_layers.spelling.spell import Border

MAGIC = b"TPLDPRG\0"
VERSION = 1
MOST_PARTITIONS = 4096
_MOST_NAME = 4096
_MOST_TENSORS = 4096
_MOST_LAYERS = 1 << 20
_MOST_EXTENT = (1 << 31) - 1
_HEAD = struct.Struct("<8sIIQII")
_PARTITION = struct.Struct("<6I5Q")
_TENSOR = struct.Struct(f"<QIiiIiI{MAX_SHAPE_DIMS}q{MAX_SHAPE_DIMS}i")
_LAYER = struct.Struct("<QQQII")
_DYNAMIC = 1
# Codes of tpld_dtype; the first ones are bm_data_type_t's.
CODES = {
    np.dtype(name): code
    for name, code in {
        "float32": 0,
        "float16": 1,
        "int8": 2,
        "uint8": 3,
        "int16": 4,
        "uint16": 5,
        "int32": 6,
        "uint32": 7,
        "int64": 64,
        "bool": 65,
    }.items()
}
DTYPES = {code: dtype for dtype, code in CODES.items()}


@dataclass(frozen=True)
class LayerTime:
    """One layer of a net. operations: indices of the model's operations that it comes from; cycles: modelled,
    its share of the net's time."""

    name: str
    operations: tuple[int, ...]
    cycles: int


@dataclass(frozen=True)
class Partition:
    """A compiled part of a framework's model. bmodel: one net of the partition's name.

    inputs, outputs: the framework's buffers. input_places, output_places: for each the index among the net's
    inputs or outputs, -1 for one that the net does not have (it reads it not, or it has no elements). layers:
    in the order in which they run.
    """

    name: str
    bmodel: bytes = field(repr=False)
    inputs: tuple[Border, ...]
    outputs: tuple[Border, ...]
    input_places: tuple[int, ...]
    output_places: tuple[int, ...]
    layers: tuple[LayerTime, ...] = ()
    dynamic: bool = False

    @property
    def cycles(self) -> int:
        """Modelled time of all layers."""
        return sum(layer.cycles for layer in self.layers)

    __repr__ = brief


class _Writer:
    """Bytes behind the head and the partitions' records, and where they lie. `base`: where they begin."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.data = bytearray()

    def add(self, piece: bytes) -> int:
        self.data += bytes(-len(self.data) % 8)
        at = self.base + len(self.data)
        self.data += piece
        return at


def pack(partitions: Sequence[Partition]) -> bytes:
    """The bytes of partitions of different names. CompileError for a tensor that no device holds, or for
    names that are not different."""
    names = [partition.name for partition in partitions]
    if len(set(names)) != len(names):
        raise CompileError("two partitions have the same name", hint="give each a name of its own")
    writer = _Writer(_HEAD.size + _PARTITION.size * len(partitions))
    records = b"".join(_packed(partition, writer) for partition in partitions)
    body = records + bytes(writer.data)
    head = _HEAD.pack(MAGIC, VERSION, len(partitions), _HEAD.size + len(body), zlib.crc32(body), 0)
    return head + body


def _packed(partition: Partition, writer: _Writer) -> bytes:
    name = partition.name.encode()
    name_at = writer.add(name)
    tensors = [
        _packed_tensor(border, place, writer)
        for borders, places in (
            (partition.inputs, partition.input_places),
            (partition.outputs, partition.output_places),
        )
        for border, place in zip(borders, places, strict=True)
    ]
    layers = [_packed_layer(layer, writer) for layer in partition.layers]
    return _PARTITION.pack(
        _DYNAMIC if partition.dynamic else 0,
        len(name),
        len(partition.inputs),
        len(partition.outputs),
        len(layers),
        0,
        name_at,
        writer.add(b"".join(tensors)),
        writer.add(b"".join(layers)),
        writer.add(partition.bmodel),
        len(partition.bmodel),
    )


def _packed_tensor(border: Border, place: int, writer: _Writer) -> bytes:
    held = held_as(border.dtype)
    if held is None or len(border.shape) > MAX_SHAPE_DIMS:
        raise CompileError(
            f"{border.name!r} {border.dtype} {list(border.shape)} is nothing that the device holds"
        )
    name, rest = border.name.encode(), (0,) * (MAX_SHAPE_DIMS - len(border.shape))
    return _TENSOR.pack(
        writer.add(name),
        len(name),
        CODES[border.dtype],
        CODES[held],
        len(border.shape),
        place,
        0,
        *(*border.shape, *rest),
        *(*border.order, *rest),
    )


def _packed_layer(layer: LayerTime, writer: _Writer) -> bytes:
    name = layer.name.encode()
    operations = struct.pack(f"<{len(layer.operations)}I", *layer.operations)
    return _LAYER.pack(
        writer.add(name), layer.cycles, writer.add(operations), len(name), len(layer.operations)
    )


def unpack(program: bytes) -> tuple[Partition, ...]:
    """The partitions that `pack` made these bytes of. ModelError for anything else."""
    if len(program) < _HEAD.size or not program.startswith(MAGIC):
        raise ModelError("this is no compiled partition: its first bytes are others")
    _, version, count, size, crc, _ = _HEAD.unpack_from(program)
    if version != VERSION:
        raise ModelError(
            f"compiled partitions of version {version}; this toolkit reads version {VERSION}",
            hint="compile the model again",
        )
    if size != len(program) or count > MOST_PARTITIONS or zlib.crc32(program[_HEAD.size :]) != crc:
        raise ModelError("damaged partitions: their bytes are not those that were compiled")
    reader = _Reader(program)
    return tuple(_unpacked(reader, _HEAD.size + i * _PARTITION.size) for i in range(count))


class _Reader:
    """Pieces of a program. ModelError for what does not lie in it."""

    def __init__(self, program: bytes) -> None:
        self.program = program
        self.room = len(program)  # bytes that layers may still have: each has its own

    def piece(self, at: int, size: int) -> bytes:
        if at + size > len(self.program):
            raise ModelError(f"damaged partitions: {size} bytes at {at} of {len(self.program)}")
        return self.program[at : at + size]

    def text(self, at: int, size: int) -> str:
        if size > _MOST_NAME:
            raise ModelError(f"damaged partitions: a name of {size} bytes")
        try:
            return self.piece(at, size).decode()
        except UnicodeDecodeError:
            raise ModelError("damaged partitions: a name is not UTF-8") from None

    def fields(self, kind: struct.Struct, at: int, index: int = 0) -> tuple[int, ...]:
        return kind.unpack(self.piece(at + index * kind.size, kind.size))


def _unpacked(reader: _Reader, at: int) -> Partition:
    flags, name_bytes, ins, outs, layer_num, _, name_at, tensors_at, layers_at, bmodel_at, bmodel_bytes = (
        reader.fields(_PARTITION, at)
    )
    if max(ins, outs) > _MOST_TENSORS or layer_num > _MOST_LAYERS:
        raise ModelError(f"damaged partitions: {ins} inputs, {outs} outputs, {layer_num} layers")
    reader.piece(tensors_at, _TENSOR.size * (ins + outs))
    reader.piece(layers_at, _LAYER.size * layer_num)
    tensors = [_unpacked_tensor(reader, tensors_at, i) for i in range(ins + outs)]
    borders, places = [border for border, _ in tensors], [place for _, place in tensors]
    return Partition(
        reader.text(name_at, name_bytes),
        reader.piece(bmodel_at, bmodel_bytes),
        tuple(borders[:ins]),
        tuple(borders[ins:]),
        tuple(places[:ins]),
        tuple(places[ins:]),
        tuple(_unpacked_layer(reader, layers_at, i) for i in range(layer_num)),
        bool(flags & _DYNAMIC),
    )


def _unpacked_tensor(reader: _Reader, at: int, index: int) -> tuple[Border, int]:
    name_at, name_bytes, dtype, held, rank, place, _, *rest = reader.fields(_TENSOR, at, index)
    name = reader.text(name_at, name_bytes)
    if rank > MAX_SHAPE_DIMS or dtype not in DTYPES:
        raise ModelError(f"damaged partitions: {name!r} has {rank} dimensions and the type {dtype}")
    shape, order = tuple(rest[:rank]), tuple(rest[MAX_SHAPE_DIMS : MAX_SHAPE_DIMS + rank])
    kind = held_as(DTYPES[dtype])
    if kind is None or held != CODES[kind] or min(shape, default=0) < 0 or sorted(order) != [*range(rank)]:
        raise ModelError(f"damaged partitions: {name!r} {list(shape)} with its axes as {list(order)}")
    if max((*shape, 0)) > _MOST_EXTENT or max(accumulate(shape, mul), default=0) > 1 << 40:
        raise ModelError(f"damaged partitions: {name!r} has the shape {list(shape)}")
    return Border(name, shape, DTYPES[dtype], order), place


def _unpacked_layer(reader: _Reader, at: int, index: int) -> LayerTime:
    name_at, cycles, operations_at, name_bytes, count = reader.fields(_LAYER, at, index)
    reader.room -= 4 * count + name_bytes
    if reader.room < 0:
        raise ModelError("damaged partitions: layers share what they have")
    operations = struct.unpack(f"<{count}I", reader.piece(operations_at, 4 * count))
    return LayerTime(reader.text(name_at, name_bytes), operations, cycles)
