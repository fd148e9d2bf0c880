"""Kernels that break their process, on the native firmware: each is an error in time that says where and why,
the device works again, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash
from tests.paths import ROOT
from tests.support.firmware_harness import CHOICES
from tests.support.orphans import ended_with_its_parent
from user_layers.toolchain.kernel import kernel_firmware

TIME_LIMIT = 1.0
LATEST = 60.0  # s until the error: the limit leaves out what a busy machine takes
SOURCE = r"""
#include "okk.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define KERNEL(NAME) \
    void NAME(const void *args); OKKERNEL_FUNC_REGISTER(NAME) \
    void NAME(const void *args)
static volatile int sink;

KERNEL(fine) { *(int *)okk_global_mem_addr(*(const unsigned long long *)args) = 7; }
KERNEL(past_the_window) {
    volatile unsigned char *last = okk_global_mem_addr(0x17FFFFFFFull);
    for (unsigned i = 0;; i += 4096) last[i] = 1; /* past_the_window */
}
KERNEL(past_local_memory) {
    volatile unsigned char *lane = okk_local_mem_addr(63, 0);
    for (unsigned i = 0;; i += 4096) lane[i] = 1; /* past_local_memory */
}
KERNEL(before_local_memory) {
    volatile unsigned char *lane = okk_local_mem_addr(0, 0);
    for (long i = 0;; i -= 4096) lane[i] = 1; /* before_local_memory */
}
KERNEL(past_l2) {
    volatile unsigned char *l2 = okk_l2_sram_addr(okk_l2_sram_start_addr());
    for (unsigned i = 0;; i += 4096) l2[i] = 1; /* past_l2 */
}
KERNEL(past_dtcm) {
    volatile unsigned char *dtcm = okk_dtcm_addr(okk_dtcm_start_addr());
    for (unsigned i = 0;; i += 4096) dtcm[i] = 1; /* past_dtcm */
}
KERNEL(divides) { sink = 0; sink = 7 / sink; /* divides */ }
KERNEL(large_frame) {
    volatile char room[256 << 20];
    room[sink] = 1; /* large_frame */
    sink = room[sink + 1];
}
static int deeper(int n) { volatile char a[999]; a[0] = 1; return n ? deeper(n) + a[0] : 0; } /* recursion */
KERNEL(recursion) { sink = deeper(1); }
KERNEL(plain_assert) { assert(args == NULL); /* plain_assert */ }
KERNEL(aborts) {
    fputs("*** overflow detected *** is only a text\n", stderr);
    fputs("and this the last\n", stderr);
    abort(); /* aborts */
}
KERNEL(says_it_and_crashes) {
    fputs("free(): a text of the kernel\n", stderr);
    *(volatile int *)0 = 1; /* says_it_and_crashes */
}
KERNEL(heap) {
    char *volatile block = malloc(3000);
    for (int i = 1; i <= 16; i++) *(volatile char *)(block + 3000 - 1 + i) = -1;
    free(block); /* heap */
}
KERNEL(raises) { raise(SIGTERM); /* raises */ }
KERNEL(stops) { raise(SIGSTOP); /* stops */ }
KERNEL(deaf) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (;;) sink++; /* deaf */
}
KERNEL(closes) {
    for (int i = 3; i < 256; i++) close(i);
    for (;;) sink++;
}
KERNEL(sleeps) { sleep(1000); /* sleeps */ }
KERNEL(talks) { for (;;) puts("and another line of text"); /* talks */ }
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("survival") / "survival.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module", params=CHOICES)
def image(source: Path, request: pytest.FixtureRequest) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPULAYER_CC", request.param)
        return kernel_firmware([source], kind="native")


@pytest.fixture
def device(image: Path) -> Iterator[Device]:
    with Device(image, time_limit=TIME_LIMIT) as device:
        yield device


def place(source: Path, kernel: str) -> str:
    line = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if f"/* {kernel} */" in text)
    return f"{source}:{line}"


def check_usable(device: Device) -> None:
    addr = device.malloc(4)
    device.launch("fine", struct.pack("<Q", addr))
    assert device.read(addr, 4) == b"\7\0\0\0"


_SEGV = r"SIGSEGV \(invalid memory access\)"
_ABORT = r"SIGABRT \(abort or failed assertion\)"


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("past_the_window", f"crashed: {_SEGV} at PLACE in past_the_window;"),
        ("past_local_memory", f"crashed: {_SEGV} at PLACE in past_local_memory;"),
        ("before_local_memory", f"crashed: {_SEGV} at PLACE in before_local_memory;"),
        ("past_l2", f"crashed: {_SEGV} at PLACE in past_l2;"),
        ("past_dtcm", f"crashed: {_SEGV} at PLACE in past_dtcm;"),
        ("divides", r"crashed: SIGFPE \(integer division by zero\) at PLACE in divides;"),
        ("large_frame", f"crashed: {_SEGV} at PLACE in large_frame;"),
        ("recursion", f"crashed: {_SEGV} at PLACE in deeper;"),
        (
            "plain_assert",
            rf"crashed: {_ABORT} at PLACE in plain_assert: .*Assertion `args == NULL' failed\.;",
        ),
        ("aborts", f"crashed: {_ABORT} at PLACE in aborts;"),
        ("says_it_and_crashes", f"crashed: {_SEGV} at PLACE in says_it_and_crashes;"),
        (
            "heap",
            rf"crashed: {_ABORT} at PLACE in heap: memory was written beyond the end of what malloc gave;",
        ),
        ("raises", r"crashed: SIGTERM \(ended from outside\);"),
        ("stops", r"ran for 1 s and was stopped;"),
        ("deaf", r"ran for 1 s and was stopped;"),
        ("closes", r"(ran for 1 s and was stopped|closed files of its process|crashed)"),
        ("sleeps", r"ran for 1 s and was stopped at PLACE in sleeps;"),
        ("talks", r"(ran for 1 s|printed more than 16 MiB) and was stopped at PLACE in talks;"),
    ],
)
def test_broken_kernels(
    device: Device, source: Path, kernel: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    device.query()
    args = struct.pack("<Q", 0)
    begin = time.monotonic()
    with pytest.raises(DeviceCrash) as caught:
        device.launch(kernel, args)
    assert time.monotonic() - begin < LATEST
    marked = f"/* {kernel} */" in SOURCE
    pattern = said.replace("PLACE", re.escape(place(source, kernel)) if marked else "")
    which = "(, which (needs more than 95 KiB of stack|writes to 0x1050fffff, .*),)?"
    assert re.match(f"kernel {kernel}{which} {pattern}", caught.value.message), caught.value.message
    assert caught.value.message.endswith("device 0 was reset")
    check_usable(device)
    capfd.readouterr()


def _children() -> set[int]:
    """This process's children, zombies too."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for one in lists for pid in one.read_text().split()}


def test_crashes_leave_nothing_behind(image: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gc.collect()
    children, files, threads = _children(), len(os.listdir("/proc/self/fd")), threading.active_count()
    maps = Path("/proc/self/maps").read_text().count("memfd:")
    with Device(image, time_limit=TIME_LIMIT) as device:
        usual = len(os.listdir("/proc/self/fd"))
        for kernel in ("divides", "aborts", "heap", "deaf", "closes", "recursion"):
            with pytest.raises(DeviceCrash):
                device.launch(kernel, struct.pack("<Q", 0))
            assert _children() == children  # reaped
            check_usable(device)
            assert len(os.listdir("/proc/self/fd")) == usual
            assert len(_children()) == len(children) + 1
    del device
    gc.collect()
    assert _children() == children
    assert len(os.listdir("/proc/self/fd")) == files
    assert threading.active_count() == threads
    assert Path("/proc/self/maps").read_text().count("memfd:") == maps
    capfd.readouterr()


@pytest.mark.parametrize("kernel", ["deaf", "closes", "sleeps"])
def test_sigkill_of_the_parent_ends_the_kernel(image: Path, kernel: str) -> None:
    """Also one that ignores signals; what it shared with its parent goes with it."""
    script = (
        "import sys\nfrom firmware_sim.device.client import Device\n"
        f"device = Device({str(image)!r}, time_limit=100)\n"
        "print(device._started().pid, flush=True)\n"
        f"device.launch({kernel!r}, bytes(8))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.kill()
        parent.wait()
    ended_with_its_parent(pid)
