"""The firmware's C compiles without a warning wherever it has to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import firmware_harness as fh


@pytest.mark.parametrize("compiler", fh.COMPILERS)
def test_no_warnings(compiler: str, tmp_path: Path) -> None:
    command = [*fh.compilers()[compiler], *fh.WARNINGS, "-Wshadow", "-O1", "-fPIC", *fh.INCLUDES, "-c"]
    subprocess.run(
        [*command, *map(str, [*fh.FIRMWARE_C, *fh.LAYERS_C])], cwd=tmp_path, check=True, timeout=840
    )


def test_everything_but_the_native_platform_compiles_for_the_controller(tmp_path: Path) -> None:
    includes = [*fh.INCLUDES, *(f"-I{fh.SDK / name}" for name in ("libc/include", "arm"))]
    target = ["-target", "arm-freestanding-eabi", "-mcpu=arm926ej_s", "-ffreestanding"]
    command = [sys.executable, "-m", "ziglang", "cc", *target, *fh.WARNINGS, "-O1", *includes, "-c"]
    portable = [p for p in fh.FIRMWARE_C if not p.name.startswith("fw_native")]
    assert len(portable) == len(fh.FIRMWARE_C) - 9
    sources = [*portable, *(fh.SDK / "arm").glob("*.c"), *fh.LAYERS_C]
    subprocess.run([*command, *map(str, sources)], cwd=tmp_path, check=True, timeout=840)


def test_a_kernel_that_calls_what_is_not_there_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text('#include "okk.h"\nvoid f(void) { okk_bdc_nothing(0); }\n')
    compiler = next(iter(fh.compilers().values()))
    command = [*compiler, "-std=c11", "-Werror=implicit-function-declaration", f"-I{fh.SDK / 'include'}"]
    done = subprocess.run(
        [*command, "-c", str(source), "-o", str(tmp_path / "kernel.o")],
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert done.returncode != 0
    assert "okk_bdc_nothing" in done.stderr
