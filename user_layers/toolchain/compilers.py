"""Which compilers are used: the system's where they work, otherwise zig from PyPI.

C (the firmware) and C++ (the plugin) are chosen apart: a machine may have gcc without g++. Both kinds
of compiler get switches under which they compute the same: no contraction of floating-point
operations, signed char, wrapping integers, no traps for undefined behaviour, and writes to NULL that
fault at their line instead of vanishing. TPULAYER_CC and
TPULAYER_CXX override the choice with `zig` or a compiler's path.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from firmware_sim.errors import MissingError
from user_layers.files import write_atomic
from user_layers.toolchain.cache import cache_root
from user_layers.workspace import machine_arch

Language = Literal["c", "c++"]

GLIBC = "2.17"  # what zig links against: any Linux of the last ten years has at least this
PROBE_LIMIT = 60.0  # seconds for one call of a compiler that is being tried

SAME_RESULTS = (
    "-ffp-contract=off",
    "-fsigned-char",
    "-fno-short-enums",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
)
# Without sibling calls a kernel whose last statement calls the kernel API stays on the stack, so that
# messages name the kernel's code and not its caller's.
BASE_FLAGS = (
    "-O2",
    "-g1",
    "-fPIC",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    *SAME_RESULTS,
)
# These functions come from sdk/libc in both builds of a firmware: a compiler that knew what expf(1.0f) is
# would know it a bit better or worse.
_CALLED = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "hypot", "erf", "erfc"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
# A function whose arrays were overrun ends the kernel before it returns, as on the controller (arm.py).
_PROTECTED = ("-fstack-protector-strong",)
# Calls and stores that stand in two branches stay two, each with its own line, for messages.
UNMERGED_CLANG = tuple(
    word
    for option in ("-enable-tail-merge=false", "-sink-common-insts=false", "-hoist-common-insts=false")
    for word in ("-mllvm", option)
)
_UNMERGED_GCC = ("-fno-crossjumping", "-fno-tree-tail-merge")
# An undeclared function or a pointer taken for an integer is an error, in old compilers too.
C_FLAGS = (
    "-std=gnu11",
    "-Werror=implicit-function-declaration",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
    "-Werror=return-type",
    *(f"-fno-builtin-{name}{kind}" for name in _CALLED for kind in ("", "f")),
)
# A descriptor's method that hides the one it means to override would never be called.
CXX_FLAGS = ("-std=c++17", "-Werror=return-type", "-Werror=overloaded-virtual")
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
)  # a layer's signature is given: it rarely needs all of it
LINK_FLAGS = (
    "-O2",
    "-shared",
    "-Wl,-z,defs",
    "-Wl,-Bsymbolic",
)  # -O2: how zig builds its own run-time libraries

_VARIABLES: dict[Language, str] = {"c": "TPULAYER_CC", "c++": "TPULAYER_CXX"}
_SYSTEM: dict[Language, tuple[str, ...]] = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
_SIBLINGS = (("clang++", "clang"), ("g++", "gcc"), ("c++", "cc"))  # longest first

_PROBES: dict[Language, str] = {
    "c": """#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
float tpulayer_probe(const float *x, uint32_t n) { float y; memcpy(&y, x + n, sizeof y); return sqrtf(y); }
""",
    "c++": """#include <stdexcept>
#include <string>
#include <vector>
extern "C" int tpulayer_probe(int n) {
    try {
        std::vector<std::string> names(static_cast<size_t>(n), std::to_string(n));
        if (names.empty()) throw std::runtime_error("empty");
        return static_cast<int>(names.size());
    } catch (const std::exception &) { return -1; }
}
""",
}


@dataclass(frozen=True)
class Compiler:
    """One compiler, ready to be called.

    argv: how it starts, target switches included; ar: the archiver that goes with it;
    identity: a text that changes when the compiler does; flags: for every compilation; note: for progress.
    """

    family: Literal["gcc", "clang", "zig"]
    version: str
    argv: tuple[str, ...]
    ar: tuple[str, ...]
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    identity: str
    note: str = ""

    @property
    def title(self) -> str:
        """For people: `gcc 12.2.0 (/usr/bin/cc)`."""
        return f"{self.family} {self.version} ({self.argv[0]})"


@dataclass(frozen=True)
class Toolchain:
    """The compilers for one machine: `c` builds the firmware, `cxx` the plugin."""

    machine: str  # x86 or aarch64
    c: Compiler
    cxx: Compiler

    @property
    def identity(self) -> str:
        """16 hex digits for machine and both compilers, a key of caches: other compilers, other objects."""
        return hashlib.sha256(f"{self.machine}\n{self.c.identity}\n{self.cxx.identity}".encode()).hexdigest()[
            :16
        ]


def choose(machine: str | None = None) -> Toolchain:
    """The compilers for this machine, or for another one (HOST_ARCH), which only zig builds for.

    Errors: MissingError when no compiler works, or the one asked for does not.
    """
    here = machine_arch()
    machine = machine or here
    if machine != here:
        return Toolchain(machine, zig("c", machine), zig("c++", machine))
    return Toolchain(machine, _choose("c"), _choose("c++"))


def zig_environment() -> dict[str, str]:
    """The environment for compiler calls: zig keeps what it built in our cache folder by default."""
    folder = str(cache_root() / "zig")
    env = dict(os.environ)
    env.setdefault("ZIG_GLOBAL_CACHE_DIR", folder)
    env.setdefault("ZIG_LOCAL_CACHE_DIR", env["ZIG_GLOBAL_CACHE_DIR"])
    return env


def zig(language: Language, machine: str) -> Compiler:
    """Zig from PyPI as compiler for machine (x86, aarch64). MissingError when it is not installed."""
    spec = find_spec("ziglang")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    binary = folder / "zig" if folder is not None else None
    if binary is None or not os.access(binary, os.X_OK):
        raise MissingError(
            "no compiler: zig is not installed", hint="pip install ziglang, or install gcc or clang"
        )
    target = f"{ {'x86': 'x86_64'}.get(machine, machine) }-linux-gnu.{GLIBC}"
    command = "cc" if language == "c" else "c++"
    known = remembered(binary, ("version",), _zig_version)
    # With optimization zig switches assert() off, which no other compiler does unasked.
    flags = (
        *BASE_FLAGS,
        *_PROTECTED,
        *UNMERGED_CLANG,
        "-fno-sanitize=all",
        "-UNDEBUG",
        *(C_FLAGS if language == "c" else CXX_FLAGS),
    )
    return Compiler(
        family="zig",
        version=known["version"],
        argv=(str(binary), command, "-target", target),
        ar=(str(binary), "ar"),
        flags=flags,
        link_flags=LINK_FLAGS,
        identity=f"zig {known['version']} {target} {command} {' '.join(flags)}",
    )


def _choose(language: Language) -> Compiler:
    asked = _asked_for(language)
    if asked == "zig":
        return zig(language, machine_arch())
    if asked is not None:
        path = shutil.which(asked)
        if path is None:
            raise MissingError(f"{_VARIABLES[language]} names {asked}, which is not an executable file")
        known = remembered(Path(path), (language,), lambda file: _try(file, language))
        if known["error"]:
            raise MissingError(f"{_VARIABLES[language]} names {asked}, which does not work: {known['error']}")
        return _system(Path(path), language, known)
    for name in _SYSTEM[language]:
        path = shutil.which(name)
        if path is None:
            continue
        known = remembered(Path(path), (language,), lambda file: _try(file, language))
        if not known["error"]:
            return _system(Path(path), language, known)
    return zig(language, machine_arch())


def _asked_for(language: Language) -> str | None:
    """What the environment asks for; TPULAYER_CC alone also chooses the C++ compiler beside it."""
    own = os.environ.get(_VARIABLES[language])
    if own:
        return own
    other = os.environ.get(_VARIABLES["c" if language == "c++" else "c++"])
    if not other or other == "zig":
        return other or None
    folder, name = os.path.split(other)
    for cxx, c in _SIBLINGS:
        old, new = (c, cxx) if language == "c++" else (cxx, c)
        if old in name:
            return os.path.join(folder, name.replace(old, new, 1))
    raise MissingError(
        f"TPULAYER_CC or TPULAYER_CXX is {other}, and the other one is not set",
        hint=f"set {_VARIABLES[language]} too, or use zig for both",
    )


def _system(path: Path, language: Language, known: dict[str, str]) -> Compiler:
    unmerged = UNMERGED_CLANG if known["family"] == "clang" else _UNMERGED_GCC
    flags = (*BASE_FLAGS, *_PROTECTED, *unmerged, *(C_FLAGS if language == "c" else CXX_FLAGS))
    archiver = shutil.which("ar")
    return Compiler(
        family="clang" if known["family"] == "clang" else "gcc",
        version=known["version"],
        argv=(str(path),),
        ar=(archiver,) if archiver else zig(language, machine_arch()).ar,
        flags=flags,
        link_flags=LINK_FLAGS,
        identity=f"{known['family']} {known['version']} {_fingerprint(path)} {' '.join(flags)}",
    )


def _fingerprint(path: Path) -> str:
    real = path.resolve()
    stat = real.stat()
    return f"{path} {real} {stat.st_size} {stat.st_mtime_ns}"


def remembered(path: Path, what: tuple[str, ...], find: Callable[[Path], dict[str, str]]) -> dict[str, str]:
    """What `find(path)` says, asked once per version of that file and kept in the cache folder."""
    store = cache_root() / "compilers.json"
    key = " ".join((_fingerprint(path), *what))
    try:
        known: dict[str, dict[str, str]] = json.loads(store.read_text())
        if not isinstance(known, dict):
            known = {}
    except (OSError, ValueError):  # absent or damaged: ask again
        known = {}
    if key not in known:
        known[key] = find(path)
        write_atomic(store, json.dumps(known, indent=1, sort_keys=True) + "\n", durable=False)
    return known[key]


def _zig_version(binary: Path) -> dict[str, str]:
    done = run_compiler((str(binary), "version"))
    if done.returncode != 0:
        raise MissingError(
            f"zig does not start: {first_line(done.stderr)}", hint="pip install --force-reinstall ziglang"
        )
    return {"version": done.stdout.strip()}


def _try(path: Path, language: Language) -> dict[str, str]:
    """Compile, link and load a small shared library; `error` is empty when all of it worked."""
    banner = run_compiler((str(path), "--version"))
    text = banner.stdout
    family = "clang" if "clang" in text.lower() else "gcc"
    numbers = re.search(
        r"\b(\d+\.\d+(?:\.\d+)?)\b", re.sub(r"\(.*?\)", "", text.splitlines()[0] if text else "")
    )
    result = {"family": family, "version": numbers[1] if numbers else "?", "error": ""}
    if banner.returncode != 0:
        return result | {"error": first_line(banner.stderr) or f"--version ended with {banner.returncode}"}
    flags = (*BASE_FLAGS, *_PROTECTED, *(C_FLAGS if language == "c" else CXX_FLAGS))
    with tempfile.TemporaryDirectory(prefix="tpulayer-probe-") as folder:
        source = Path(folder) / ("probe.c" if language == "c" else "probe.cpp")
        library = Path(folder) / "probe.so"
        source.write_text(_PROBES[language])
        built = run_compiler((str(path), *flags, *LINK_FLAGS, str(source), "-o", str(library), "-lm"))
        if built.returncode != 0 or not library.exists():
            return result | {"error": first_line(built.stderr) or "it produced no file"}
        load = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).tpulayer_probe"
        loaded = run_compiler((sys.executable, "-c", load, str(library)))
        if loaded.returncode != 0:
            last = loaded.stderr.strip().splitlines()[-1:]
            return result | {"error": f"what it builds does not load: {' '.join(last)}"}
    return result


def run_compiler(
    argv: tuple[str, ...], env: Mapping[str, str] | None = None, *, limit: float = PROBE_LIMIT
) -> subprocess.CompletedProcess[str]:
    """Run a compiler, or what it made, for `limit` seconds; `env` is added. Never raises: code -1 then."""
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            stdin=subprocess.DEVNULL,
            env={**zig_environment(), "LC_ALL": "C", **(env or {})},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(
            argv, -1, "", f"no answer within {limit:.0f} s: {shlex.join(argv)}"
        )
    except OSError as error:
        return subprocess.CompletedProcess(argv, -1, "", str(error))


def first_line(text: str) -> str:
    """The first line that is not empty."""
    for line in text.splitlines():
        if line.strip():
            return line.strip()
    return ""


def describe() -> dict[str, str]:
    """For `doctor`: this Python and machine."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": f"{platform.system()} {os.uname().machine}",
    }
