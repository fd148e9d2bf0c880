"""What the devices of this process did for partitions, as libtpulayer_delegate.so counts it."""

from __future__ import annotations

import ctypes
from pathlib import Path


class Counters(ctypes.Structure):
    """tpld_counters_info of tpulayer_delegate.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("runs", "failures", "bytes_in", "bytes_out", "commands")),
        *((name, ctypes.c_uint64) for name in ("cycles", "ns", "wall_ns", "copy_wall_ns")),
        *((name, ctypes.c_uint32) for name in ("has_commands", "reopened")),
    )

    def named(self) -> dict[str, int]:
        """The same by name."""
        return {name: int(getattr(self, name)) for name, *_ in self._fields_}


def read_counters(library: Path) -> Counters:
    """Of all devices so far. library: libtpulayer_delegate.so, or one that is linked with it."""
    core = ctypes.CDLL(str(library))
    core.tpld_counters.argtypes = [ctypes.c_void_p, ctypes.POINTER(Counters)]
    found = Counters()
    if core.tpld_counters(None, ctypes.byref(found)) != 0:
        raise AssertionError("the core refused to tell its counters")
    return found
