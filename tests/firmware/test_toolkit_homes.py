"""Which toolkit a host program starts where libbmlib.so was built for several; what it says without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firmware_sim.errors import BuildError
from firmware_sim.sdk_folder import toolkit_home
from tests.support.host_programs import build, run, script
from user_layers.toolchain import homes
from user_layers.toolchain.builtin import Builtin, builtin_artifacts
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.host_flags import host_files

PROGRAM = """
#include <stdio.h>
#include "bmlib_runtime.h"
int main(void) {
    bm_handle_t h;
    int status = bm_dev_request(&h, 0);
    if (status == BM_SUCCESS) bm_dev_free(h);
    printf("%d\\n", status);
    return 0;
}
"""
GONE = b"/gone/bin/python\0/gone/toolkit\0"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Linked with libraries in its own folder `lib`."""
    folder = tmp_path_factory.mktemp("homes")
    libraries = host_files(None).copied(folder / "lib").libraries
    return build(folder, PROGRAM, libraries=libraries)


def _library(program: Path) -> Path:
    return program.parent / "lib" / "libbmlib.so"


def test_a_toolkit_that_is_gone_is_replaced_by_another_with_the_same_library(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, shared = builtin_artifacts().bmlib, Builtin(tmp_path)
    with monkeypatch.context() as there:
        there.setattr(homes, "_home", lambda: GONE)
        left = homes.with_home(plain, shared)
    _library(program).write_bytes(left)
    done = run(program)
    assert done.stdout != "0\n" and done.returncode == 0
    assert done.stderr.splitlines()[0] == (
        "bmlib: the toolkit that this program was built with is gone (/gone/bin/python, in /gone/toolkit); "
        "set TPULAYER_PYTHON to the python of another one"
    )
    assert run(program, TPULAYER_PYTHON=sys.executable).stdout == "0\n"
    for _ in range(2):
        own = homes.with_home(plain, shared)
    assert (tmp_path / "homes").read_bytes() == GONE + homes._home()  # each once
    done = run(program)
    assert done.stdout == "0\n" and f"/gone/toolkit is gone; the one in {toolkit_home()}" in done.stderr
    _library(program).write_bytes(own)
    done = run(program)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_library_straight_from_the_cache(program: Path, tmp_path: Path) -> None:
    _library(program).write_bytes(builtin_artifacts().bmlib.read_bytes())
    done = run(program)
    assert done.stdout != "0\n" and "does not know its toolkit; link with the one that" in done.stderr
    assert run(program, TPULAYER_PYTHON=sys.executable).stdout == "0\n"
    bare = script(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    assert (
        f"{sys.executable} has no tpulayer; set TPULAYER_PYTHON" in run(program, TPULAYER_PYTHON=bare).stderr
    )


def test_a_list_that_is_damaged(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in the file, the program says that the toolkit is gone."""
    with monkeypatch.context() as there:
        there.setattr(homes, "_home", lambda: GONE)
        _library(program).write_bytes(homes.with_home(builtin_artifacts().bmlib, Builtin(tmp_path)))
    for content in (b"", b"\0", b"\0\0\0", b"/gone", GONE + b"x", b"\xff" * (1 << 20) + b"\0" + GONE):
        (tmp_path / "homes").write_bytes(content)
        done = run(program)
        assert done.returncode == 0 and "is gone (/gone/bin/python" in done.stderr, content[:9]


def test_a_library_with_a_place_already_takes_no_other(tmp_path: Path) -> None:
    builtin = builtin_artifacts()
    library = host_files(None).libraries / "libbmlib.so"
    for other in (library, builtin.bmrt):
        with pytest.raises(BuildError, match="has no room for the place of the toolkit"):
            homes.with_home(other, builtin)


APART = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
extern char **environ;
int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW | RTLD_DEEPBIND), *h = NULL;
    if (library == NULL) return puts(dlerror());
    int (*request)(void **, int) = (int (*)(void **, int))dlsym(library, "bm_dev_request");
    printf("%d\\n", environ == NULL ? -1 : request(&h, 0));
    return 0;
}
"""


def test_a_library_apart_from_its_program_passes_on_the_programs_environment(tmp_path: Path) -> None:
    """LiteRT opens plugins like this. A program at a fixed address has a copy of `environ`, as Debian's
    python3 has; the C library's own stays empty."""
    (tmp_path / "apart.c").write_text(APART)
    flags = ["-std=gnu11", "-O1", "-fno-pie", "-no-pie"]
    words = [*choose().c.argv, *flags, str(tmp_path / "apart.c"), "-o", str(tmp_path / "apart"), "-ldl"]
    subprocess.run(words, check=True, timeout=600)
    text = f'#!/bin/sh\necho "$MARK" > {tmp_path}/mark\nexec {sys.executable} "$@"\n'
    python = script(tmp_path / "python", text)
    library = host_files(None).libraries / "libbmlib.so"
    done = run(tmp_path / "apart", library, TPULAYER_PYTHON=python, MARK="it is here")
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert (tmp_path / "mark").read_text() == "it is here\n"
