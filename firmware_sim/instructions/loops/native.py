"""Calling the compiled loops: arguments are put together once, a call is then one pointer.

The library is loaded when this module is first imported, or by `load` later on. Without it, and where the
processor does not flush denormals as the chip does, the references do everything.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import flush as mode
from firmware_sim.errors import MissingError
from firmware_sim.instructions.loops.library import is_being_built, location

Argument = npt.NDArray[Any] | int
Arguments = tuple[Argument, ...]
_DIMENSIONS = 4
_RECORD = struct.Struct("<q4qq")  # tl_arg of loops.h
_ENTRY = struct.Struct("<QQ")  # tl_call of run.c
_NO_MEMORY = -1
_LOOK = 0.25  # s between two looks for a library that was not there
_WAIT = 120.0  # s for one that is being made
NO_ROOM = "a loop has no memory for its intermediate results"


class _Library:
    """The library of one file, opened."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))  # calls let other threads run
        self.run = self._library.tl_run
        self.run.argtypes, self.run.restype = [ctypes.c_char_p, ctypes.c_int64], ctypes.c_int64

    def number(self, name: str) -> int:
        return int(ctypes.c_int64.in_dll(self._library, name).value)

    def function(self, name: str) -> tuple[Any, int]:
        found = self._library[name]
        found.argtypes, found.restype = [ctypes.c_void_p], ctypes.c_int64
        return found, int(ctypes.cast(found, ctypes.c_void_p).value or 0)


def _open() -> _Library | None:
    try:
        path = location()
        return _Library(path) if path is not None and os.path.isfile(path) else None
    except (OSError, AttributeError, MissingError):  # a damaged file, no cache folder: the references do it
        return None


_library = _open()
_looked = time.monotonic()


def load() -> bool:
    """Take the library if it is there by now; whether it is."""
    global _library
    if _library is None:
        _library = _open()
    return _library is not None


def loaded_late() -> bool:
    """Look now and then whether somebody has made the library by now; true once, when it was loaded."""
    global _looked
    if _library is not None or time.monotonic() - _looked < _LOOK:
        return False
    _looked = time.monotonic()
    return load()


def wait() -> bool:
    """Wait for the library while somebody makes it; whether it was loaded now."""
    end = time.monotonic() + _WAIT
    while _library is None and is_being_built() and time.monotonic() < end:
        time.sleep(_LOOK)
        if load():
            return True
    return False


def ready() -> bool:
    """Whether loops are to be used: the library is there, and this processor flushes as the chip does."""
    return _library is not None and mode.HARDWARE


@contextlib.contextmanager
def references() -> Iterator[None]:
    """Inside, commands are bound to and executed by the references."""
    global _library
    library, _library = _library, None
    try:
        yield
    finally:
        _library = library


def _opened() -> _Library:
    if _library is None:
        raise RuntimeError("the compiled loops are not loaded: see ready()")
    return _library


@cache
def _function(name: str) -> tuple[Any, int]:
    return _opened().function(name)


@cache
def _number(name: str) -> int:
    return _opened().number(name)


def rows() -> int:
    """Rows of a tile of sums of products."""
    return _number("tl_rows")


def columns() -> int:
    """Columns of such a tile."""
    return _number("tl_columns")


def at_once() -> bool:
    """Whether the processor multiplies and adds four bytes at once."""
    return bool(_number("tl_at_once"))


def fixed_block() -> int:
    """Elements that fixed_arithmetic reads before it writes any."""
    return _number("tl_fixed_block")


class Call:
    """A loop with its arguments, ready to be called any number of times. entry: its bytes for `run`."""

    __slots__ = ("_address", "_function", "_kept", "entry")

    def __init__(self, name: str, arguments: Sequence[Argument]) -> None:
        """ValueError for an array that is not C-contiguous: a loop takes memory as it lies."""
        records = bytearray()
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                if not argument.flags.c_contiguous:
                    raise ValueError(f"{name}: an array of shape {argument.shape} that is not C-contiguous")
                shape = (*argument.shape, *[1] * (_DIMENSIONS - argument.ndim))
                records += _RECORD.pack(argument.__array_interface__["data"][0], *shape, argument.itemsize)
            else:
                records += _RECORD.pack(int(argument), 0, 0, 0, 0, 0)
        self._function, function = _function(name)
        block = ctypes.create_string_buffer(bytes(records), len(records))
        self._kept = (block, arguments)  # as long as the addresses are in use
        self._address = ctypes.addressof(block)
        self.entry = _ENTRY.pack(function, self._address)

    def __call__(self) -> int:
        """What the loop returns: 0 where it has nothing to tell. MemoryError when it has no room."""
        result: int = self._function(self._address)
        if result == _NO_MEMORY:
            raise MemoryError(NO_ROOM)
        return result


class Loop:
    """A loop by name, with its first arguments."""

    def __init__(self, name: str, *first: Argument) -> None:
        self._name = name
        self._first = first

    def bound(self, *arguments: Argument) -> Call:
        """The loop with all its arguments."""
        return Call(self._name, (*self._first, *arguments))


def bound(name: str, *arguments: Argument) -> Call:
    """The loop of this name with its arguments; arrays stay where they are, numbers are integers."""
    return Call(name, arguments)


def run(entries: bytes, count: int) -> int:
    """Call loops in turn, by their `Call.entry`s; how many were done: all, unless memory ran out."""
    done: int = _opened().run(entries, count)
    return done
