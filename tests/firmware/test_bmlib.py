"""Host programs in C against libbmlib.so, and the same words from Python."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.device.client import Device, FirmwareError
from firmware_sim.errors import DeviceCrash, DeviceError, MissingError
from firmware_sim.wire import MAX_ARGUMENTS
from tests.support.firmware_harness import COMPILERS
from tests.support.host_programs import build, python_with_pid, run, script
from user_layers.bmlib import (
    okkernel_launch_async,
    okkernel_launch_sync,
    okkernel_load_firmware,
    okkernel_sync,
)
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.kernel import kernel_firmware

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
void nothing(const void *args) { (void)args; }
OKKERNEL_FUNC_REGISTER(nothing)
void crash(const void *args) { *(volatile int *)(args ? 8 : 16) = 1; }
OKKERNEL_FUNC_REGISTER(crash)
void endless(const void *args) { for (volatile int i = 0;; i = i + 1) (void)args; }
OKKERNEL_FUNC_REGISTER(endless)
"""

HEAD = r"""
#include "bmlib_runtime.h"
typedef struct { unsigned long long addr; int n; float add; } __attribute__((packed)) args_t;
"""

PROGRAM = r"""
int main(int argc, char **argv) {
    bm_handle_t h;
    bm_device_mem_t a, b;
    float x[64], y[64];
    unsigned chip;
    int count, seven = 7;
    CHECK(bm_dev_getcount(&count) == BM_SUCCESS && count == 1 && bm_dev_query(0) == BM_SUCCESS);
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS && bm_get_devid(h) == 0);
    if (argc > 1) CHECK(okkernel_load_firmware(h, argv[1], "") == BM_SUCCESS);
    CHECK(bm_get_chipid(h, &chip) == BM_SUCCESS && chip == 0x1684);
    CHECK(bm_malloc_device_byte(h, &a, sizeof x) == BM_SUCCESS);
    CHECK(bm_malloc_device_dword(h, &b, 64) == BM_SUCCESS && bm_mem_get_device_size(b) == sizeof x);
    CHECK(bm_mem_get_type(a) == BM_MEM_TYPE_DEVICE);
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
    CHECK(bm_memcpy_s2d_partial(h, b, x + 40, 8) == BM_SUCCESS);
    CHECK(bm_memcpy_s2d_partial_offset(h, b, x + 50, 4, 8) == BM_SUCCESS);
    CHECK(bm_memcpy_d2d(h, b, 3, b, 0, 1) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s_partial(h, y, b, 20) == BM_SUCCESS);
    CHECK(y[0] == 40 && y[1] == 41 && y[2] == 50 && y[3] == 40 && y[4] == 8.5f);
    CHECK(bm_memset_device(h, 7, bm_mem_from_device(bm_mem_get_device_addr(b), 8)) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s_partial(h, y, b, 12) == BM_SUCCESS);
    CHECK(memcmp(y, &seven, 4) == 0 && memcmp(y + 1, &seven, 4) == 0 && y[2] == 50);
    /* far more launches than a socket holds */
    for (int i = 0; i < 2000; i++) CHECK(okkernel_launch_async(h, i % 2 ? "nothing" : "minus", NULL, 0) == 0);
    CHECK(okkernel_sync(h) == BM_ERR_FAILURE);
    /* what is wrong is said, and the device goes on */
    CHECK(okkernel_launch_sync(h, "minus", &args, sizeof args) == BM_ERR_FAILURE);
    CHECK(okkernel_launch_async(h, "crash", NULL, 0) == BM_SUCCESS);
    CHECK(okkernel_launch_sync(h, "nothing", NULL, 0) == BM_SUCCESS);
    CHECK(okkernel_sync(h) == BM_ERR_FAILURE);
    CHECK(okkernel_sync(h) == BM_SUCCESS);
    CHECK(okkernel_launch_sync(h, "endless", NULL, 0) == BM_ERR_TIMEOUT);
    CHECK(okkernel_load_firmware(h, "absent.so", "") == BM_ERR_PARAM);
    CHECK(bm_memcpy_s2d_partial_offset(h, a, x, 8, sizeof x) == BM_ERR_PARAM);
    CHECK(bm_memcpy_d2s(h, y, bm_mem_from_system(x)) == BM_ERR_PARAM);
    CHECK(bm_memcpy_d2s(h, y, bm_mem_from_device(64, 64)) == BM_ERR_PARAM);
    CHECK(okkernel_launch_sync(h, "plus", &args, sizeof args) == BM_SUCCESS);
    bm_device_mem_t huge;
    int status = 0;
    for (int i = 0; i < 8 && status == 0; i++) status = bm_malloc_device_byte(h, &huge, 0xF0000000u);
    CHECK(status == BM_ERR_NOMEM);
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


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("name", COMPILERS)
def test_a_host_program(name: str, language: str, firmware: Path, tmp_path: Path) -> None:
    program = build(tmp_path, HEAD + PROGRAM, name, language)
    done = run(program, firmware, TPULAYER_PYTHON=sys.executable, TPULAYER_TIME_LIMIT="1")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    for text in (
        "no kernel minus",
        "the first of 1000 launches",
        "kernel crash crashed: SIGSEGV",
        "kernel endless ran for",
        "no firmware at",
        "8 bytes at offset 256 of 256 bytes",
        "the memory is not the device's",
        "do not lie in DDR",
    ):
        assert text in done.stderr


def test_the_firmware_may_come_from_the_environment(firmware: Path, tmp_path: Path) -> None:
    """Also from a folder whose names would hide Python's own modules."""
    for name in ("struct.py", "signal.py", "firmware_sim.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')\n")
    program = build(tmp_path, HEAD + PROGRAM)
    done = subprocess.run(
        [program],
        cwd=tmp_path,
        env={**os.environ, "BMRUNTIME_FIRMWARE_PATH": str(firmware), "TPULAYER_TIME_LIMIT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "ok\n", done.stdout + done.stderr


MORE_MEMORY = r"""
static bm_status_t checked(bm_status_t status, int *reached) {
    BM_CHECK_RET(status);
    *reached += 1;
    BM_CHECK_RET(BM_SUCCESS);
    return BM_SUCCESS;
}

int main(void) {
    bm_handle_t h;
    bm_device_mem_t a, b;
    int reached = 0;
    unsigned char bytes[12], three[4] = {1, 2, 3, 4};
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    CHECK(checked(BM_ERR_BUSY, &reached) == BM_ERR_BUSY && reached == 0);
    CHECK(checked(bm_dev_request(&h, 0), &reached) == BM_SUCCESS && reached == 1);
    CHECK(bm_malloc_neuron_device(h, &a, 1, 2, 1, 3) == BM_SUCCESS && bm_mem_get_device_size(a) == 24);
    CHECK(bm_malloc_neuron_device(h, &b, 1, 0, 1, 3) == BM_ERR_PARAM);
    CHECK(bm_malloc_neuron_device(h, &b, 1024, 1024, 1024, 1) == BM_ERR_PARAM); /* 4 GiB */
    CHECK(bm_malloc_device_byte_heap(h, &b, 2, 12) == BM_SUCCESS && bm_mem_get_device_size(b) == 12);
    CHECK(bm_memset_device_ext(h, three, 3, b) == BM_SUCCESS && bm_memcpy_d2s(h, bytes, b) == BM_SUCCESS);
    for (int i = 0; i < 12; i++) CHECK(bytes[i] == i % 3 + 1);
    CHECK(bm_memset_device_ext(h, three, 1, b) == BM_SUCCESS && bm_memcpy_d2s(h, bytes, b) == BM_SUCCESS);
    for (int i = 0; i < 12; i++) CHECK(bytes[i] == 1);
    CHECK(bm_memset_device_ext(h, three, 5, b) == BM_ERR_PARAM);
    bm_mem_set_device_size(&b, 10);
    CHECK(bm_memset_device_ext(h, three, 4, b) == BM_ERR_PARAM && bm_memset_device(h, 0, b) == BM_ERR_PARAM);
    bm_free_device(h, b);
    CHECK(bm_malloc_device_byte_heap(h, &b, 3, 12) == BM_ERR_PARAM);
    CHECK(bm_malloc_device_byte_heap_mask(h, &b, 8, 12) == BM_ERR_PARAM);
    CHECK(bm_malloc_device_byte_heap_mask(h, &b, 6, 12) == BM_SUCCESS);
    bm_free_device(h, b);
    CHECK(bm_malloc_device_dword(h, &b, 0x3FFFFFFF) == BM_SUCCESS && bm_mem_get_device_size(b) == 0xFFFFFFFC);
    bm_free_device(h, b);
    CHECK(bm_malloc_device_dword(h, &b, 0x40000000) == BM_ERR_PARAM);
    bm_free_device(h, a);
    bm_system_mem_t host = bm_mem_from_system(x);
    CHECK(bm_mem_convert_system_to_device_neuron(h, &a, host, true, 1, 1, 2, 3) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(h, y, a) == BM_SUCCESS && memcmp(x, y, sizeof x) == 0);
    bm_free_device(h, a);
    CHECK(bm_mem_convert_system_to_device_coeff_byte(h, &a, host, true, 24) == BM_SUCCESS);
    CHECK(bm_memcpy_d2s(h, y, a) == BM_SUCCESS && memcmp(x, y, sizeof x) == 0);
    CHECK(bm_mem_convert_system_to_device_coeff(h, &b, bm_mem_null(), true, 6) == BM_ERR_PARAM);
    CHECK(bm_mem_convert_system_to_device_coeff(h, &b, bm_mem_null(), false, 6) == BM_SUCCESS);
    CHECK(bm_mem_get_device_size(b) == 24);
    bm_free_device(h, b);
    CHECK(bm_mem_convert_system_to_device_neuron_byte(h, &b, bm_mem_null(), false, 2, 3, 1, 1) == BM_SUCCESS);
    CHECK(bm_mem_get_device_size(b) == 6);
    CHECK(okkernel_launch_async(h, "minus", NULL, 0) == BM_SUCCESS);
    bm_flush(h); /* says what went wrong, and has no status */
    CHECK(okkernel_sync(h) == BM_SUCCESS);
    bm_dev_free(h);
    printf("ok\n");
    return 0;
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_more_ways_to_device_memory(language: str, firmware: Path, tmp_path: Path) -> None:
    program = build(tmp_path, HEAD + MORE_MEMORY, language=language)
    done = run(program, BMRUNTIME_FIRMWARE_PATH=str(firmware))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    for text in (
        "bm_malloc_neuron_device: extents are 1 or more",
        "bm_malloc_neuron_device: the size is not a number of bytes in 32 bits",
        "bm_memset_device_ext: mode is 1 to 4 bytes",
        "bm_memset_device_ext: the size 10 is not a multiple of 4",
        "bm_malloc_device_byte_heap: heap_id is 0, 1 or 2",
        "sys_mem is not a memory of the host",
        "no kernel minus",
    ):
        assert text in done.stderr


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_card_and_its_memory(language: str, firmware: Path, tmp_path: Path) -> None:
    program = build(tmp_path, Path("card.c"), language=language)
    done = run(program, BMRUNTIME_FIRMWARE_PATH=str(firmware))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    for text in (
        "the emulated clock is 550 MHz and cannot be changed to 500",
        "the size is not a number of bytes in 64 bits",
        "no device memory is mapped there",
        "the only heap is 0",
        "shown 3",
    ):
        assert text in done.stderr
    assert "fan" not in done.stderr and "not shown" not in done.stderr


MALLOC = r"""
int main(void) {
    bm_handle_t h;
    bm_device_mem_t a;
    int status = bm_dev_request(&h, 0);
    if (status == BM_SUCCESS) status = bm_malloc_device_byte(h, &a, 64);
    printf("%d\n", status);
    return 0;
}
"""


def test_without_firmware_or_python(tmp_path: Path) -> None:
    program = build(tmp_path, HEAD + MALLOC)
    done = run(program, BMRUNTIME_FIRMWARE_PATH=str(tmp_path / "absent"))
    assert done.stdout == "1\n" and "no firmware at" in done.stderr
    done = run(program, TPULAYER_PYTHON=str(tmp_path / "no python"))
    assert done.stdout == "1\n" and "set TPULAYER_PYTHON" in done.stderr
    done = run(program, TPULAYER_PYTHON=script(tmp_path / "ends", "#!/bin/sh\n"))
    assert done.stdout == "1\n" and "is gone" in done.stderr


def test_another_version_of_the_toolkit_is_told(tmp_path: Path) -> None:
    text = (
        f"#!{sys.executable}\n"
        "import socket, struct, sys\n"
        "s = socket.socket(fileno=int(sys.argv[5]))\n"
        "s.sendall(struct.pack('<iIQQ', 0, 0, 999, 0))\n"
        "s.recv(1)\n"
    )
    done = run(build(tmp_path, HEAD + MALLOC), TPULAYER_PYTHON=script(tmp_path / "other", text))
    assert done.stdout == "1\n" and "different versions; build_layers again" in done.stderr


# ---- a device process that is gone, stuck, or left behind ----

WITH_SIGNAL = r"""
int main(void) {
    bm_handle_t h;
    bm_device_mem_t a;
    int pid;
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(bm_malloc_device_byte(h, &a, 64) == BM_SUCCESS);
    FILE *file = fopen(getenv("PID_FILE"), "r");
    CHECK(file != NULL && fscanf(file, "%d", &pid) == 1);
    setenv("TPULAYER_HOST_LIMIT", "2", 1); /* not before: on a busy machine a device opens in seconds */
    CHECK(kill(pid, atoi(getenv("SIGNAL"))) == 0);
    int first = bm_malloc_device_byte(h, &a, 64), second = okkernel_launch_sync(h, "nothing", NULL, 0);
    unsetenv("TPULAYER_HOST_LIMIT");
    printf("%d %d\n", first, second);
    bm_dev_free(h);
    CHECK(kill(pid, 0) != 0);
    /* another handle is another device */
    CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
    CHECK(okkernel_launch_sync(h, "nothing", NULL, 0) == BM_SUCCESS);
    if (getenv("LEAVE") == NULL) bm_dev_free(h);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("number", "codes", "message"),
    [
        (signal.SIGKILL, "1 1\n", "device 0 is gone: its process has ended"),
        (signal.SIGSTOP, "3 1\n", "device 0 gave no answer for 2 s and was stopped"),
    ],
)
def test_a_device_that_is_gone_or_stuck(
    number: int, codes: str, message: str, firmware: Path, tmp_path: Path
) -> None:
    done = run(
        build(tmp_path, HEAD + WITH_SIGNAL),
        BMRUNTIME_FIRMWARE_PATH=str(firmware),
        SIGNAL=str(int(number)),
        **python_with_pid(tmp_path),
    )
    assert (done.returncode, done.stdout) == (0, codes), done.stdout + done.stderr
    assert message in done.stderr


def test_the_device_ends_with_a_program_that_does_not_free_it(firmware: Path, tmp_path: Path) -> None:
    done = run(
        build(tmp_path, HEAD + WITH_SIGNAL),
        BMRUNTIME_FIRMWARE_PATH=str(firmware),
        SIGNAL=str(int(signal.SIGKILL)),
        LEAVE="1",
        **python_with_pid(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is left behind"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether the process runs; a dead one that nobody reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_wrong_handles(firmware: Path, tmp_path: Path) -> None:
    text = r"""
int main(void) {
    bm_handle_t h = NULL;
    bm_device_mem_t a;
    char foreign[256] = {0};
    for (int i = 0; i < 3; i++) {
        CHECK(bm_malloc_device_byte(h, &a, 64) == BM_ERR_PARAM);
        CHECK(okkernel_launch_sync(h, "nothing", NULL, 0) == BM_ERR_PARAM);
        CHECK(okkernel_launch_async(h, "nothing", NULL, 0) == BM_ERR_PARAM);
        CHECK(okkernel_sync(h) == BM_ERR_PARAM);
        CHECK(okkernel_load_firmware(h, "x", "") == BM_ERR_PARAM);
        CHECK(bm_get_devid(h) == -1);
        bm_dev_free(h);
        if (i == 0) {
            h = (bm_handle_t)(void *)foreign;
        } else if (i == 1) {
            CHECK(bm_dev_request(&h, 0) == BM_SUCCESS);
            CHECK(okkernel_launch_sync(h, "nothing", NULL, 0) == BM_SUCCESS);
            CHECK(okkernel_launch_sync(h, NULL, NULL, 0) == BM_ERR_PARAM);
            CHECK(okkernel_launch_sync(h, "nothing", NULL, 4) == BM_ERR_PARAM);
            CHECK(okkernel_launch_sync(h, "nothing", foreign, 0xFFFFFFFF) == BM_ERR_PARAM);
            CHECK(okkernel_launch_async(h, "nothing", foreign, (11 << 20) + 1) == BM_ERR_PARAM);
            CHECK(okkernel_launch_sync(h, "", NULL, 0) == BM_ERR_PARAM);
            bm_dev_free(h);
        }
    }
    CHECK(bm_dev_request(&h, 64) == BM_ERR_PARAM && h == NULL);
    CHECK(bm_dev_request(NULL, 0) == BM_ERR_PARAM);
    printf("ok\n");
    return 0;
}
"""
    done = run(build(tmp_path, HEAD + text), BMRUNTIME_FIRMWARE_PATH=str(firmware))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
    assert "okkernel_sync: this is not a handle" in done.stderr
    most = f"a kernel has at most {MAX_ARGUMENTS} bytes of arguments"
    assert f"okkernel_launch_sync: size is {0xFFFFFFFF}; {most}" in done.stderr


def test_a_program_with_several_threads_and_devices(firmware: Path, tmp_path: Path) -> None:
    text = r"""
#include <pthread.h>
static bm_handle_t handles[2];
static bm_device_mem_t mem[2];
static void *work(void *which) {
    int i = *(int *)which;
    args_t args = {bm_mem_get_device_addr(mem[i]), 4, 1.0f};
    for (int k = 0; k < 25; k++)
        if (okkernel_launch_sync(handles[i], "plus", &args, sizeof args) != BM_SUCCESS) return which;
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    int which[2] = {0, 1};
    for (int i = 0; i < 2; i++) {
        CHECK(bm_dev_request(&handles[i], 0) == BM_SUCCESS);
        CHECK(bm_malloc_device_byte(handles[i], &mem[i], 16) == BM_SUCCESS);
        CHECK(bm_memset_device(handles[i], 0, mem[i]) == BM_SUCCESS);
    }
    for (int t = 0; t < 4; t++) CHECK(pthread_create(&threads[t], NULL, work, &which[t % 2]) == 0);
    void *failed;
    for (int t = 0; t < 4; t++) CHECK(pthread_join(threads[t], &failed) == 0 && failed == NULL);
    for (int i = 0; i < 2; i++) {
        float y[4];
        CHECK(bm_memcpy_d2s(handles[i], y, mem[i]) == BM_SUCCESS && y[3] == 50.0f);
        bm_dev_free(handles[i]);
    }
    printf("ok\n");
    return 0;
}
"""
    done = run(build(tmp_path, HEAD + text), BMRUNTIME_FIRMWARE_PATH=str(firmware))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


# ---- the same from Python ----


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


def test_sync_has_a_limit_and_kernels_that_never_end_one_too(firmware: Path) -> None:
    with Device(firmware, time_limit=2) as device:
        device.launch_async("endless")
        device.launch_async("nothing")
        with pytest.raises(DeviceError, match=r"2 launches have not ended after 0\.1 s"):
            device.sync(0.1)
        with pytest.raises(DeviceCrash, match="endless ran for") as caught:
            device.sync()
        assert caught.value.timed_out
    with pytest.raises(DeviceError, match="is closed"):
        device.launch_async("nothing")


def test_the_words_of_bmlib(firmware: Path) -> None:
    class Args(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("addr", ctypes.c_uint64), ("n", ctypes.c_int32), ("add", ctypes.c_float))

    with Device(builtin_artifacts().firmware) as handle:
        okkernel_load_firmware(handle, firmware.parent, "firmware_ddr.bin")
        addr = handle.malloc(16)
        handle.write(addr, np.zeros(4, np.float32))
        okkernel_launch_sync(handle, "plus", Args(addr, 4, 1.0))
        okkernel_launch_async(handle, "plus", args(addr, 4, 2.0))
        okkernel_launch_async(handle, "nothing")
        okkernel_sync(handle)
        assert handle.read_array(addr, (4,), "float32").tolist() == [3.0] * 4
        with pytest.raises(FirmwareError, match="no kernel minus"):
            okkernel_launch_sync(handle, "minus")


def test_another_firmware_on_the_same_memories(firmware: Path, tmp_path: Path) -> None:
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
        (tmp_path / "firmware.so").write_bytes(b"no image")
        with pytest.raises(DeviceError):
            device.load_firmware(tmp_path)
        device.launch("plus", args(addr, 16, 1.0))  # the one before still serves
        assert np.array_equal(device.read_array(addr, (16,), "float32"), np.full(16, 3, np.float32))
