"""The two images: made the same every time, checked before they are loaded, recorded for later."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from firmware_sim.arm.images import from_elf, load_pair
from firmware_sim.device.client import Device
from firmware_sim.errors import BuildError, DeviceError, MissingError, UsageError
from firmware_sim.firmware.image import DDR_NAME, TCM_NAME, FirmwareImage, find_firmware
from firmware_sim.firmware.recorded import Records
from firmware_sim.wire import ABI_VERSION
from tests.support.workspaces import built_copy, environment, make_workspace, tpulayer
from user_layers.bmrt import load_firmware
from user_layers.files import write_atomic
from user_layers.toolchain.arm import arm_compiler, link_arm
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.firmware import firmware_image
from user_layers.toolchain.kernel import kernel_firmware
from user_layers.toolchain.ninja_file import NinjaFile
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.targets import build_layers
from user_layers.workspace import Workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_copy(tmp_path_factory, tmp_path_factory.mktemp("workspace"))


@pytest.fixture
def pair(workspace: Workspace) -> tuple[bytes, bytes]:
    folder = workspace.firmware.parent
    return (folder / TCM_NAME).read_bytes(), (folder / DDR_NAME).read_bytes()


def test_the_same_sources_give_the_same_bytes(pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    """Elsewhere, and from clean: no path and no time gets in."""
    other = make_workspace(tmp_path / "a longer name of a folder")
    build_layers(other)
    folder = other.firmware.parent
    assert ((folder / TCM_NAME).read_bytes(), (folder / DDR_NAME).read_bytes()) == pair


Change = Callable[[bytes, bytes], tuple[bytes, bytes]]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tcm, ddr: (ddr, tcm), "is the DDR image, not that for ITCM"),
        (lambda tcm, ddr: (tcm, tcm), "is the ITCM image, not that for DDR"),
        (lambda tcm, ddr: (tcm[:-1], ddr), r"is cut off: \d+ bytes, its header says \d+"),
        (lambda tcm, ddr: (tcm, ddr[: len(ddr) // 2]), "is cut off"),
        (lambda tcm, ddr: (tcm + b"\0", ddr), "is too long"),
        (lambda tcm, ddr: (tcm[:40], ddr), "is not the ITCM image of a firmware"),
        (lambda tcm, ddr: (b"", ddr), "is not the ITCM image of a firmware"),
        (lambda tcm, ddr: (tcm, b"hello" * 100), "is not the DDR image of a firmware"),
        (lambda tcm, ddr: (flipped(tcm, 0x2000), ddr), "is damaged: its checksum is wrong"),
        (lambda tcm, ddr: (tcm, flipped(ddr, 0x100)), "is damaged: its checksum is wrong"),
        (
            lambda tcm, ddr: (flipped(tcm, 0x40 + 16), ddr),
            f"is of firmware ABI {ABI_VERSION ^ 4}; this device speaks {ABI_VERSION}",
        ),
        (lambda tcm, ddr: (flipped(tcm, 0x40 + 8), ddr), "a header of format 5"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused(
    pair: tuple[bytes, bytes], tmp_path: Path, change: Change, message: str
) -> None:
    tcm, ddr = tmp_path / TCM_NAME, tmp_path / DDR_NAME
    for path, data in zip((tcm, ddr), change(*pair), strict=True):
        path.write_bytes(data)
    with pytest.raises(DeviceError, match=message):
        load_pair(tcm, ddr)
    with pytest.raises(DeviceError, match=message):
        Device(FirmwareImage(tcm, ddr))


def test_halves_of_two_builds_are_refused(workspace: Workspace) -> None:
    other = builtin_artifacts().directory
    with pytest.raises(DeviceError, match="come from different builds"):
        load_pair(workspace.firmware.parent / TCM_NAME, other / DDR_NAME)
    with pytest.raises(MissingError, match=r"the ITCM image .*absent cannot be read"):
        load_pair(workspace.root / "absent", other / DDR_NAME)


def test_a_firmware_that_does_not_boot_is_told(tmp_path: Path) -> None:
    (tmp_path / "twice.c").write_text(
        '#include "okk.h"\nvoid f(const void *args) { (void)args; }\n'
        "OKKERNEL_FUNC_REGISTER(f)\n"
        '__attribute__((constructor)) static void again(void) { okk_register_kernel_func("f", f); }\n'
    )
    image = kernel_firmware([tmp_path / "twice.c"], kind="arm")
    lines: list[str] = []
    with pytest.raises(DeviceError, match="refused to boot"):
        Device(image, on_log=lines.append)
    assert any("kernel f is registered twice" in line for line in lines)


@pytest.mark.parametrize(
    ("region", "text", "largest"),
    [
        ("DDR", "static volatile unsigned char huge[24 << 20];", "25165824 bytes  huge in big.c"),
        ("ITCM", "static const volatile int huge[150000] = {1, 2};", "600000 bytes  huge in big.c"),
    ],
)
def test_a_full_region_is_named_with_what_fills_it(
    tmp_path: Path, region: str, text: str, largest: str
) -> None:
    (tmp_path / "big.c").write_text(
        f'#include "okk.h"\n{text}\n'
        "volatile int found;\n"
        "void f(const void *args) { found = huge[*(const int *)args]; }\n"
        "OKKERNEL_FUNC_REGISTER(f)\n"
    )
    with pytest.raises(BuildError, match=rf"the firmware does not fit: {region} is \d+ bytes too") as caught:
        kernel_firmware([tmp_path / "big.c"], kind="arm")
    assert largest in caught.value.message


def test_what_lies_where(workspace: Workspace) -> None:
    """Layers and dispatch in DDR, the kernel API in ITCM, the firmware's state in DTCM below the kernels'."""
    from elftools.elf.elffile import ELFFile

    with open(workspace.firmware.with_name("firmware.elf"), "rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        place = {s.name: int(s["st_value"]) for s in table.iter_symbols()}
    for name in ("double_global", "double_local", "tpu_global_calculate_entry"):
        assert 0x8000_0000 <= place[name] < 0x8100_0000, name
    for name in ("okk_initialize", "fw_handle", "fw_arm_main", "memcpy"):
        assert 0x1000 <= place[name] < 0x8_0000, name
    for name in ("platform", "unwind_to"):
        assert 0x0201_8000 <= place[name] < 0x0202_0000, name


# ---- linking the user's part into another firmware ----

PLATFORM = (
    *("fw_platform_try", "fw_platform_unwind", "fw_platform_scratch", "fw_platform_scratch_release"),
    *("fw_platform_abort", "fw_platform_aside"),
    *("fw_platform_boot", "fw_platform_arguments", "fw_arm_fault"),
)
FOREIGN = r"""
typedef unsigned long long u64;
int tpu_global_calculate_entry(int, const void *, int, const void *, int, u64, u64, void *, int);
void fw_arm_main(void) {
    for (;;) tpu_global_calculate_entry(0, 0, 0, 0, 0, 0, 0, 0, 0);
}
"""


def test_the_users_part_links_into_another_firmware(workspace: Workspace, tmp_path: Path) -> None:
    """firmware_layer.a with a main of somebody else's, and of the toolkit's firmware only the kernel API."""
    compiler = arm_compiler()
    (tmp_path / "main.c").write_text(FOREIGN)
    command = [
        *compiler.argv,
        *compiler.flags,
        "-c",
        str(tmp_path / "main.c"),
        "-o",
        str(tmp_path / "main.o"),
    ]
    subprocess.run(command, check=True, timeout=120)
    names = subprocess.run(
        [*compiler.ar, "t", workspace.firmware_layer], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert names == ["bm_device_double.c.o", "bmtpu_device_entry.c.o"]
    api = tmp_path / "api.a"
    api.write_bytes(builtin_artifacts().libtpufw_arm.read_bytes())
    subprocess.run([*compiler.ar, "d", api, "fw_arm.c.o", "fw_arm_platform.c.o"], check=True, timeout=60)
    ninja = NinjaFile(tmp_path, tmp_path)
    program = link_arm(
        ninja, tmp_path / "foreign.elf", [tmp_path / "main.o", workspace.firmware_layer, api], []
    )
    # what the platform's files give, somebody else's firmware has
    stubs = "".join(f"void {name}(void) {{}}\n" for name in PLATFORM)
    (tmp_path / "stubs.c").write_text(stubs)
    command = [
        *compiler.argv,
        *compiler.flags,
        "-c",
        str(tmp_path / "stubs.c"),
        "-o",
        str(tmp_path / "stubs.o"),
    ]
    subprocess.run(command, check=True, timeout=120)
    subprocess.run([*compiler.ar, "rcs", api, tmp_path / "stubs.o"], check=True, timeout=60)
    write_atomic(ninja.identity_file, "")
    write_atomic(tmp_path / "build.ninja", ninja.text())
    run_ninja(tmp_path, tmp_path / "build.ninja", [program], Reporter())
    images = from_elf(program, "test")
    assert len(images.tcm) > 0x1000 and len(images.ddr) > 64


# ---- load_firmware, and which firmware is chosen ----


@pytest.fixture
def state(tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.chdir(workspace.root)
    monkeypatch.setenv("TPULAYER_STATE", str(folder))
    return folder


def files(workspace: Workspace) -> tuple[str, str]:
    folder = workspace.firmware.parent
    return str(folder / TCM_NAME), str(folder / DDR_NAME)


def test_load_firmware_reports_and_records(
    workspace: Workspace, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = tpulayer("load_firmware", *files(workspace), "3", cwd=workspace.root)
    assert "device 3: tpulayer " in done.stdout and "layers: TPU_DOUBLE" in done.stdout
    done = tpulayer("load_firmware", *files(workspace), "3", "--json", cwd=workspace.root)
    answer = json.loads(done.stdout)
    assert answer["layers"] == ["TPU_DOUBLE"] and answer["device"] == 3 and answer["kernels"] == []
    assert answer["controller_instructions"] > 100
    kept = Records.here().of(3)
    assert kept is not None and Records.here().of(0) is None
    folder = kept.folder
    assert (folder / TCM_NAME).read_bytes() == Path(files(workspace)[0]).read_bytes()
    assert len(list((state / "devices").iterdir())) == 2  # the link and what it points to
    with Device(dev_id=3) as device:
        assert device.firmware.path == folder / TCM_NAME
        assert [layer.op for layer in device.query().layers] == ["TPU_DOUBLE"]
    done = tpulayer("load_firmware", "--forget", "3", cwd=workspace.root)
    assert done.stdout == "device 3: forgotten\n"
    assert list((state / "devices").iterdir()) == [folder]  # this process uses it
    with Device(dev_id=3) as device:  # the workspace's, as nothing else is given
        assert device.firmware.path.parent == workspace.firmware.parent
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingError, match="no firmware: none was given"):
        Device(dev_id=3)


def test_the_program_in_c_loads_too(workspace: Workspace, state: Path) -> None:
    program = workspace.install_dir / "bin" / "load_firmware"
    env = environment(TPULAYER_STATE=str(state), TPULAYER_PYTHON=sys.executable)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(program), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)

    tcm, ddr = files(workspace)
    done = run(tcm, ddr, "2")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("device 2: loaded ")
    with Device(dev_id=2) as device:
        assert device.firmware.kind == "arm" and device.query().layers[0].op == "TPU_DOUBLE"
    for words, code, message in (
        ((ddr, tcm, "2"), 1, "is the DDR image, not that for ITCM"),
        ((tcm,), 2, "usage: load_firmware"),
        ((tcm, ddr, "two"), 2, "two is not a device number"),
        ((tcm, ddr, "64"), 3, "device 64 cannot be opened"),
    ):
        done = run(*words)
        assert done.returncode == code and message in done.stderr


def test_load_firmware_refuses_and_keeps_the_record(workspace: Workspace, state: Path) -> None:
    tcm, ddr = files(workspace)
    tpulayer("load_firmware", tcm, ddr, cwd=workspace.root)
    before = Records.here().of(0)
    for words, code in (((ddr, tcm), 1), ((tcm, "absent"), 3), ((tcm, ddr, "64"), 2), ((tcm,), 2)):
        done = tpulayer("load_firmware", *words, cwd=workspace.root, code=code)
        assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    tpulayer("load_firmware", tcm, ddr, "--forget", "0", cwd=workspace.root, code=2)
    assert before is not None and Records.here().of(0) == before


def test_the_order_of_choice(workspace: Workspace, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = builtin_artifacts().directory
    own = workspace.firmware.parent
    assert firmware_image(workspace).path == own / "firmware.so"
    assert firmware_image(workspace, "arm").path == own / TCM_NAME
    load_firmware.run(other / TCM_NAME, other / DDR_NAME, 0, as_json=False)
    kept = Records.here().of(0)
    assert kept is not None
    assert firmware_image(workspace).path == kept.folder / TCM_NAME
    assert firmware_image(workspace, "native").path == own / "firmware.so"
    assert firmware_image(workspace, dev_id=1).path == own / "firmware.so"
    monkeypatch.setenv("BMRUNTIME_FIRMWARE_PATH", str(own))
    assert firmware_image(workspace).path == own / "firmware.so"
    assert firmware_image(workspace, "arm").path == own / TCM_NAME
    assert firmware_image(workspace, str(other)).path == other / "firmware.so"
    assert firmware_image(workspace, str(other / TCM_NAME)).kind == "arm"
    with pytest.raises(UsageError, match="is a firmware of kind native, but arm is asked for"):
        find_firmware(own / "firmware.so", "arm")
    with pytest.raises(UsageError, match="--firmware arm64: neither native, nor arm, nor a path"):
        firmware_image(workspace, "arm64")
    with pytest.raises(MissingError, match=r"no firmware at .*firmware_tcm\.bin"):
        find_firmware(workspace.root, "arm")
    assert struct.unpack("<8s", (own / DDR_NAME).read_bytes()[:8]) == (b"TPULAYFW",)


def test_a_recorded_firmware_that_hides_the_workspaces_is_told(workspace: Workspace, state: Path) -> None:
    text = f"(not the one built in {workspace.root})"
    tcm, ddr = map(Path, files(workspace))
    load_firmware.run(tcm, ddr, 0, as_json=False)
    assert text not in tpulayer("build_layers", cwd=workspace.root).stderr
    other = builtin_artifacts().directory
    load_firmware.run(other / TCM_NAME, other / DDR_NAME, 0, as_json=False)
    assert text in tpulayer("build_layers", cwd=workspace.root).stderr
    assert text in tpulayer("doctor", cwd=workspace.root).stdout
    env = environment(TPULAYER_STATE=str(state), TPULAYER_FIRMWARE="native")
    assert text not in tpulayer("doctor", cwd=workspace.root, env=env).stdout


def test_the_environment_says_what_is_usual(
    workspace: Workspace, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = workspace.firmware.parent
    monkeypatch.setenv("TPULAYER_FIRMWARE", "arm")
    assert firmware_image(workspace).path == own / TCM_NAME
    assert find_firmware(own).path == own / TCM_NAME
    assert find_firmware(own / "firmware.so").kind == "native"  # a file is a file
    assert firmware_image(workspace, "native").path == own / "firmware.so"
    monkeypatch.setenv("TPULAYER_FIRMWARE", "both")
    with pytest.raises(UsageError, match="TPULAYER_FIRMWARE both: give one of native, arm"):
        firmware_image(workspace)
