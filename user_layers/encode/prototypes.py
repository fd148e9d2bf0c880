"""The functions of okk.h and bm_atomic.h, from the headers themselves.

From the prototypes come a C dispatcher, which calls a function by number with one 64-bit word per
argument, and `Calls`, which packs named arguments for it. Arguments are those of the vector files: numbers,
lists for dim4, dim2 and Padding, null for NULL, hex strings for x32, x16 and x8, {"is_addr", "bits"} for
the operands that are a constant or an address, and for bm_atomic.h the fields of the function's struct.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from firmware_sim.errors import UsageError
from user_layers.workspace import sdk_dir

_PROTOTYPE = re.compile(r"^([\w ]+?\*?)\s*\b((?:okk|bm)_\w+)\(([^()]*)\);", re.M)
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_STRUCT_OR_ENUM = re.compile(r"^typedef (?:struct|enum) \{.*?\} \w+;", re.M | re.S)
_NOT_CALLED = {"okk_register_kernel_func"}
_IN_DDR = 1 << 63  # a pointer word from here on is a DDR address, for what a function writes
_HEADERS = ("okk.h", "bm_atomic.h")


@dataclass(frozen=True)
class Function:
    """One prototype: parameters as (type, name); struct: the type that param points to (bm_atomic.h)."""

    index: int
    name: str
    result: str
    parameters: tuple[tuple[str, str], ...]
    struct: str | None


def _text(header: str) -> str:
    return _COMMENT.sub("", (sdk_dir() / "include" / header).read_text())


@lru_cache(maxsize=1)
def functions() -> dict[str, Function]:
    """Every function of the kernel API by name, but for kernel registration."""
    found: dict[str, Function] = {}
    for header in _HEADERS:
        for result, name, parameters in _PROTOTYPE.findall(_text(header)):
            if name in _NOT_CALLED or name in found:
                continue
            given = [" ".join(p.split()) for p in parameters.split(",") if p.strip() != "void"]
            split = []
            for p in given:
                word = re.split(r"\W", p)[-1]
                split.append((p[: p.rindex(word)].strip(), word))
            takes_struct = header == "bm_atomic.h" and len(split) == 1 and split[0][1] == "param"
            record = split[0][0].removeprefix("const ").rstrip(" *") if takes_struct else None
            found[name] = Function(len(found), name, result.strip(), tuple(split), record)
    return found


@lru_cache(maxsize=1)
def _ffi() -> Any:
    """cffi with the structs of bm_atomic.h."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("\n".join(_STRUCT_OR_ENUM.findall(_text("bm_atomic.h"))))
    return ffi


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
                "        MemSet4DParam filled = *p0;",
                "        filled.const_val = at((word)filled.const_val, data);",
                "        p0 = &filled;",
            ]
        call = f"{fn.name}({', '.join(names)})"
        returns = "" if fn.result == "void" else "return (word)"
        out += [f"        {returns}{call};", "        return 0;" if not returns else "", "    }"]
    out += ["    }", "    return 0;", "}", ""]
    return "\n".join(out)


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
        if value is None:
            return 0
        if isinstance(value, list):
            return self._pointer(struct.pack(f"<{len(value)}i", *value))
        if isinstance(value, dict):  # fp32_or_addr_t, x32_or_addr_t
            return self._pointer(struct.pack("<B3xI", value["is_addr"], int(value["bits"], 16)))
        if isinstance(value, str):  # x32, x16, x8
            return int(value, 16)
        if ctype == "float":
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        return int(value) & 0xFFFF_FFFF_FFFF_FFFF

    def _struct(self, name: str, fields: Mapping[str, Any]) -> int:
        ffi = _ffi()
        packed = ffi.new(f"{name} *")
        known = {field for field, _ in ffi.typeof(name).fields}
        if unknown := sorted(set(fields) ^ known):
            raise UsageError(f"{name}: fields {unknown} are missing or not known")
        for field, value in fields.items():
            if field == "const_val":
                at = self._pointer(struct.pack("<I", int(value, 16)))
                value = ffi.cast("void *", at)
            setattr(packed, field, value)
        return self._pointer(bytes(ffi.buffer(packed)))

    def call(self, name: str, args: Mapping[str, Any] | None = None, *, out: int = 0) -> Calls:
        """Add a call; out: the DDR address for what a layout function writes (its `stride`).

        Raises UsageError for an unknown function or arguments that do not fit.
        """
        fn = functions().get(name)
        if fn is None:
            raise UsageError(f"{name} is no function of the kernel API", hint="see okk.h and bm_atomic.h")
        given = dict(args or {})
        try:
            if fn.struct is not None:
                words = [self._struct(fn.struct, given)]
            else:
                if out:
                    given = {"stride": out + _IN_DDR, **given}
                if len(given) != len(fn.parameters):
                    raise UsageError(f"{name} takes {[p for _, p in fn.parameters]}, not {sorted(given)}")
                pairs = zip(fn.parameters, given.values(), strict=True)
                words = [self._word(ctype, value) for (ctype, _), value in pairs]
        except (TypeError, ValueError, KeyError, OverflowError, struct.error) as error:
            raise UsageError(f"{name}: arguments that do not fit: {error}") from None
        self._words += struct.pack(f"<QQ{len(words)}Q", fn.index, len(words), *words)
        self.count += 1
        return self

    def encode(self, results: int = 0) -> bytes:
        """The block; results: DDR address of 32 bytes per call, or 0."""
        head = struct.pack("<QQQ", self.count, len(self._words), results)
        return head + self._words + bytes(self._data)
