"""A bmodel file as the vendor's tools see it: header, flatbuffer, binary part.

`Pool` collects the binary part, `pack` puts the three together, `unpack` takes a file apart into the objects
that flatc generated, for tools that pass nets on without knowing what is in them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers

from firmware_sim.errors import ModelError
from user_layers.bmodel.generated.Binary import BinaryT
from user_layers.bmodel.generated.Model import Model, ModelT
from user_layers.bmodel.model import HEADER_BYTES, MAGIC, BModel
from user_layers.bmodel.read import file_bytes, read, read_parts

_U32_MAX = 0xFFFF_FFFF


class Pool:
    """The binary part: equal pieces are stored once."""

    def __init__(self) -> None:
        self.size = 0
        self.pieces: dict[bytes, int] = {}
        """Where each lies, in their order."""

    def add(self, piece: bytes) -> BinaryT:
        """Where a piece lies in the binary part: appended, or where equal bytes already are."""
        start = self.pieces.get(piece)
        if start is None:
            start = self.pieces[piece] = self.size
            self.size += len(piece)
        binary = BinaryT()
        binary.start, binary.size = start, len(piece)
        return binary


def pack(model: ModelT, pool: Pool) -> bytes:
    """The file. ModelError when it is larger than its header can say."""
    table = _table(model, pool)
    header = struct.pack("<4I48x", MAGIC, HEADER_BYTES, len(table), pool.size)
    return b"".join((header, table, *pool.pieces))


def read_packed(model: ModelT, pool: Pool) -> BModel:
    """What `read` says of the file that `pack` makes, without making it: large pieces are there once."""
    pieces = {(at, len(one)): one for one, at in pool.pieces.items()}
    return read_parts(_table(model, pool), pool.size, pieces)


def _table(model: ModelT, pool: Pool) -> bytes:
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder))
    table = bytes(builder.Output())
    if len(table) > _U32_MAX or pool.size > _U32_MAX:
        raise ModelError(f"bmodel too large: {pool.size} bytes of binary data, at most 4 GiB")
    return table


@dataclass
class Unpacked:
    """A sound file: its objects, whose Binary pieces lie in `binary`, and the same as read() tells it."""

    path: Path
    checked: BModel
    model: ModelT
    binary: memoryview

    def piece(self, place: BinaryT) -> bytes:
        """The bytes that an object of this file names. ModelError when they reach beyond the binary part."""
        if place.start + place.size > len(self.binary):
            raise ModelError(
                f"damaged bmodel: {self.path}: bytes {place.start} to {place.start + place.size} of "
                f"{len(self.binary)} binary bytes"
            )
        return bytes(self.binary[place.start : place.start + place.size])

    def move(self, part: Any, pool: Pool) -> None:
        """Put the pieces that an object of this file names into a pool, and let it name them there."""
        for place in _binaries(part):
            moved = pool.add(self.piece(place))
            place.start, place.size = moved.start, moved.size


def unpack(path: Path) -> Unpacked:
    """A file in its parts. ModelError as for read()."""
    data = file_bytes(path)
    try:
        checked = read(data)
    except ModelError as error:
        raise ModelError(f"{path}: {error.message}", hint=error.hint) from error
    (table_size,) = struct.unpack_from("<I", data, 8)
    end = HEADER_BYTES + table_size
    model = ModelT.InitFromObj(Model.GetRootAs(data[HEADER_BYTES:end]))
    return Unpacked(path, checked, model, memoryview(data)[end:])


def _binaries(part: Any) -> Iterator[BinaryT]:
    """Every Binary in a generated object, each once."""
    if isinstance(part, BinaryT):
        yield part
    elif isinstance(part, list):
        for element in part:
            yield from _binaries(element)
    elif hasattr(part, "__dict__"):
        for value in vars(part).values():
            yield from _binaries(value)
