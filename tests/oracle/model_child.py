"""The child process that holds the vendor's functional model (a script: model_child.py FOLDER DDR_BYTES).

One pickled request after the other on stdin, one pickled reply each on stdout's original file; what the
model itself prints goes to stderr. A failed check inside the model prints ASSERT and ends this process.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

DDR_BYTES = 64 << 20
_LANES, _LANE_BYTES, _L2_BYTES = 64, 512 * 1024, 4 << 20
_TABLES = slice(0x300000, 0x324000)
LIBRARIES = ("third_party/libgcc_s.so.1", "third_party/libstdc++.so.6", "libcmodel_bm1684.so")


class Model:
    """Executes single descriptors in its own memories: `spaces` = flat local, DDR and L2 as uint8 views."""

    def __init__(self, folder: Path, ddr_bytes: int = DDR_BYTES) -> None:
        for name in LIBRARIES:
            library = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        self._library = library
        library.cmodel_init.argtypes = [ctypes.c_int, ctypes.c_uint64]
        if library.cmodel_init(0, ddr_bytes):
            raise RuntimeError("the model does not start")
        for function in ("get_local_mem", "get_global_memaddr", "get_l2_sram"):
            getattr(library, function).restype = ctypes.c_void_p
        local = ctypes.c_void_p.from_address(library.get_local_mem(0)).value
        self.spaces = [
            np.ctypeslib.as_array(ctypes.cast(ctypes.c_void_p(at), ctypes.POINTER(ctypes.c_uint8)), (size,))
            for at, size in (
                (local, _LANES * _LANE_BYTES),
                (library.get_global_memaddr(0), ddr_bytes),
                (library.get_l2_sram(0), _L2_BYTES),
            )
        ]
        self._function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
        library.get_atomic_function.restype = self._function
        library.get_atomic_function.argtypes = [ctypes.c_void_p, ctypes.c_uint]
        library.use_atomic_cmodel()
        library.forbid_store_cmd()
        self.reset()

    def reset(self) -> None:
        """All memory zero but the tables, as before each case."""
        local, _, l2 = self.spaces
        local[:] = 0
        l2[: _TABLES.start] = 0

    def check(self, whether: bool) -> None:
        """Whether a failed check ends this process (as it does at first) or is passed over."""
        name = "allow" if whether else "forbid"
        getattr(self._library, f"{name}_atomic_cmodel_assert")()

    def execute(self, engine: int, descriptor: bytes) -> None:
        words = np.frombuffer(descriptor, np.uint8).copy()
        self._library.get_atomic_function(words.ctypes.data, engine)(0, words.ctypes.data)


def serve(model: Model, out: Any) -> None:
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        model.check(request["checks"])
        written = []
        for space, offset, data in request["before"]:
            model.spaces[space][offset : offset + len(data)] = np.frombuffer(data, np.uint8)
            written.append((space, offset, len(data)))
        seconds = []
        for engine, descriptor in request["descriptors"]:
            for _ in range(request["repeat"]):
                start = time.perf_counter()
                model.execute(engine, descriptor)
                seconds.append(time.perf_counter() - start)
        after = [
            model.spaces[space][offset : offset + size].tobytes() for space, offset, size in request["read"]
        ]
        for space, offset, size in (*written, *request["read"]):
            model.spaces[space][offset : offset + size] = 0
        pickle.dump({"after": after, "seconds": seconds}, out)
        out.flush()


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the model prints on stdout
    serve(Model(Path(sys.argv[1]), int(sys.argv[2])), replies)
