"""C that tells the device what it does in the memories that the engines use: kernels and layers, native.

The compiler's instrumentation for ThreadSanitizer calls a function before each access to memory that others
may see; the firmware's own part has these functions (sdk/firmware/fw_native_watch*.c). Commands are the same
with it and without.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from user_layers.toolchain.compilers import Compiler
from user_layers.workspace import sdk_dir

_NAMES = "fw_watched_names.h"
_POINTERS = b"_mem_addr"  # okk_global_mem_addr and its like
# gcc writes short ones out, behind the instrumentation; but strlen, which constants may be made of
_CALLED = (
    *("memcpy", "memmove", "memset", "memcmp", "memchr", "strcpy", "strncpy", "strcat", "strncat"),
    *("strcmp", "strncmp", "strchr", "strrchr", "strstr", "sprintf", "snprintf", "vsnprintf"),
)
_GCC = (
    "-fsanitize=thread",
    *(f"-fno-builtin-{name}" for name in _CALLED),
    "-U_FORTIFY_SOURCE",  # further names for these functions
)
_GCC_12 = ("--param=tsan-instrument-func-entry-exit=0", "-Wno-tsan")
_CLANG = ("-U_FORTIFY_SOURCE", "-mllvm", "-tsan-instrument-func-entry-exit=0")
_SWITCH = {"clang": ("-fsanitize=thread",), "zig": ("-Xclang", "-fsanitize=thread")}


def watched(compiler: Compiler, sdk: Path | None = None) -> Compiler:
    """The compiler of a native firmware's kernels and layers. sdk: the toolkit's C, if a build calls it by
    another name."""
    return replace(compiler, flags=(*compiler.flags, *_flags(compiler), _names(sdk or sdk_dir())))


def watched_if_used(compiler: Compiler, sources: Iterable[Path], includes: Iterable[Path]) -> Compiler:
    """The same for C that takes pointers into these memories, in a source or a header beside it; other C is
    compiled as it is, since instrumented loops are several times slower."""
    headers = (path for folder in dict.fromkeys(includes) for path in sorted(folder.glob("*.h")))
    for path in (*sources, *headers):
        try:
            if _POINTERS in path.read_bytes() and path.parent != sdk_dir() / "include":
                return watched(compiler)
        except OSError:  # the compiler will say so
            continue
    return compiler


def unwatched(compiler: Compiler) -> Compiler:
    """What `watched` was given."""
    flags = compiler.flags
    for i in (i for i, flag in enumerate(flags) if flag.startswith("--include=") and flag.endswith(_NAMES)):
        return replace(compiler, flags=flags[: i - len(_flags(compiler))] + flags[i + 1 :])
    return compiler


def _flags(compiler: Compiler) -> tuple[str, ...]:
    if compiler.family != "gcc":
        return (*_SWITCH[compiler.family], *_CLANG)
    major = compiler.version.partition(".")[0]
    return (*_GCC, *(_GCC_12 if major.isdigit() and int(major) >= 12 else ()))


def _names(sdk: Path) -> str:
    return f"--include={sdk / 'firmware' / _NAMES}"
