"""Kernels and host programs that others published for a contest: built as their makefile does, and run.

$TPULAYER_PUBLIC_KERNELS names a checkout of the repository; else git fetches it into the user's cache, and
where that is not possible the tests are skipped with the reason. Each program compares with a reference of
its own.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.oracle import client
from user_layers.toolchain.host_flags import host_files

REPOSITORY = "1146877017/tpucontest"
SOURCE = f"https://github.com/{REPOSITORY}.git"
KINDS = ("softmax", "depthwise", "matmul", "conv2d")
CONTESTANTS = range(5)
FETCH_SECONDS, RUN_SECONDS = 120, 1200


@cache
def checkout() -> tuple[Path, str]:
    """The folder, and why it cannot be had ("" when it can)."""
    named = os.environ.get("TPULAYER_PUBLIC_KERNELS")
    if named:
        return Path(named), "" if Path(named).is_dir() else f"TPULAYER_PUBLIC_KERNELS: no folder {named}"
    folder = client.cache() / REPOSITORY.replace("/", "-")
    if folder.is_dir():
        return folder, ""
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = ["git", "clone", "--quiet", "--depth", "1", SOURCE, str(fresh)]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=FETCH_SECONDS, env=environment)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        return folder, f"{REPOSITORY} cannot be fetched: {error} {said.decode(errors='replace').strip()}"
    fresh.rename(folder)
    return folder, ""


def kernels(kind: str) -> tuple[Path, list[Path]]:
    """The folder okkernel, and each contestant's file."""
    folder, why = checkout()
    if why:
        pytest.skip(why)
    return folder / "okkernel", sorted(folder.rglob(f"perfect_code_show/*/ok_device_{kind}_contest.c"))


@pytest.mark.parametrize("contestant", CONTESTANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_contestants_kernel(kind: str, contestant: int, tmp_path: Path) -> None:
    project, files = kernels(kind)
    assert len(files) == len(CONTESTANTS)
    libraries = host_files(None).libraries
    device = [files[contestant], project / "device" / f"ok_device_{kind}_demo.c"]
    objects = []
    for source in (path for path in device if path.is_file()):
        objects.append(tmp_path / f"{source.stem}.o")
        words = ["gcc", "-w", "-O3", "-fPIC", "-DUSING_CMODEL", f"-I{project / 'include'}", "-c", source]
        subprocess.run([*map(str, words), "-o", str(objects[-1])], check=True, timeout=120)
    program = tmp_path / kind
    words = ["g++", "-w", "-O3", "-std=c++11", "-DUSING_CMODEL", f"-I{project / 'include'}"]
    words += [
        project / "host" / f"{kind}.cpp",
        *objects,
        libraries / "libbmlib.so",
        f"-Wl,-rpath,{libraries}",
    ]
    subprocess.run([*map(str, words), "-o", str(program)], check=True, timeout=840)
    done = subprocess.run([program], capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    lines = [line for line in done.stdout.splitlines() if line.endswith((" pass", " fail", " failed"))]
    assert done.returncode == 0 and lines, done.stdout + done.stderr
    assert all(line.endswith(" pass") for line in lines), done.stdout
