"""The child process that holds the vendor's encoder (run as a script: python encoder_child.py FOLDER).

Each pickled request on stdin is a list of (function, arguments); the reply on stdout's original file is
(gdma, bd, ids, parallel) after each of them with descriptors as hex digits, or the text of the check that
failed. Calls are made in a fork of this process, which a failed check ends.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.oracle.model_child import LIBRARIES
from user_layers.encode.calls import Calls, _ffi
from user_layers.kernel_api.prototypes import functions

Named = list[tuple[str, dict[str, Any] | None]]

_TYPES: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "short": ctypes.c_short,
    "unsigned short": ctypes.c_ushort,
    "local_addr_t": ctypes.c_uint,
    "system_addr_t": ctypes.c_uint64,
    "unsigned int": ctypes.c_uint,
    "unsigned long long": ctypes.c_uint64,
    "x32": ctypes.c_uint32,
    "x16": ctypes.c_uint16,
    "x8": ctypes.c_uint8,
}
_SECONDS = 20


class _Vector(ctypes.Structure):
    """A std::vector of 32-bit words."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("begin", "end", "capacity")]
    begin: int | None
    end: int | None

    def take(self) -> list[str]:
        data = ctypes.string_at(self.begin, (self.end or 0) - (self.begin or 0)) if self.begin else b""
        self.end = self.begin
        return [data[i : i + 128].hex() for i in range(0, len(data), 128)]


class Encoder:
    """The vendor's kernel API with its commands stored instead of executed."""

    def __init__(self, folder: Path) -> None:
        for name in LIBRARIES:
            self._library = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        library = self._library
        library.cmodel_init.argtypes = [ctypes.c_int, ctypes.c_uint64]
        if library.cmodel_init(0, 1 << 20):
            raise RuntimeError("the model does not start")
        library.create_cmd_id_node.restype = ctypes.c_void_p
        library.set_cmd_buffer_ptr.argtypes = [ctypes.c_void_p] * 2
        library.set_total_id_ptr.argtypes = [ctypes.c_void_p] * 6
        self._gdma, self._bd = _Vector(), _Vector()
        # what the encoder counts commands in: totals, command ids, per group the numbers of each engine
        self._totals = (ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_int(1))
        self._room = [ctypes.create_string_buffer(4 * 65536) for _ in range(2)]
        self._numbers = [self._vector(room) for room in self._room]
        bd, gdma, groups = (ctypes.addressof(total) for total in self._totals)
        first, second = (ctypes.addressof(numbers) for numbers in self._numbers)
        library.set_total_id_ptr(bd, gdma, library.create_cmd_id_node(), first, second, groups)

    @staticmethod
    def _vector(room: Any) -> _Vector:
        at = ctypes.addressof(room)
        return _Vector(at, at + 4, at + len(room))

    def run(self, calls: Named) -> list[tuple[list[str], list[str], list[int], bool]]:
        library, node, out = self._library, (ctypes.c_uint * 16)(), []
        library.forbid_atomic_cmodel()
        library.allow_store_cmd()
        library.set_cmd_buffer_ptr(ctypes.addressof(self._gdma), ctypes.addressof(self._bd))
        library.okk_initialize()
        for name, arguments in calls:
            self._call(name, arguments or {})
            gdma, bd = self._gdma.take(), self._bd.take()
            library.okk_get_id_node(node)
            out.append((gdma, bd, [node[0], node[1]], bool(node[2] & 1)))
        return out

    def _call(self, name: str, arguments: dict[str, Any]) -> None:
        """The words of the call as this project's own encoder gets them; its pointers count in a block."""
        fn, packed = functions()[name], Calls().call(name, arguments).encode()
        _, size, _ = struct.unpack_from("<3Q", packed)
        _, count, *words = struct.unpack_from(f"<{size // 8}Q", packed, 24)
        data = packed[24 + size :]
        block = ctypes.create_string_buffer(data, len(data) or 1)
        base = ctypes.addressof(block) - 1  # pointers are 1 + an offset
        if fn.struct == "MemSet4DParam":  # the one struct that holds a pointer
            at = words[0] - 1 + _ffi().offsetof(fn.struct, "const_val")
            struct.pack_into("<Q", block, at, base + struct.unpack_from("<Q", data, at)[0])
        function = getattr(self._library, name)
        function.restype = None
        function(
            *(self._argument(t, w, base) for (t, _), w in zip(fn.parameters, words[:count], strict=True))
        )

    @staticmethod
    def _argument(ctype: str, word: int, base: int) -> Any:
        if ctype.endswith("*"):
            return ctypes.c_void_p(base + word if word else None)
        if ctype == "float":
            return ctypes.c_float(struct.unpack("<f", struct.pack("<I", word))[0])
        return _TYPES.get(ctype, ctypes.c_int)(word)


def _answer(encoder: Encoder, calls: Named) -> Any:
    """In a fork: a failed check prints ASSERT and ends the process that it is in."""
    reply, give = os.pipe()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            signal.alarm(_SECONDS)
            data = pickle.dumps(encoder.run(calls))
            with os.fdopen(give, "wb") as out:
                out.write(data)
            os._exit(0)
        os.close(give)
        with os.fdopen(reply, "rb") as answers:
            data = answers.read()
        os.waitpid(child, 0)
        said.seek(0)
        lines = said.read().decode(errors="replace").splitlines()
    return pickle.loads(data) if data else " ".join(line for line in lines if "ASSERT" in line) or "ended"


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the model prints on stdout
    opened = Encoder(Path(sys.argv[1]))
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        pickle.dump([_answer(opened, calls) for calls in request], replies)
        replies.flush()
