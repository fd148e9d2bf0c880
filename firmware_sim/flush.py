"""The processor's own "flush denormals to zero" mode, which is the chip's arithmetic.

The chip's fp32 units take denormal inputs as zeros and make zeros of denormal results. Processors can do
the same at full speed; the mode belongs to a thread. Inside `flushing()` plain numpy arithmetic and
compiled loops are then the chip's arithmetic, bit for bit. Whether the processor does it in the same way
(a result is too small when it is below 2**-126 after rounding to 24 bits) is tried once; where it does
not, `HARDWARE` is false and firmware_sim.instructions.fp32 flushes in software.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Iterator

import numpy as np

_ENV_BYTES = 128  # more than any C library's fenv_t
_MXCSR_OFFSET = 28  # x86_64: after the x87 state, in glibc and musl
_FLUSH = 0x8040  # MXCSR: flush-to-zero and denormals-are-zero
_PRODUCTS = (  # as bits: a, b, a * b as the chip has it
    (0x0080_0000, 0x3F00_0000, 0x0000_0000),  # 2**-126 / 2
    (0x0000_0001, 0x7F00_0000, 0x0000_0000),  # a denormal input
    (0x8080_0001, 0x3F7F_FFFE, 0x8080_0000),  # rounds up to 2**-126: stays
    (0x00FF_FFFF, 0x3F00_0000, 0x0000_0000),  # the last step below, exact: flushed
)


class _Mode:
    """The thread's floating-point environment, kept in buffers so that a switch is one call."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libm.so.6")
        except OSError:  # musl has it in its C library
            self._library = ctypes.CDLL(None)
        self._plain = ctypes.create_string_buffer(_ENV_BYTES)
        self._library.fegetenv(self._plain)
        self._flush = ctypes.create_string_buffer(self._plain.raw, _ENV_BYTES)
        control = int.from_bytes(self._plain.raw[_MXCSR_OFFSET : _MXCSR_OFFSET + 4], "little")
        ctypes.memmove(ctypes.byref(self._flush, _MXCSR_OFFSET), (control | _FLUSH).to_bytes(4, "little"), 4)

    def flush(self) -> None:
        self._library.fesetenv(self._flush)

    def plain(self) -> None:
        self._library.fesetenv(self._plain)


def _works(mode: _Mode) -> bool:
    a, b, want = (np.array(column, np.uint32) for column in zip(*_PRODUCTS, strict=True))
    mode.flush()
    try:
        with np.errstate(all="ignore"):
            got = a.view(np.float32) * b.view(np.float32)
    finally:
        mode.plain()
    return bool(np.array_equal(got.view(np.uint32), want))


def _find() -> _Mode | None:
    if platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux":
        return None
    mode = _Mode()
    return mode if _works(mode) else None


_MODE = _find()
HARDWARE = _MODE is not None
"""Whether flushing() switches the processor; if not, it does nothing."""


@contextlib.contextmanager
def flushing() -> Iterator[None]:
    """The calling thread flushes denormals inside. Do not nest."""
    if _MODE is None:
        yield
        return
    _MODE.flush()
    try:
        yield
    finally:
        _MODE.plain()


@contextlib.contextmanager
def exactly() -> Iterator[None]:
    """Inside `flushing()`: denormals are what they are in here."""
    if _MODE is None:
        yield
        return
    _MODE.plain()
    try:
        yield
    finally:
        _MODE.flush()


def flush_this_thread() -> None:
    """For a worker thread that does nothing else: flush until it ends."""
    if _MODE is not None:
        _MODE.flush()
