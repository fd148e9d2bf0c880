"""Reading numpy's files, whoever wrote them: damage is a ValueError, whatever numpy makes of it.

What a header says of an array is known, and can be refused, before any of its data is unpacked: a few
kilobytes of a compressed file can claim, and hold, any number of gigabytes.
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# A header is a Python expression in a file in an archive, and each of the three fails in ways of its own.
_DAMAGED = (
    *(ValueError, KeyError, EOFError, AttributeError, TypeError, OverflowError, RecursionError, MemoryError),
    *(SyntaxError, RuntimeError, NotImplementedError, OSError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
_HEADER_BYTES = 1 << 16  # of plain arrays; structured ones could have more
_READERS: dict[tuple[int, int], Callable[[BinaryIO], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class Header:
    """What is said of an array in front of its data. data: where that begins, in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    data: int

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize

    def stand_in(self) -> Array:
        """An array of this shape and type that takes no memory: its elements are one and the same."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


class Archive:
    """An open .npz file: `headers`, by name, and the arrays. ValueError when it is none."""

    def __init__(self, file: BinaryIO) -> None:
        with _damage():
            if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                raise ValueError("it holds one unnamed array")
            self._zip = zipfile.ZipFile(file)
            members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}
            self.headers: Mapping[str, Header] = {name: self._header(i) for name, i in members.items()}

    def _header(self, info: zipfile.ZipInfo) -> Header:
        with self._zip.open(info) as member:
            return _header(member.read(_HEADER_BYTES), info.file_size)

    def read(self, name: str) -> Array:
        """One array. ValueError when there is none of this name, or its data is damaged."""
        self.header(name)
        with _damage():
            there = f"{name}.npy" if f"{name}.npy" in self._zip.namelist() else name
            with self._zip.open(there) as member:
                return _read(member)

    def header(self, name: str) -> Header:
        """What is said of one array. ValueError when there is none of this name."""
        if name not in self.headers:
            raise ValueError(f"it holds no array {name}")
        return self.headers[name]


def read_npy(file: BinaryIO) -> Array:
    """The array of an .npy file, which has no more data than the file. ValueError when it is none, or holds
    Python objects."""
    with _damage():
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        _header(file.read(_HEADER_BYTES), size)
        file.seek(0)
        return _read(file)


def read_npz(file: BinaryIO, names: Sequence[str], most: int) -> dict[str, Array]:
    """These arrays of an .npz file, of `most` bytes at most. ValueError when it is none, or lacks one."""
    archive = Archive(file)
    total = sum(archive.header(name).nbytes for name in names)
    if total > most:
        raise ValueError(f"its arrays have {total} bytes, at most {most} are expected")
    return {name: archive.read(name) for name in names}


def _header(start: bytes, size: int) -> Header:
    """start: the first bytes of `size`, the header among them."""
    stream = io.BytesIO(start)
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"a header of version {version[0]}.{version[1]} is for arrays of records")
    shape, _, dtype = _READERS[version](stream)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    if any(n < 0 for n in shape):
        raise ValueError(f"an array has the shape {list(shape)}")
    found = Header(shape, dtype, stream.tell())
    if found.data + found.nbytes != size:
        raise ValueError(
            f"an array {list(shape)} of {dtype.name} has {found.nbytes} bytes, stored are {size - found.data}"
        )
    return found


def _read(file: Any) -> Array:
    array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise ValueError(str(error) or type(error).__name__) from error
