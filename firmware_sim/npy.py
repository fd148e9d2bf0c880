"""Reading numpy's files, whoever wrote them: damage is a ValueError, whatever numpy makes of it."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Sequence
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


def read_npy(file: BinaryIO) -> Array:
    """The array of an .npy file. ValueError when it is none, or holds Python objects."""
    try:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except _DAMAGED as error:
        raise ValueError(str(error) or type(error).__name__) from error
    return array


def read_npz(file: BinaryIO, names: Sequence[str] | None = None) -> dict[str, Array]:
    """These arrays of an .npz file, or all of them. ValueError when it is none or lacks one."""
    try:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise ValueError("it holds one unnamed array")
        with found:
            return {name: np.asarray(found[name]) for name in (found.files if names is None else names)}
    except _DAMAGED as error:
        raise ValueError(str(error) or type(error).__name__) from error
