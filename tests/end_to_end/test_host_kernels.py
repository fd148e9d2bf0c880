"""Host programs with kernels linked into them: they run in copies of the program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.paths import SOURCES
from tests.support.firmware_harness import COMPILERS, SDK, compilers
from tests.support.host_programs import PROGRAMS, build, run
from tests.support.workspaces import outside_of_workspaces
from user_layers.toolchain.host_flags import host_files

KERNELS = PROGRAMS / "kernels.h"


@pytest.fixture(scope="module", autouse=True)
def outside_of_any_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The program's kernels are the firmware, whatever else there is; here is nothing else."""
    with outside_of_workspaces(tmp_path_factory.mktemp("outside")):
        yield


@pytest.mark.parametrize("compiler", COMPILERS)
def test_kernels_in_the_program(compiler: str, tmp_path: Path) -> None:
    program = build(tmp_path, Path("kernels_inside.c"), compiler)
    done = run(program, TPULAYER_TIME_LIMIT="2")
    printed = "before\nlaunch 1\nlaunch 2\nafter, launches 0 here\nlaunch 1\nlaunch 1\nok\n"
    assert (done.returncode, done.stdout) == (0, printed), done.stdout + done.stderr
    place, lines = str(KERNELS), KERNELS.read_text().splitlines()
    for name, said in {
        "crash": "kernel crash crashed: SIGSEGV (invalid memory access) at ",
        "deep": "kernel deep, which needs more than 95 KiB of stack, crashed: SIGSEGV (invalid memory access)"
        " at ",
        "endless": "and was stopped at ",
    }.items():
        line = next(i for i, text in enumerate(lines, 1) if text.startswith(f"void {name}("))
        assert f"{said}{place}:{line} in {name}" in done.stderr, done.stderr
    line = next(i for i, text in enumerate(lines, 1) if "okk_bdc_add_C(0, 0, 1.f" in text)
    assert f"[called at {place}:{line} in refused]" in done.stderr
    line = next(i for i, text in enumerate(lines, 1) if "0x77000000" in text)
    assert f"{place}:{line} in illegal" in done.stderr, done.stderr
    for text in (
        "log 7\n",
        "kernel leaves ended its process with exit code 3",
        "this firmware has no kernel absent",
        "bmlib: bmkernel_func returned 5",
        "a table of 1048576 bytes; L2 has room for 902144",
    ):
        assert text in done.stderr, done.stderr


def test_nothing_is_left_running(tmp_path: Path) -> None:
    """Also when the program is killed while its kernel runs."""
    program = build(tmp_path, Path("endless.c"))
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        kernel = int(process.stdout.readline())
        process.kill()
        assert process.stdout.read() == ""  # every copy that had it open is gone
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)


def test_a_program_with_fixed_addresses(tmp_path: Path) -> None:
    """Kernels by a C compiler, the host by a C++ compiler, and -no-pie."""
    words = compilers().get("gcc")
    if words is None:
        pytest.skip("there is no gcc; zig links no programs with fixed addresses")
    libraries, flags = host_files(None).libraries, ["-g", f"-I{SDK / 'include'}"]
    kernels = [*words, *flags, "-DUSING_CMODEL", "-x", "c", "-c", KERNELS, "-o", tmp_path / "kernels.o"]
    main = ["-include", PROGRAMS / "check.h", "-x", "c++", PROGRAMS / "crashes.cpp", "-x", "none"]
    linked = [tmp_path / "kernels.o", libraries / "libbmlib.so", "-lstdc++", f"-Wl,-rpath,{libraries}"]
    program = [*words, *flags, "-no-pie", *main, *linked, "-o", tmp_path / "program"]
    for command in (kernels, program):
        subprocess.run([*map(str, command)], check=True, timeout=120)
    done = run(tmp_path / "program")
    assert done.returncode == 0 and f" at {KERNELS}:" in done.stderr, done.stderr


def test_the_contests_kinds_of_kernels(tmp_path: Path) -> None:
    """softmax, convolution, depthwise, product of matrices and pool, beside numpy: inside a program and on
    the firmware."""
    from tests.support.contest_cases import CASES, run_hosted, run_on_firmware

    source = SOURCES / "contest_kernels.c"
    hosted, native = run_hosted(tmp_path), run_on_firmware(source)
    for case in CASES:
        expected = case.reference()
        for results in (hosted, native):
            np.testing.assert_allclose(results[case.name], expected, rtol=2e-5, atol=2e-5, err_msg=case.name)
        assert np.array_equal(hosted[case.name], native[case.name]), case.name
