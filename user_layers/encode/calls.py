"""Calls of the functions of okk.h and bm_atomic.h, made from their prototypes.

From these come a C dispatcher, which calls a function by number with one 64-bit word per
argument, and `Calls`, which packs named arguments for it. Arguments are those of the vector files: numbers,
lists for dim4, dim2 and Padding, null for NULL, hex strings for x32, x16 and x8, {"is_addr", "bits"} for
the operands that are a constant or an address, and for bm_atomic.h the fields of the function's struct.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from firmware_sim.errors import UsageError
from user_layers.kernel_api.prototypes import Function, code_of, functions

_STRUCT_OR_ENUM = re.compile(r"^typedef (?:struct|enum) \{.*?\} \w+;", re.M | re.S)
# What an argument of each type may be. Enumerations are ints of C; floats are checked by packing them.
_INTEGERS = {
    "bool": (0, 1),
    "short": (-(1 << 15), (1 << 15) - 1),
    "unsigned short": (0, (1 << 16) - 1),
    "unsigned int": (0, (1 << 32) - 1),
    "local_addr_t": (0, (1 << 32) - 1),
    "system_addr_t": (0, (1 << 64) - 1),
    "unsigned long long": (0, (1 << 64) - 1),
}
_INT = (-(1 << 31), (1 << 31) - 1)
_BITS = {"x32": 32, "x16": 16, "x8": 8}
_LENGTHS = {"dim4": 4, "dim2": 2, "Padding": 4, "void": 3}  # void: the node of the command ids
_IN_DDR = 1 << 63  # a pointer word from here on is a DDR address, for what a function writes
RESULT_WORDS = 6  # of 64 bits, what call_api writes per call


@lru_cache(maxsize=1)
def _ffi() -> Any:
    """cffi with the structs of bm_atomic.h."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(_sent("\n".join(_STRUCT_OR_ENUM.findall(code_of("bm_atomic.h")))))
    return ffi


def _sent(text: str) -> str:
    """Structs as they are sent, the same for the controller's 32 bits: the one pointer is a 64-bit number."""
    return text.replace("const void *const_val;", "unsigned long long const_val;")


def dispatcher_c() -> str:
    """The C text of call_api_dispatch."""
    out = ['#include "bm_atomic.h"', '#include "fw_internal.h"', "#include <string.h>"]
    out += ["typedef unsigned long long word;"]
    out += [
        "static const void *at(word w, const char *data) {",
        f"    if (w >= {_IN_DDR:#x}ull) return fw_ddr_pointer(w - {_IN_DDR:#x}ull, 16);",
        "    return w == 0 ? NULL : data + (w - 1);",
        "}",
    ]
    out += ["word call_api_dispatch(word f, const word *a, const char *data) {", "    (void)a, (void)data;"]
    out += ["    switch (f) {"]
    memset_sent = next(t for t in _STRUCT_OR_ENUM.findall(code_of("bm_atomic.h")) if "MemSet4DParam" in t)
    out[3:3] = [_sent(memset_sent).replace("MemSet4DParam;", "sent_memset;")]
    for fn in functions().values():
        out.append(f"    case {fn.index}: {{")
        names = [f"p{i}" for i in range(len(fn.parameters))]
        for i, (ctype, _) in enumerate(fn.parameters):
            if ctype.endswith("*"):
                out.append(f"        {ctype}p{i} = ({ctype})(word)at(a[{i}], data);")
            else:
                out += [f"        {ctype} p{i};", f"        memcpy(&p{i}, &a[{i}], sizeof p{i});"]
        if fn.struct == "MemSet4DParam":  # the one struct that holds a pointer
            out += [
                "        const sent_memset *sent = (const sent_memset *)(const void *)p0;",
                "        MemSet4DParam filled = {.start_addr = sent->start_addr, .format = sent->format,",
                "            .is_local_mem = sent->is_local_mem, .local_idx = sent->local_idx,",
                "            .const_val = at(sent->const_val, data)};",
                "        memcpy(filled.shape, sent->shape, sizeof filled.shape);",
                "        memcpy(filled.stride, sent->stride, sizeof filled.stride);",
                "        p0 = &filled;",
            ]
        call = f"{fn.name}({', '.join(names)})"
        returns = "" if fn.result == "void" else "return (word)"
        out += [f"        {returns}{call};", "        return 0;" if not returns else "", "    }"]
    out += ["    }", "    return 0;", "}", ""]
    return "\n".join(out)


def _within(value: Any, limits: tuple[int, int]) -> int:
    """An integer as it is. Raises ValueError: nothing wraps on its way into C."""
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is not an integer")
    if not limits[0] <= value <= limits[1]:
        raise ValueError(f"{value} is outside {limits[0]}..{limits[1]}")
    return int(value)


class Calls:
    """The argument block of a launch of call_api: one or more calls."""

    def __init__(self) -> None:
        self._words = b""
        self.count = 0
        self._data = bytearray()

    def _pointer(self, blob: bytes) -> int:
        self._data += b"\0" * (-len(self._data) % 8)
        self._data += blob
        return len(self._data) - len(blob) + 1

    def _word(self, ctype: str, value: Any) -> int:
        """The word of one argument. Raises ValueError when it is not one of this type."""
        if ctype.endswith("*"):
            return 0 if value is None else self._pointed_at(ctype.removeprefix("const ").rstrip(" *"), value)
        if ctype in _BITS:
            return _within(int(value, 16) if isinstance(value, str) else value, (0, (1 << _BITS[ctype]) - 1))
        if ctype == "float":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"{value!r} is not a number")
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        return _within(value, _INTEGERS.get(ctype, _INT)) & 0xFFFF_FFFF_FFFF_FFFF

    def _pointed_at(self, ctype: str, value: Any) -> int:
        if ctype not in _LENGTHS:  # fp32_or_addr_t, x32_or_addr_t
            if not isinstance(value, dict) or set(value) != {"is_addr", "bits"}:
                raise ValueError(f'{value!r} is not {{"is_addr": true or false, "bits": hex digits}}')
            bits = value["bits"]
            number = int(bits, 16) if isinstance(bits, str) else bits
            return self._pointer(
                struct.pack("<B3xI", _within(value["is_addr"], (0, 1)), _within(number, (0, 2**32 - 1)))
            )
        length = _LENGTHS[ctype]
        if not isinstance(value, list) or len(value) != length:
            raise ValueError(f"{value!r} is not null or a list of {length} numbers")
        low, high = _INTEGERS["unsigned int"] if ctype == "void" else _INT
        return self._pointer(
            b"".join(_within(v, (low, high)).to_bytes(4, "little", signed=low < 0) for v in value)
        )

    def _struct(self, name: str, fields: Mapping[str, Any]) -> int:
        ffi = _ffi()
        packed = ffi.new(f"{name} *")
        known = {field for field, _ in ffi.typeof(name).fields}
        if unknown := sorted(set(fields) ^ known):
            raise ValueError(f"{name}: fields {unknown} are missing or not known")
        for field, value in fields.items():
            try:
                if field == "const_val":
                    value = self._pointer(struct.pack("<I", int(value, 16)))
                elif isinstance(value, list) and len(value) != len(getattr(packed, field)):
                    raise ValueError(f"{value!r} is not a list of {len(getattr(packed, field))} numbers")
                setattr(packed, field, value)
            except (TypeError, ValueError, OverflowError, struct.error) as error:
                raise ValueError(f"{field}: {error}") from None
        return self._pointer(bytes(ffi.buffer(packed)))

    def _by_name(self, fn: Function, given: Mapping[str, Any], out: int) -> list[int]:
        names = [name for _, name in fn.parameters if not (out and name == "stride")]
        if sorted(given) == sorted(f"a{i}" for i in range(len(names))):  # functions that no header names
            given = {name: given[f"a{i}"] for i, name in enumerate(names)}
        if sorted(given) != sorted(names):
            raise UsageError(f"{fn.name} takes {names}, not {sorted(given)}")
        words = []
        for ctype, name in fn.parameters:
            if name not in given:
                words.append(out + _IN_DDR)
                continue
            try:
                words.append(self._word(ctype, given[name]))
            except (TypeError, ValueError, KeyError, OverflowError, struct.error) as error:
                raise ValueError(f"{name}: {error}") from None
        return words

    def call(self, name: str, args: Mapping[str, Any] | None = None, *, out: int = 0) -> Calls:
        """Add a call; out: the DDR address for what a layout function writes (its `stride`).

        Raises UsageError for an unknown function or arguments that do not fit.
        """
        fn = functions().get(name) if isinstance(name, str) else None
        if fn is None:
            raise UsageError(f"{name} is not a function of the kernel API", hint="see okk.h and bm_atomic.h")
        if args is not None and not isinstance(args, Mapping):
            raise UsageError(f"{name}: args is {args!r}, not an object of arguments by name")
        given = dict(args or {})
        try:
            if fn.struct is not None:
                words = [self._struct(fn.struct, given)]
            else:
                words = self._by_name(fn, given, out)
        except (TypeError, ValueError, KeyError, OverflowError, struct.error) as error:
            raise UsageError(f"{name}: arguments that do not fit: {error}") from None
        self._words += struct.pack(f"<QQ{len(words)}Q", fn.index, len(words), *words)
        self.count += 1
        return self

    def encode(self, results: int = 0) -> bytes:
        """The block; results: DDR address of RESULT_WORDS words of 64 bits per call, or 0."""
        head = struct.pack("<QQQ", self.count, len(self._words), results)
        return head + self._words + bytes(self._data)
