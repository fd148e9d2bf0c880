"""What the author of a free kernel is told about a mistake: what, where and why."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import BuildError, DeviceCrash, DeviceError, TpulayerError
from tests.support.firmware_harness import CHOICES
from user_layers.toolchain.kernel import kernel_firmware
from user_layers.toolchain.report import Reporter

SOURCE = r"""
#include "okk.h"
#include <stdlib.h>
typedef struct { unsigned long long addr; int n; unsigned long long later; } __attribute__((packed)) args_t;
static const dim4 small = {1, 64, 4, 8};
#define KERNEL(NAME) \
    void NAME(const void *args); OKKERNEL_FUNC_REGISTER(NAME) \
    void NAME(const void *args)

KERNEL(fine) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->addr, &small, NULL, NULL);
    okk_poll();
}
KERNEL(out_of_local) { /* no room for two operands of 448 KiB */
    okk_initialize();
    okk_bdc_add_C(0x70000, 0, 1.f, &(dim4){1, 64, 448, 256}, NULL, NULL); /* out_of_local */
    okk_poll();
}
KERNEL(misaligned) {
    okk_initialize();
    okk_bdc_rsqrt(4, 256, &small); /* misaligned */
}
KERNEL(too_wide) {
    okk_initialize();
    okk_bdc_add_C(0, 0, 1.f, &(dim4){1, 1, 1, 70000}, NULL, NULL); /* too_wide */
}
KERNEL(lanes) {
    okk_initialize();
    okk_bdc_depthwise2d(0, 0x80000, 0x1000, 0x2000, &small, 1, 1, false, NULL, NULL, NULL); /* lanes */
}
KERNEL(never_comes) {
    unsigned int node[3] = {0, 7, 0};
    okk_initialize();
    okk_set_id_node(node);
    okk_bdc_add_C(0, 0, 1.f, &small, NULL, NULL); /* never_comes */
    okk_poll();
}
KERNEL(wrong_id) {
    unsigned int node[3] = {5, 0, 0};
    okk_initialize();
    okk_set_id_node(node);
    okk_bdc_add_C(0, 0, 1.f, &small, NULL, NULL); /* wrong_id */
    okk_poll();
}
KERNEL(null_write) {
    int *p = NULL;
    *p = args != NULL; /* null_write */
}
KERNEL(null_write_elsewhere) {
    int *volatile p = args == NULL ? (int *)&small : NULL;
    *p = 1; /* null_write_elsewhere */
}
KERNEL(endless) { for (volatile int i = 0;; i = i + 1) {} /* endless */ }
KERNEL(endless_commands) {
    okk_initialize();
    for (;;) okk_bdc_add_C(0, 0, 1.f, &small, NULL, NULL); /* endless_commands */
}
KERNEL(asserts) { OKKERNEL_ASSERT(args == NULL); /* asserts */ }
KERNEL(plain_assert) { assert(args == NULL); /* plain_assert */ }
KERNEL(exits) { exit(3); }
KERNEL(no_poll) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->addr, &small, NULL, NULL);
    okk_poll();
    okk_bdc_add_C(0, 0, 1.f, &small, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->addr, 0, &small, NULL, NULL);
}
KERNEL(later_member) {
    const args_t *p = args;
    volatile unsigned long long later = p->later; /* later_member */
    OKKERNEL_LOG("%d %llu\n", p->n, later);
}
KERNEL(odd_size) {
    const struct { unsigned long long addr; int n; } *p = args; /* not packed: 16 bytes for the host's 12 */
    unsigned char copy[sizeof *p];
    for (unsigned i = 0; i < sizeof copy; i++) copy[i] = ((const unsigned char *)args)[i];
    OKKERNEL_LOG("%d %d\n", p->n, copy[15]);
}
KERNEL(says) {
    printf("by printf %d\n", 1);
    OKKERNEL_LOG("by the log %d\n", 2);
    OKKERNEL_ASSERT(1 + 1 == 2);
    OKKERNEL_LOG("no end of line");
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wrong") / "wrong.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module", params=CHOICES)
def image(source: Path, request: pytest.FixtureRequest) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPULAYER_CC", request.param)
        return kernel_firmware([source])


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def device(image: Path, log: list[str]) -> Iterator[Device]:
    with Device(image, on_log=log.append, time_limit=2) as device:
        yield device


def place(source: Path, kernel: str) -> str:
    line = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if f"/* {kernel} */" in text)
    return f"{source}:{line}"


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("out_of_local", r"res0 at lane 0 \+0x70000: .*each lane's memory ends at 0x80000"),
        ("misaligned", r"okk_bdc_rsqrt: destination address 0x4 is not a multiple of 128"),
        ("too_wide", r"okk_bdc_add_C: 70000 in bd.res0_w is over its limit 65535"),
        ("lanes", r"okk_bdc_depthwise2d: input starts on NPU 1 and the output on NPU 0; they must start on"),
        ("never_comes", r"BD command 1: waits for GDMA command 7, which never comes: GDMA gets to 0 before"),
        ("wrong_id", r"BD command 6: its id should be 1, ids of an engine count up by one"),
        ("null_write", r"kernel null_write crashed: SIGSEGV"),
        ("null_write_elsewhere", r"kernel null_write_elsewhere crashed: SIGSEGV"),
        ("endless", r"kernel endless ran for 2 s and was stopped"),
        (
            "endless_commands",
            r"endless_commands( ran for 2 s and was stopped (in a BD command issued |after its call )?at"
            r"|: .*: BD command \d+: with it this takes more than 2 s on the chip)",
        ),
        ("asserts", r"""asserts: assertion "args == NULL" failed"""),
        ("plain_assert", r"kernel plain_assert crashed: SIGABRT \(abort or failed assertion\)"),
    ],
)
def test_mistakes_are_named_with_their_line(device: Device, source: Path, kernel: str, said: str) -> None:
    with pytest.raises(DeviceError) as caught:
        device.launch(kernel, bytes(20))
    message = str(caught.value)
    assert re.search(said, message, re.S), message
    assert re.search(rf"{re.escape(place(source, kernel))}\b", message), message
    addr = device.malloc(64 * 32 * 4)  # and the device goes on
    device.launch("fine", struct.pack("<QiQ", addr, 0, 0))


def test_ids_that_do_not_follow_say_who_sets_them(device: Device) -> None:
    with pytest.raises(DeviceError) as caught:
        device.launch("wrong_id")
    assert "okk_set_id_node" in caught.value.hint


def test_a_kernel_that_ends_the_process(device: Device) -> None:
    with pytest.raises(DeviceCrash, match="kernel exits ended its process with exit code 3") as caught:
        device.launch("exits")
    assert caught.value.hint.startswith("a kernel returns when it is done")


def test_missing_poll_is_a_warning(device: Device, log: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """The emulator executes what is left; the chip's host would read too early."""
    x = np.arange(64 * 32, dtype=np.float32)
    addr = device.malloc(x.nbytes)
    device.write(addr, x)
    args = struct.pack("<QiQ", addr, 0, 0)
    device.launch("fine", args)
    assert capfd.readouterr().err == ""
    device.launch("no_poll", args)
    assert log == []
    assert capfd.readouterr().err == (
        "warning: kernel no_poll returned without okk_poll after its last 2 commands; on the chip the host "
        "may read their results too early\n"
    )
    assert np.array_equal(device.read_array(addr, x.shape, "float32"), x + 1)


def test_a_host_struct_that_is_too_short(device: Device, source: Path, log: list[str]) -> None:
    """Reading behind the arguments is not a silent zero; the padding that a struct may have is there."""
    with pytest.raises(DeviceCrash) as caught:
        device.launch("later_member", struct.pack("<Qi", 1, 2))
    message = caught.value.message
    told = "kernel later_member, which was sent 12 bytes of arguments and uses more, crashed: SIGSEGV"
    assert message.startswith(told), message
    assert place(source, "later_member") in message
    device.launch("odd_size", struct.pack("<Qi", 1, 2))
    device.launch("later_member", struct.pack("<QiQ", 1, 3, 4))
    assert log == ["2 0\n", "3 4\n"]


def test_arguments_of_any_size(device: Device, log: list[str]) -> None:
    for size in (20, 0xFFFF, 0x10000, 0x10001, 1 << 20):
        device.launch("later_member", struct.pack("<QiQ", 1, size, 5) + bytes(size - 20))
    assert log == [f"{size} 5\n" for size in (20, 0xFFFF, 0x10000, 0x10001, 1 << 20)]


def test_log_and_printf_without_an_include(
    device: Device, log: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    device.launch("says")
    assert log == ["by the log 2\n", "no end of line"]
    assert "by printf 1\n" in capfd.readouterr().err


def test_compiler_warnings_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "unused.c"
    path.write_text('#include "okk.h"\nvoid k(const void *args) { int spare; }\nOKKERNEL_FUNC_REGISTER(k)\n')
    said = io.StringIO()
    kernel_firmware([path], report=Reporter(said))
    assert "unused.c:2" in said.getvalue()
    assert "spare" in said.getvalue()


@pytest.mark.slow
def test_zig_keeps_assertions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_CC", "zig")
    path = tmp_path / "check.c"
    path.write_text(
        '#include "okk.h"\n#ifdef NDEBUG\n#error assert is off\n#endif\n'
        "void k(const void *args) { assert(args == NULL); }\nOKKERNEL_FUNC_REGISTER(k)\n"
    )
    with (
        Device(kernel_firmware([path])) as device,
        pytest.raises(DeviceCrash, match=r"SIGABRT .*check\.c:5\b"),
    ):
        device.launch("k")


def test_a_function_that_does_not_exist_is_a_build_error(tmp_path: Path) -> None:
    path = tmp_path / "typo.c"
    path.write_text(
        '#include "okk.h"\nvoid k(const void *args) { okk_bdc_frobnicate(); }\nOKKERNEL_FUNC_REGISTER(k)\n'
    )
    with pytest.raises(BuildError, match=r"typo\.c:2:\d+.*okk_bdc_frobnicate") as caught:
        kernel_firmware([path])
    assert isinstance(caught.value, TpulayerError)
