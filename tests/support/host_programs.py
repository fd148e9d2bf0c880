"""Host programs in C and C++ for the tests: compiled against the toolkit's libraries, and run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.paths import SOURCES
from tests.support.firmware_harness import SDK, compilers
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.host_flags import host_files

PROGRAMS = SOURCES / "bmrt_programs"


def build(
    folder: Path,
    source: str | Path,
    compiler: str | None = None,
    language: str = "c",
    libraries: Path | None = None,
) -> Path:
    """The program of a text, or of a file in PROGRAMS, with check.h in front, linked with both libraries.

    compiler: one of firmware_harness.compilers(); without it the toolkit's own choice. libraries:
    their folder, if it is not the toolkit's own.
    """
    if isinstance(source, str):
        path = folder / "host.source"
        path.write_text(source)
        source = path
    chosen = choose()
    words = compilers()[compiler] if compiler else (chosen.cxx if language == "c++" else chosen.c).argv
    libraries = libraries or host_files(None).libraries
    program = folder / "program"
    command = [*words, "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-g", "-pthread"]
    command += ["-include", PROGRAMS / "check.h", "-x", language, PROGRAMS / source, "-x", "none"]
    command += [
        f"-I{SDK / 'include'}",
        libraries / "libbmrt.so",
        libraries / "libbmlib.so",
        f"-Wl,-rpath,{libraries}",
        "-o",
        program,
    ]
    subprocess.run([*map(str, command)], check=True, timeout=600)  # zig makes its C++ library first
    return program


def run(program: Path, *args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """At most 60 s."""
    words = [str(program), *map(str, args)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=60, env={**os.environ, **env}, check=False
    )


def script(path: Path, text: str) -> str:
    """An executable file."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def python_with_pid(folder: Path) -> dict[str, str]:
    """The environment that makes the device process write its number to $PID_FILE."""
    text = f'#!/bin/sh\necho $$ > "$PID_FILE"\nexec {sys.executable} "$@"\n'
    return {"TPULAYER_PYTHON": script(folder / "python", text), "PID_FILE": str(folder / "pid")}
