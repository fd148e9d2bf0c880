"""Host programs with kernels linked into them: they run in copies of the program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.paths import ROOT
from tests.support.firmware_harness import COMPILERS, SDK, compilers
from tests.support.host_programs import build, run
from user_layers.toolchain.builtin import builtin_artifacts


@pytest.fixture(scope="module", autouse=True)
def outside_of_any_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The program's kernels are the firmware, whatever else there is; here is nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("outside"))
        for name in ("TPULAYER_WORKSPACE", "BMRUNTIME_FIRMWARE_PATH"):
            patch.delenv(name, raising=False)
        yield


KERNELS = r"""
#include <stdlib.h>
#include "bmlib_runtime.h"
#include "okk.h"

typedef struct { unsigned long long addr; int n; float add; } __attribute__((packed)) args_t;
static int launches;

void plus(const void *args) {
    const args_t *p = args;
    dim4 shape = {1, 1, 1, p->n};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->addr, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, p->add, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->addr, 0, &shape, NULL, NULL);
    okk_poll();
    printf("launch %d\n", ++launches);
}
OKKERNEL_FUNC_REGISTER(plus)

void crash(const void *args) { (void)args; *(volatile int *)8 = 1; }
OKKERNEL_FUNC_REGISTER(crash)
void endless(const void *args) { for (volatile int i = 0;; i = i + 1) (void)args; }
OKKERNEL_FUNC_REGISTER(endless)
void leaves(const void *args) { (void)args; exit(3); }
OKKERNEL_FUNC_REGISTER(leaves)
void refused(const void *args) {
    dim4 shape = {1, 5000, 1, 1};
    (void)args;
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
}
OKKERNEL_FUNC_REGISTER(refused)
void illegal(const void *args) {
    dim4 shape = {1, 1, 1, 4};
    (void)args;
    OKKERNEL_LOG("log %d\n", 7);
    okk_gdma_32bit_cpy_S2L(0, 0x77000000, &shape, NULL, NULL); /* no memory is there */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(illegal)
void deep(const void *args) { volatile char room[1 << 16]; room[0] = 0; if (args) deep((void *)room); room[1] = 0; }
OKKERNEL_FUNC_REGISTER(deep)

int bmkernel_func(void *args) {
    /* the table's first word, to where the arguments say */
    const args_t *p = args;
    if (p->n == 0) return 5;
    unsigned l2 = 0x10000000; /* the address of a table counts from there */
    *(int *)okk_global_mem_addr(p->addr) = *(int *)okk_l2_sram_addr(l2 + okk_lookup_table_start_addr());
    return 0;
}
"""

PROGRAM = r"""
int main(void) {
    bm_handle_t h, second;
    bm_device_mem_t mem;
    float x[64];
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(h, &mem, sizeof x) == BM_SUCCESS);
    args_t args = {bm_mem_get_device_addr(mem), 64, 1.5f};
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    CHECK(bm_memcpy_s2d(h, mem, x) == BM_SUCCESS);
    printf("before\n");
    CHECK(okkernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_launch_async(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_sync(h) == BM_SUCCESS);
    printf("after, launches %d here\n", launches);
    /* each of these ends, is told with its place, and the memories stay */
    CHECK(okkernel_launch_sync(h, "crash", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "leaves", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "refused", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "illegal", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "deep", &args, sizeof args) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "endless", NULL, 0) == BM_ERR_TIMEOUT);
    CHECK(okkernel_launch_sync(h, "absent", NULL, 0) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(h, x, mem) == BM_SUCCESS);
    for (int i = 0; i < 64; i++) CHECK(x[i] == (float)i + 4.5f);
    /* one entry for all kernels */
    int table[2] = {77, 78};
    static char large[1 << 20];
    CHECK(bmkernel_load_lookup_table(h, table, sizeof table) == BM_SUCCESS);
    CHECK(bmkernel_load_lookup_table(h, large, sizeof large) == BM_ERR_PARAM);
    CHECK(bmkernel_launch(h, &args, sizeof args) == BM_SUCCESS && bm_thread_sync(h) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(h, x, mem) == BM_SUCCESS && memcmp(x, table, 4) == 0);
    args.n = 0;
    CHECK(bmkernel_launch(h, &args, sizeof args) == BM_SUCCESS && bm_thread_sync(h) == BM_ERR_FAILURE);
    /* another device has its own copy */
    CHECK(bm_dev_request(&second, 1) == BM_SUCCESS && bm_malloc_device_byte(second, &mem, sizeof x) == BM_SUCCESS);
    args = (args_t){bm_mem_get_device_addr(mem), 64, 1.f};
    CHECK(okkernel_launch_sync(second, "plus", &args, sizeof args) == BM_SUCCESS);
    bm_dev_free(second);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_kernels_in_the_program(compiler: str, tmp_path: Path) -> None:
    program = build(tmp_path, KERNELS + PROGRAM, compiler)
    done = run(program)
    printed = "before\nlaunch 1\nlaunch 2\nafter, launches 0 here\nlaunch 1\nlaunch 1\nok\n"
    assert (done.returncode, done.stdout) == (0, printed), done.stdout + done.stderr
    place = str(tmp_path / "host.source")
    lines = (tmp_path / "host.source").read_text().splitlines()
    for name, said in {
        "crash": "kernel crash crashed: SIGSEGV (invalid memory access) at ",
        "deep": "kernel deep crashed: SIGSEGV (invalid memory access) at ",
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
    source = KERNELS.replace("for (volatile int i", 'printf("%d\\n", getpid());for (volatile int i')
    program = build(
        tmp_path,
        "#include <unistd.h>\n" + source + "int main(void) { bm_handle_t h; bm_dev_request(&h, 0);"
        'return okkernel_launch_sync(h, "endless", NULL, 0); }',
    )
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        kernel = int(process.stdout.readline())
        process.kill()
        assert process.stdout.read() == ""  # every copy that had it open is gone
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)


def test_a_program_with_fixed_addresses(tmp_path: Path) -> None:
    """Built as the vendor's makefile does: kernels by a C compiler, the host by a C++ compiler, and -no-pie."""
    names = [name for name in compilers() if name.startswith(("gcc", "g++", "clang"))]
    if not names:
        pytest.skip("zig cannot link programs with fixed addresses")
    (tmp_path / "kernels.c").write_text(KERNELS)
    (tmp_path / "main.cpp").write_text(
        '#include <cstdio>\n#include "bmlib_runtime.h"\nint main() { bm_handle_t h; if (bm_dev_request(&h, 0)) return 1;'
        'if (okkernel_launch_sync(h, "crash", nullptr, 0) != BM_ERR_FAILURE) return 2; bm_dev_free(h); return 0; }\n'
    )
    built = builtin_artifacts()
    words = [*compilers()[names[0]], "-g", "-no-pie", f"-I{SDK / 'include'}"]
    kernels = ["-x", "c", "-DUSING_CMODEL", "kernels.c", "-x", "c++", "main.cpp", "-x", "none"]
    libraries = [str(built.bmlib), f"-Wl,-rpath,{built.directory}", "-lstdc++"]
    subprocess.run([*map(str, words), *kernels, *libraries, "-o", "p"], cwd=tmp_path, check=True, timeout=120)
    done = run(tmp_path / "p")
    assert done.returncode == 0 and f"at {tmp_path / 'kernels.c'}:" in done.stderr, done.stderr


def test_the_contests_kinds_of_kernels(tmp_path: Path) -> None:
    """softmax, convolution, depthwise, product of matrices and pools of tests/sources/contest_kernels.c, beside
    numpy; run twice, in a program of their own and on the firmware."""
    from tests.support.contest_cases import CASES, run_hosted, run_on_firmware

    source = ROOT / "tests" / "sources" / "contest_kernels.c"
    hosted, native = run_hosted(source, tmp_path), run_on_firmware(source)
    for case in CASES:
        expected = case.reference()
        for results in (hosted, native):
            np.testing.assert_allclose(results[case.name], expected, rtol=2e-5, atol=2e-5, err_msg=case.name)
        assert np.array_equal(hosted[case.name], native[case.name]), case.name
