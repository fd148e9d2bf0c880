"""Host programs in C against libbmlib.so, and the same words from Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.device import Device, FirmwareError
from firmware_sim.errors import DeviceError, MissingError
from tests.firmware_harness import SDK, compilers
from user_layers.build.builtin import builtin_artifacts
from user_layers.build.kernel import kernel_firmware

KERNELS = """
#include "okk.h"
typedef struct { unsigned long long addr; int n; float add; } __attribute__((packed)) args_t;
void plus(const void *args) {
    const args_t *p = args;
    okk_initialize();
    dim4 shape = {1, 1, 1, p->n};
    okk_gdma_32bit_cpy_S2L(0, p->addr, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, p->add, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->addr, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(plus)
void crash(const void *args) { *(volatile int *)(args ? 8 : 16) = 1; }
OKKERNEL_FUNC_REGISTER(crash)
"""

PROGRAM = r"""
#include "bmlib_runtime.h"
#include <stdio.h>
#include <string.h>
#define CHECK(x) do { if (!(x)) { printf("line %d: %s\n", __LINE__, #x); return 1; } } while (0)
typedef struct { unsigned long long addr; int n; float add; } __attribute__((packed)) args_t;
int main(int argc, char **argv) {
    bm_handle_t h;
    bm_device_mem_t a, b;
    float x[64], y[64];
    unsigned chip;
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    if (argc > 1) CHECK(okkernel_load_firmware(h, argv[1], "") == BM_SUCCESS);
    CHECK(bm_get_chipid(h, &chip) == BM_SUCCESS && chip == 0x1684);
    CHECK(bm_malloc_device_byte(h, &a, sizeof x) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(h, &b, sizeof x) == BM_SUCCESS);
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    CHECK(bm_memcpy_s2d(h, a, x) == BM_SUCCESS);
    args_t args = {bm_mem_get_device_addr(a), 64, 1.5f};
    CHECK(okkernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_launch_async(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_launch_async(h, "plus", &args, sizeof args) == BM_SUCCESS);
    CHECK(okkernel_sync(h) == BM_SUCCESS);
    CHECK(bm_memcpy_d2d_byte(h, b, 0, a, 0, sizeof x) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(h, y, b) == BM_SUCCESS);
    for (int i = 0; i < 64; i++) CHECK(y[i] == (float)i + 4.5f);
    CHECK(bm_memcpy_d2s_partial_offset(h, y, b, 8, 16) == BM_SUCCESS && y[0] == 8.5f && y[1] == 9.5f);
    CHECK(bm_memset_device(h, 7, b) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s_partial(h, y, b, 4) == BM_SUCCESS && memcmp(y, &(int){7}, 4) == 0);
    /* what is wrong is said, and the device goes on */
    CHECK(okkernel_launch_sync(h, "minus", &args, sizeof args) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_async(h, "crash", NULL, 0) == BM_SUCCESS);
    CHECK(okkernel_sync(h) == BM_ERR_FAILURE);
    CHECK(okkernel_sync(h) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d_partial_offset(h, a, x, 8, sizeof x) == BM_ERR_PARAM);
    CHECK(okkernel_launch_sync(NULL, "plus", &args, sizeof args) == BM_ERR_PARAM);
    CHECK(okkernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS);
    bm_device_mem_t huge;
    int got = 0;
    for (int i = 0; i < 8; i++) got += bm_malloc_device_byte(h, &huge, 0xF0000000u) == BM_SUCCESS;
    CHECK(got < 8);
    bm_free_device(h, b);
    bm_free_device(h, a);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
"""


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "kernels.c"
    path.write_text(KERNELS)
    return kernel_firmware([path])


def build(folder: Path, compiler: list[str], text: str = PROGRAM) -> Path:
    (folder / "host.c").write_text(text)
    library = builtin_artifacts().bmlib
    program = folder / "host"
    command = [*compiler, "-o", program, folder / "host.c", f"-I{SDK / 'include'}", library]
    subprocess.run([*map(str, command), f"-Wl,-rpath,{library.parent}"], check=True, timeout=120)
    return program


def run(program: Path, *args: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = [str(program), *map(str, args)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=60, env={**os.environ, **env}, check=False
    )


@pytest.mark.parametrize("name", sorted(compilers()))
def test_a_host_program(name: str, firmware: Path, tmp_path: Path) -> None:
    program = build(tmp_path, compilers()[name])
    done = run(program, firmware, TPULAYER_PYTHON=sys.executable)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert "minus" in done.stderr and "SIGSEGV" in done.stderr


def test_the_firmware_may_come_from_the_environment(firmware: Path, tmp_path: Path) -> None:
    program = build(tmp_path, next(iter(compilers().values())))
    done = run(program, BMRUNTIME_FIRMWARE_PATH=str(firmware))
    assert done.stdout == "ok\n", done.stdout + done.stderr


def test_without_firmware_or_python(tmp_path: Path) -> None:
    program = build(tmp_path, next(iter(compilers().values())))
    done = run(program, BMRUNTIME_FIRMWARE_PATH=str(tmp_path / "absent"))
    assert done.returncode == 1 and "no firmware at" in done.stderr
    done = run(program, TPULAYER_PYTHON=str(tmp_path / "no python"))
    assert done.returncode == 1 and "set TPULAYER_PYTHON" in done.stderr


def test_a_killed_device_is_an_error(firmware: Path, tmp_path: Path) -> None:
    text = r"""
#include "bmlib_runtime.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    bm_handle_t h;
    bm_device_mem_t a;
    char command[99];
    if (bm_dev_request(&h, 0) != BM_SUCCESS) return 2;
    snprintf(command, sizeof command, "pkill -9 -P %d -f [h]ost_server", (int)getpid());
    if (system(command) != 0) return 3;
    printf("%d\n", bm_malloc_device_byte(h, &a, 64));
    bm_dev_free(h);
    return 0;
}
"""
    if shutil.which("pkill") is None:
        pytest.skip("pkill is not installed")
    done = run(build(tmp_path, next(iter(compilers().values())), text), BMRUNTIME_FIRMWARE_PATH=str(firmware))
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stdout + done.stderr
    assert "is gone" in done.stderr


def args(addr: int, n: int, add: float) -> bytes:
    return np.array([(addr, n, add)], "<u8,<i4,<f4").tobytes()


def test_asynchronous_launches_from_python(firmware: Path) -> None:
    with Device(firmware) as device:
        x = np.arange(32, dtype=np.float32)
        addr = device.malloc(x.nbytes)
        device.write(addr, x)
        for _ in range(5):
            device.launch_async("plus", args(addr, 32, 1.0))
        device.launch("plus", args(addr, 32, 1.0))  # after those
        assert np.array_equal(device.read_array(addr, (32,), "float32"), x + 6)
        device.launch_async("minus")
        device.launch_async("plus", args(addr, 32, 1.0))
        with pytest.raises(FirmwareError, match="minus"):
            device.sync()
        device.sync()
        assert np.array_equal(device.read_array(addr, (32,), "float32"), x + 7)


def test_another_firmware_on_the_same_memories(firmware: Path) -> None:
    with Device(builtin_artifacts().firmware) as device:
        addr = device.malloc(64)
        device.write(addr, np.ones(16, np.float32))
        with pytest.raises(DeviceError):
            device.launch("plus", args(addr, 16, 1.0))
        device.load_firmware(firmware)
        device.launch("plus", args(addr, 16, 1.0))
        assert np.array_equal(device.read_array(addr, (16,), "float32"), np.full(16, 2, np.float32))
        with pytest.raises(MissingError):
            device.load_firmware(firmware.with_name("absent.so"))
