"""Firmware with checks: what is found, with which compiler; plain and checked builds side by side."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firmware_sim.device.client import Device, FirmwareError
from firmware_sim.errors import BuildError, DeviceCrash, UsageError
from firmware_sim.firmware import sanitized
from firmware_sim.wire import TensorRecord
from tests.paths import ROOT
from tests.support.firmware_harness import CHOICES
from tests.support.workspaces import environment, make_workspace, tpulayer
from user_layers.kernels.run_kernel import run_kernel
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.kernel import kernel_firmware
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.sanitize import sanitizers
from user_layers.workspace import Workspace

pytestmark = pytest.mark.thorough  # builds firmware with sanitizers first

SOURCE = r"""
#include "okk.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned long long addr; int a, b; float f; } __attribute__((packed)) args_t;
#define KERNEL(NAME) \
    void NAME(const void *args); OKKERNEL_FUNC_REGISTER(NAME) \
    void NAME(const void *args)
#define P const args_t *p = args
static volatile int table[8];
static volatile int result;
static int *volatile somewhere;

KERNEL(fine) { P; *(int *)okk_global_mem_addr(p->addr) = p->a * p->b; }
KERNEL(adds) { P; result = p->a + p->b; /* adds */ }
KERNEL(multiplies) { P; result = p->a * p->b; /* multiplies */ }
KERNEL(long_adds) { P; volatile long long x = INT64_MAX; result = x + p->a > 0; /* long_adds */ }
KERNEL(negates) { P; result = -p->a; /* negates */ }
KERNEL(shifts) { P; result = p->a << p->b; /* shifts */ }
KERNEL(divides) { P; result = p->a / p->b; /* divides */ }
KERNEL(converts) { P; result = (int)p->f; /* converts */ }
KERNEL(indexes) { P; int x[4] = {1, 2, 3, 4}; result = x[p->a]; /* indexes */ }
KERNEL(misaligned) { P; result = *(int *)((char *)okk_global_mem_addr(p->addr) + p->a); /* misaligned */ }
KERNEL(null) { int *volatile nowhere = NULL; result = *nowhere; /* null */ }
KERNEL(flag) { P; char x = (char)p->a; result = *(_Bool *)&x; /* flag */ }
KERNEL(unreachable) { P; if (p->a) __builtin_unreachable(); /* unreachable */ }
KERNEL(array) { P; int x[p->a]; x[0] = p->b; result = x[0]; /* array */ }
KERNEL(many_ones) {
    P; okk_initialize();
    for (int i = 0; i < p->a; i++) okk_bdc_add_C(0, 0, 1.f, &(dim4){1, p->a, 1, i + 1}, NULL, NULL);
    okk_poll();
}
KERNEL(heap) {
    P; somewhere = malloc(sizeof(int) * (size_t)p->b);
    somewhere[p->a] = 1; /* heap */
    free(somewhere);
}
static __attribute__((noinline)) void fill(volatile char *bytes, int n) {
    for (int i = 0; i < n; i++) bytes[i] = 1; /* stack */
}
KERNEL(stack) { P; char room[8]; fill(room, p->a); result = room[0]; }
KERNEL(global) { P; volatile int *t = table; somewhere = (int *)t; result = somewhere[p->a]; /* global */ }
KERNEL(freed) { somewhere = malloc(16); free(somewhere); result = *somewhere; /* freed */ }
KERNEL(twice) { somewhere = malloc(16); free(somewhere); free(somewhere); /* twice */ }
KERNEL(string) { P; char room[8]; somewhere = (int *)room; memset(somewhere, 1, (size_t)p->a); /* string */ }
KERNEL(short_shape) {
    P; int *volatile x = malloc(12);
    memset(x, 1, 12);
    okk_gdma_32bit_cpy_S2L(0, p->addr, (dim4 *)x, NULL, NULL); /* short_shape */
}
static int deeper(int n) { volatile char a[999]; a[0] = 1; return n ? deeper(n) + a[0] : 0; } /* recursion */
KERNEL(recursion) { result = deeper(1); }
KERNEL(wild) { *(volatile int *)0x123456789000ull = 1; /* wild */ }
KERNEL(endless) { for (;;) result = 1; /* endless */ }
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sanitize") / "checked.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module", params=CHOICES)
def image(source: Path, request: pytest.FixtureRequest) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPULAYER_CC", request.param)
        return kernel_firmware([source], sanitize=True)


@pytest.fixture
def device(image: Path) -> Iterator[Device]:
    with Device(image, time_limit=1) as device:
        yield device


def place(source: Path, kernel: str) -> str:
    line = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if f"/* {kernel} */" in text)
    return f"{re.escape(str(source))}:{line}"


def check_usable(device: Device) -> None:
    addr = device.malloc(4)
    device.launch("fine", struct.pack("<Qiif", addr, 6, 7, 0))
    assert device.read(addr, 4) == b"*\0\0\0"


@pytest.mark.parametrize(
    ("kernel", "values", "said"),
    [
        (
            "adds",
            (2**31 - 1, 1),
            r"signed integer overflow: 2147483647 \+ 1 cannot be represented in type 'int'",
        ),
        ("adds", (-(2**31), -1), r"signed integer overflow: -2147483648 \+ -1 cannot be represented"),
        ("multiplies", (65536, -65536), r"signed integer overflow: 65536 \* -65536 cannot be represented"),
        (
            "long_adds",
            (1,),
            r"signed integer overflow: (9223372036854775807 \+ 1|1 \+ 92.*7) .*'long",
        ),
        ("negates", (-(2**31),), r"negation of -2147483648 cannot be represented in type 'int'"),
        ("shifts", (1, 40), r"shift exponent 40 is too large for the 32 bits of type 'int'"),
        ("shifts", (1, -3), r"shift exponent -3 is negative"),
        ("shifts", (-5, 1), r"left shift of negative value -5"),
        ("shifts", (2**30, 2), r"left shift of 1073741824 by 2 places cannot be represented in type 'int'"),
        ("divides", (3, 0), r"division of 3 by zero"),
        ("divides", (-(2**31), -1), r"division of -2147483648 by -1 cannot be represented in type 'int'"),
        ("converts", (0, 0, 1e20), r"1e\+20 is outside the range of type 'int'"),
        ("converts", (0, 0, float("nan")), r"-?nan is outside the range of type 'int'"),
        ("indexes", (4,), r"index 4 is out of bounds for type 'int ?\[4\]'"),
        ("indexes", (-1,), r"index -1 is out of bounds for type 'int ?\[4\]'"),
        (
            "misaligned",
            (1,),
            r"load of misaligned address 0x\w+1 for type 'int', which needs a multiple of 4",
        ),
        ("null", (), r"load of null pointer of type 'int'"),
        ("flag", (3,), r"load of value 3, which is not valid for type '(_B|b)ool'"),
        ("unreachable", (1,), r"__builtin_unreachable\(\) is reached"),
        ("array", (-2,), r"a variable-length array of -2 elements"),
    ],
)
def test_undefined_behaviour_is_named_with_its_values(
    device: Device, source: Path, kernel: str, values: tuple[float, ...], said: str
) -> None:
    with pytest.raises(FirmwareError) as caught:
        device.launch(kernel, _args(device, *values))
    assert re.fullmatch(rf"kernel {kernel}: {place(source, kernel)}:\d+: {said}.*", caught.value.message)
    process = device._started().pid
    check_usable(device)
    assert device._started().pid == process  # it was not even restarted


def _args(device: Device, a: float = 0, b: float = 0, f: float = 0.0) -> bytes:
    return struct.pack("<Qiif", device.malloc(64), int(a), int(b), f)


def test_what_is_defined_is_not_a_finding(device: Device) -> None:
    for kernel, values in [
        ("adds", (2**31 - 1, -1)),
        ("shifts", (1, 30)),
        ("divides", (7, -2)),
        ("converts", (0, 0, -2e9)),
        ("indexes", (3,)),
        ("misaligned", (8,)),
        ("flag", (1,)),
        ("unreachable", (0,)),
        ("array", (2, 5)),
        ("heap", (3, 4)),
        ("stack", (8,)),
        ("global", (7,)),
        ("string", (8,)),
        ("many_ones", (64,)),
    ]:
        device.launch(kernel, _args(device, *values))


def _needs_address(image: Path) -> None:
    found = sanitized.sanitized(image)
    assert found is not None
    if "address" not in found.checks:
        reason = sanitizers(choose().c).lacking
        pytest.skip(f"{image} has no AddressSanitizer: {reason or 'built by zig, which has none'}")


@pytest.mark.parametrize(
    ("kernel", "values", "said"),
    [
        (
            "heap",
            (4, 4),
            "heap-buffer-overflow, WRITE of size 4, 0 bytes (to the right of|after) 16-byte region",
        ),
        (
            "heap",
            (-1, 4),
            "heap-buffer-overflow, WRITE of size 4, 4 bytes .* 16-byte region",
        ),
        ("stack", (9,), "stack-buffer-overflow, WRITE of size 1, byte 8 of variable room, which has 8"),
        (
            "global",
            (8,),
            "global-buffer-overflow, READ of size 4, 0 bytes .* table, which has 32 bytes",
        ),
        ("freed", (), "heap-use-after-free, READ of size 4, 0 bytes inside of 16-byte region"),
        ("twice", (), "attempting double-free.*, 0 bytes inside of 16-byte region"),
        ("string", (9,), "stack-buffer-overflow, WRITE of size 9, byte 8 of variable room, which has 8"),
        (
            "short_shape",
            (),
            "heap-buffer-overflow, READ of size 4, 0 bytes .* 12-byte region",
        ),
    ],
)
def test_wrong_addresses(
    device: Device,
    image: Path,
    source: Path,
    kernel: str,
    values: tuple[int, ...],
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    _needs_address(image)
    with pytest.raises(DeviceCrash) as caught:
        device.launch(kernel, _args(device, *values))
    what = rf"crashed: SIGABRT .* at {place(source, kernel)} in \w+: AddressSanitizer: {said}"
    message = caught.value.message
    assert re.fullmatch(rf"kernel {kernel} {what}; device 0 was reset", message), message
    assert "full report" in caught.value.hint
    assert "ERROR: AddressSanitizer" in capfd.readouterr().err
    check_usable(device)


def test_the_c_library_s_own_checks(device: Device, image: Path) -> None:
    """Where AddressSanitizer is not there."""
    found = sanitized.sanitized(image)
    assert found is not None
    if "address" in found.checks:
        pytest.skip(f"{image} has AddressSanitizer, which finds it first")
    with pytest.raises(FirmwareError, match=r"freed before \[called at .*checked\.c:\d+ in twice"):
        device.launch("twice", _args(device))
    check_usable(device)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("recursion", r"crashed: SIGSEGV \(invalid memory access\) at PLACE in deeper"),
        ("wild", r"crashed: SIGSEGV \(invalid memory access\) at PLACE in wild"),
        ("endless", r"ran for 1 s and was stopped at PLACE in endless"),
    ],
)
def test_signals_and_the_time_limit_are_as_ever(device: Device, source: Path, kernel: str, said: str) -> None:
    with pytest.raises(DeviceCrash) as caught:
        device.launch(kernel, _args(device))
    pattern = (
        rf"kernel {kernel}(, which needs more than 95 KiB of stack,)? {said}; device 0 was reset".replace(
            "PLACE", place(source, kernel)
        )
    )
    assert re.fullmatch(pattern, caught.value.message), caught.value.message
    check_usable(device)


def test_too_little_address_space(image: Path) -> None:
    """AddressSanitizer reserves terabytes, of which it uses little."""
    _needs_address(image)
    script = (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))\n"
        "from firmware_sim.device.client import Device\n"
        f"Device({str(image)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    said = r"DeviceCrash: .*AddressSanitizer failed to allocate 0x\w+ bytes of address space; a limit"
    assert re.search(said, done.stderr), done.stderr


def test_which_checks_an_image_has(image: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sanitized.sanitized(image)
    assert found is not None
    assert found.checks[0] == "undefined"
    assert str(found).startswith("UndefinedBehaviorSanitizer")
    assert ("address" in found.checks) == bool(found.runtime) == bool(sanitized.environment(image))
    if found.runtime:
        monkeypatch.setenv("LD_PRELOAD", "mine.so")
        monkeypatch.setenv("ASAN_OPTIONS", "detect_stack_use_after_return=1")
        env = sanitized.environment(image)
        assert env["LD_PRELOAD"] == f"{found.runtime}:mine.so"
        assert env["ASAN_OPTIONS"].endswith(":detect_stack_use_after_return=1")
    plain = kernel_firmware([source], kind="native")
    assert sanitized.sanitized(plain) is None
    assert sanitized.environment(plain) == {}
    assert sanitized.sanitized(source.with_name("none.so")) is None


@pytest.mark.slow
def test_reason_where_address_sanitizer_is_not_there(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gcc without libasan still gives the other checks; zig never has it."""
    monkeypatch.setenv("TPULAYER_CC", "zig")
    kernel_firmware([source], sanitize=True)
    assert "only UndefinedBehaviorSanitizer: zig comes without AddressSanitizer" in capsys.readouterr().err
    real = shutil.which("gcc") or shutil.which("clang")
    if real is None:
        pytest.skip("no gcc or clang on this machine")
    script, lacking = tmp_path / Path(real).name, tmp_path / "lacking"
    script.write_text(
        f'#!/bin/sh\nif [ -e {lacking} ]; then case " $* " in *" -fsanitize=address "*)\n'
        f'echo "ld: no libasan" >&2; exit 1;; esac; fi\nexec {real} "$@"\n'
    )
    lacking.touch()
    script.chmod(0o755)
    monkeypatch.setenv("TPULAYER_CC", str(script))
    monkeypatch.setenv("TPULAYER_CXX", shutil.which("g++") or "zig")
    checks = sanitizers(choose().c)
    assert checks.runtime == ""
    assert checks.lacking.endswith("has no AddressSanitizer that works: ld: no libasan")
    with (
        Device(kernel_firmware([source], sanitize=True)) as device,
        pytest.raises(FirmwareError, match="signed integer overflow"),
    ):
        device.launch("adds", struct.pack("<Qiif", 0, 2**31 - 1, 1, 0))
    lacking.unlink()  # now it is installed: the same compiler is asked again
    monkeypatch.setenv("TPULAYER_CC", real)
    usual = sanitizers(choose().c)
    monkeypatch.setenv("TPULAYER_CC", str(script))
    assert sanitizers(choose().c).runtime == usual.runtime


def test_streams_are_those_of_the_plain_build(image: Path, source: Path) -> None:
    args = struct.pack("<Qiif", 0, 64, 0, 0)
    with Device(image) as checked, Device(kernel_firmware([source], kind="native")) as plain:
        assert checked.record_launch("many_ones", args) == plain.record_launch("many_ones", args)


def test_run_kernel(source: Path) -> None:
    with pytest.raises(UsageError, match="the firmware for the controller has no checks"):
        run_kernel(source, "adds", struct="args_t", firmware="arm", sanitize=True)
    values = {"a": 2**31 - 1, "b": 1, "f": 0.0, "addr": 0}
    run_kernel(source, "adds", arguments=values)
    with pytest.raises(
        FirmwareError, match=rf"kernel adds: {place(source, 'adds')}:\d+: signed integer overflow"
    ):
        run_kernel(source, "adds", arguments=values, sanitize=True)


def test_compile_errors_come_from_the_plain_build(tmp_path: Path) -> None:
    path = tmp_path / "typo.c"
    path.write_text('#include "okk.h"\nvoid k(const void *args) { nothing; }\nOKKERNEL_FUNC_REGISTER(k)\n')
    with pytest.raises(BuildError) as caught:
        kernel_firmware([path], report=Reporter(quiet=True), sanitize=True)
    assert caught.value.message.count("error:") == 1


# ---- workspaces ----


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "a b")


@pytest.mark.parametrize("compiler", CHOICES)
def test_plain_and_checked_builds_side_by_side(ws: Workspace, compiler: str) -> None:
    env = environment(TPULAYER_CC=compiler)
    for folder in ("device", "host", "include", "config"):
        for path in (ws.root / folder, *(ws.root / folder).iterdir()):
            os.utime(path, (1, 1))

    def build(*words: str) -> dict[str, object]:
        done = tpulayer("build_layers", *words, "--json", cwd=ws.root, env=env)
        found: dict[str, object] = json.loads(done.stdout)
        return found

    first = build()
    assert first["sanitized"] == ""
    images = {
        name: (ws.install_dir / "firmware" / name).read_bytes()
        for name in ("firmware_tcm.bin", "firmware_ddr.bin")
    }
    checked = build("--sanitize")
    assert str(checked["sanitized"]).startswith("UndefinedBehaviorSanitizer")
    commands = checked["commands"]
    assert isinstance(commands, list)
    assert all("with checks" in text or "linking firmware.so" in text for text in commands), commands
    assert checked["installed"] == ["install/firmware/firmware.so"]
    for name, data in images.items():
        assert (ws.install_dir / "firmware" / name).read_bytes() == data
    assert build("--sanitize")["commands"] == []
    out = tpulayer("build_layers", "--sanitize", cwd=ws.root, env=env).stdout
    assert "firmware.so is sanitized: UndefinedBehaviorSanitizer" in out.splitlines()[-1]
    assert "sanitized: UndefinedBehaviorSanitizer" in tpulayer("doctor", cwd=ws.root, env=env).stdout

    plain = build()  # back and forth, nothing is compiled
    assert (plain["commands"], plain["installed"]) == ([], ["install/firmware/firmware.so"])
    assert plain["sanitized"] == ""
    assert "sanitized" not in tpulayer("doctor", cwd=ws.root, env=env).stdout
    again = build("--sanitize")
    assert (again["commands"], again["installed"]) == ([], ["install/firmware/firmware.so"])

    kernel = ws.device_dir / "bm_device_double.c"
    kernel.write_text(kernel.read_text() + "/* changed */\n")
    os.utime(kernel, (2, 2))
    commands = build("--sanitize")["commands"]
    assert isinstance(commands, list)
    assert "compiling device/bm_device_double.c with checks" in commands
    assert not any("entry" in text for text in commands)


def test_a_layer_s_finding_names_the_layer(ws: Workspace) -> None:
    kernel = ws.device_dir / "bm_device_double.c"
    text, old = kernel.read_text(), "    (void)param;\n"
    assert old in text
    line = text[: text.index(old)].count("\n") + 1
    kernel.write_text(
        text.replace(old, "    volatile int most = 2147483647; most += in_num; (void)param;\n", 1)
    )
    tpulayer("rebuild_layers", "--sanitize", cwd=ws.root)
    with Device(ws.firmware) as device:
        [layer] = device.query().layers
        with pytest.raises(FirmwareError) as caught:
            device.infer_shape(layer.op_type, bytes(layer.param_bytes), [TensorRecord((2, 3))], 1)
    said = rf"TPU_DOUBLE: device/bm_device_double\.c:{line}:\d+: signed integer overflow: 2147483647 \+ 1 "
    assert re.match(said, caught.value.message), caught.value.message


def test_the_bmkernel_project(tmp_path: Path) -> None:
    project = tmp_path / "kernels"
    shutil.copytree(ROOT / "bmkernel_demo" / "device", project / "device")
    shutil.copytree(ROOT / "bmkernel_demo" / "include", project / "include")
    ws = make_workspace(tmp_path / "w", layers=(), config=f"BMKERNEL_PATH = {project}\n")
    image = project / "install" / "firmware" / "firmware.so"
    for words, checked in ((("--sanitize",), True), ((), False), (("--sanitize",), True)):
        out = tpulayer("build_bmkernel", *words, cwd=ws.root).stdout
        assert (sanitized.sanitized(image) is not None) == checked
        assert ("firmware.so is sanitized" in out.splitlines()[-1]) == checked
    with Device(image) as device:
        assert device.query().kernels


def test_the_command_runs_the_native_firmware(source: Path) -> None:
    """Also where the other one is usual."""
    words = ("--kernel", str(source), "--name", "adds", "--struct", "args_t", "--sanitize")
    values = ("--arg", "a=2147483647", "--arg", "b=1", "--arg", "f=0", "--arg", "addr=0")
    env = environment(TPULAYER_FIRMWARE="arm")
    done = tpulayer("run_kernel", *words, *values, cwd=source.parent, env=env, code=1)
    assert "checked.c:16:" in done.stderr
    assert "signed integer overflow: 2147483647 + 1" in done.stderr
    done = tpulayer("run_kernel", *words, *values, "--firmware", "arm", cwd=source.parent, code=2)
    assert "the firmware for the controller has no checks" in done.stderr
