"""The native firmware with checks in its C: UndefinedBehaviorSanitizer, and AddressSanitizer where it is.

The sanitized firmware is built beside the plain one, in folders of its own, from the same sources. What the
checks of undefined behaviour call is sdk/sanitize, so every compiler will do. AddressSanitizer needs
the compiler's own library, which must be in the process before the firmware: its path goes into the image,
where the device finds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from firmware_sim.errors import MissingError
from firmware_sim.firmware.sanitized import preloaded
from user_layers.toolchain import entries
from user_layers.toolchain.beside import firmware_beside
from user_layers.toolchain.builtin import Builtin, library_objects
from user_layers.toolchain.compilers import Compiler, first_line, remembered, run_compiler
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.shared import build_shared, linked_sdk, shared
from user_layers.toolchain.watched import unwatched

# With -fwrapv signed overflow would be defined, and no finding. Warnings come from the plain build.
_DROPPED = ("-O2", "-fwrapv", "-fno-sanitize=all")
_CHECKS = ("-O1", "-w", "-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all")
_CLANG = ("-fno-sanitize=function", "-fno-sanitize-trap=all")
_ADDRESS = "-fsanitize=address"

_PROBE = """#include <stdlib.h>
int tpulayer_probe(int n) {
    volatile char *p = malloc(4);
    p[n] = 1;
    int found = p[n];
    free((void *)p);
    return found;
}
"""
_LOAD = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).tpulayer_probe(int(sys.argv[2])))"


@dataclass(frozen=True)
class Sanitizers:
    """What checks a firmware: `compiler` builds it; runtime: the library that AddressSanitizer needs first,
    "" without it; lacking: why it is not there, "" otherwise."""

    compiler: Compiler
    runtime: str
    lacking: str

    @property
    def identity(self) -> str:
        """Compiler, flags and library in one text, for the key of a cache."""
        return " ".join((self.compiler.identity, *self.compiler.flags, self.runtime))

    @property
    def marker(self) -> str:
        """What the image says about itself, see firmware_sim.firmware.sanitized."""
        return f"undefined,address:{self.runtime}" if self.runtime else "undefined:"


def sanitizers(compiler: Compiler) -> Sanitizers:
    """The checks that this C compiler and machine have."""
    own = () if compiler.family == "gcc" else _CLANG
    flags = tuple(flag for flag in compiler.flags if flag not in _DROPPED)
    checked = replace(compiler, flags=(*flags, *_CHECKS, *own), note=" with checks")
    if compiler.family == "zig":
        return Sanitizers(checked, "", "zig comes without AddressSanitizer, gcc and clang have it")
    try:
        runtime = _address(compiler)
    except MissingError as error:
        return Sanitizers(
            checked, "", f"{compiler.title} has no AddressSanitizer that works: {error.message}"
        )
    link = (*checked.link_flags, *_address_link(compiler))
    return Sanitizers(replace(checked, flags=(*checked.flags, _ADDRESS), link_flags=link), runtime, "")


def sanitized_firmware(
    root: Path,
    build_dir: Path,
    groups: Sequence[Objects],
    builtin: Builtin,
    compiler: Compiler,
    report: Reporter,
    label: str = "",
) -> tuple[Path, list[str]]:
    """firmware.so with checks, of the sources of `groups` and the built-in part, in build_dir/sanitized; and
    the commands that were run. `compiler` is the one of the plain build, which must have succeeded before.

    Errors: BuildError with the compiler's text.
    """
    checks = sanitizers(compiler)
    if checks.lacking:
        report.note(f"only UndefinedBehaviorSanitizer: {checks.lacking}")
    library = _library(builtin, checks, compiler, report)
    changed: list[Objects] = []
    for group in groups:
        own = unwatched(group.compiler).flags
        more = [flag for flag in own if flag not in compiler.flags]
        checked = replace(checks.compiler, flags=(*checks.compiler.flags, *more))
        changed.append(replace(group, compiler=checked))
    folder, identity = build_dir / "sanitized", checks.identity
    return firmware_beside(root, folder, changed, checks.compiler, library, identity, report, label)


def _library(builtin: Builtin, checks: Sanitizers, compiler: Compiler, report: Reporter) -> Path:
    """The built-in part with checks, kept inside the plain one's folder; built if it is not there yet."""

    def build(folder: Path) -> None:
        report.note("building the firmware's own part with checks (once per version and compiler)")
        ninja, sdk = NinjaFile(folder, folder), linked_sdk(folder)
        plain, checked = (shared(one, folder, builtin.directory) for one in (compiler, checks.compiler))
        findings = Objects(
            plain,
            [sdk / "sanitize" / "fw_findings.c"],
            [sdk / name for name in ("include", "generated", "firmware", "libc")],
            "findings",
            [f"FW_SANITIZED={json.dumps(checks.marker)}"],
        )
        objects = [
            *library_objects(ninja, builtin.directory, checked, checked, sdk),
            *ninja.objects(findings),
        ]
        built = ninja.archive(compiler, folder / builtin.libtpufw.name, objects)
        build_shared(ninja, [built], checks.identity, report, "built-in part ")

    digest = hashlib.sha256(checks.identity.encode()).hexdigest()[:16]
    folder = entries.built_once(
        builtin.directory / f"sanitized-{digest}", build, lambda: report.note("waiting for another build")
    )
    return folder / builtin.libtpufw.name


def _address_link(compiler: Compiler) -> tuple[str, ...]:
    return (_ADDRESS, "-shared-libasan") if compiler.family == "clang" else (_ADDRESS,)


def _address(compiler: Compiler) -> str:
    """The library that AddressSanitizer needs. MissingError says why it does not work; that is asked again
    each time, because installing the library changes no compiler."""
    path = Path(compiler.argv[0])
    found = remembered(path, ("address",), lambda _: {"runtime": _find_address(compiler)})["runtime"]
    return found if not os.path.isabs(found) or os.path.exists(found) else _find_address(compiler)


def _find_address(compiler: Compiler) -> str:
    """Build a library with AddressSanitizer, find what it needs, and see it find something in a process."""
    with tempfile.TemporaryDirectory(prefix="tpulayer-probe-") as name:
        source, library = Path(name) / "probe.c", Path(name) / "probe.so"
        source.write_text(_PROBE)
        link = (*compiler.link_flags, *_address_link(compiler))
        flags = ("-O1", "-fPIC", _ADDRESS, *link)
        built = run_compiler((*compiler.argv, *flags, str(source), "-o", str(library)))
        if built.returncode != 0 or not library.exists():
            raise MissingError(first_line(built.stderr) or "it produced no file")
        needed = _needed(library)
        if not needed:
            raise MissingError("what it builds names no library of it")
        answer = run_compiler((*compiler.argv, f"-print-file-name={needed}")).stdout.strip()
        # where the compiler has it, else where the loader looks by itself
        runtime = os.path.realpath(answer) if os.path.isabs(answer) else needed
        load = (sys.executable, "-c", _LOAD, str(library))
        sound = run_compiler((*load, "3"), preloaded(runtime))
        if sound.returncode != 0 or sound.stdout.strip() != "1":
            said = first_line(sound.stderr) or f"a process with {runtime} ended with {sound.returncode}"
            raise MissingError(said)
        if "heap-buffer-overflow" not in run_compiler((*load, "4"), preloaded(runtime)).stderr:
            raise MissingError(f"{runtime} does not see a write past the end")
    return runtime


def _needed(library: Path) -> str:
    """The name of the sanitizer's library among those that a library needs."""
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    with open(library, "rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if isinstance(section, DynamicSection):
                for tag in section.iter_tags("DT_NEEDED"):
                    if "asan" in tag.needed:
                        return str(tag.needed)
    return ""
