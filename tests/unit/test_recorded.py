"""What load_firmware recorded: written whole or not at all, and no dead end when it is of no use."""

from __future__ import annotations

import itertools
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from firmware_sim.arm.images import keep, named
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash, DeviceError, MissingError, TpulayerError, UsageError
from firmware_sim.firmware.image import DDR_NAME, TCM_NAME, FirmwareImage
from firmware_sim.firmware.recorded import Records
from user_layers.bmrt import load_firmware
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.kernel import kernel_firmware
from user_layers.workspace import sdk_dir

HERE = Records.here()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("TPULAYER_STATE", str(folder))
    return folder


@pytest.fixture
def pair() -> FirmwareImage:
    folder = builtin_artifacts().directory
    return FirmwareImage(folder / TCM_NAME, folder / DDR_NAME)


def test_a_state_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: FirmwareImage
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TPULAYER_STATE", str(tmp_path / "file"))
    with pytest.raises(MissingError, match=r"firmware of device 3 cannot be recorded in .*file: ") as caught:
        keep(pair, 3)
    assert "TPULAYER_STATE" in caught.value.hint
    assert HERE.of(3) is None and not HERE.forget(3)


@pytest.mark.parametrize("step", [1, 2])
def test_a_record_that_fails_leaves_the_one_before(
    state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: int
) -> None:
    HERE.keep(1, {"a": b"1"}, {"a": tmp_path / "a"})
    before = HERE.of(1)
    replace, steps = os.replace, itertools.count(1)

    def full(source: Path, target: Path) -> None:
        if next(steps) == step:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(MissingError, match="No space left on device"):
        HERE.keep(1, {"a": b"2"}, {"a": tmp_path / "a"})
    assert before is not None and HERE.of(1) == before
    assert (before.folder / "a").read_bytes() == b"1"
    assert len(list((state / "devices").iterdir())) == 2


def test_a_pair_of_two_workspaces_is_built_in_neither(state: Path, tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name / "config").mkdir(parents=True)
        (tmp_path / name / "config" / "Makefile.config").touch()
        paths.append(tmp_path / name / "install" / "firmware" / f"{name}.bin")
    for given, home in ((paths[:1], tmp_path / "a"), (paths, None)):
        HERE.keep(1, {path.name: b"" for path in given}, {path.name: path for path in given})
        record = HERE.of(1)
        assert record is not None and record.built_in == home


def test_a_record_is_locked_once(state: Path, tmp_path: Path) -> None:
    HERE.keep(1, {"a": b"1"}, {"a": tmp_path / "a"})
    assert HERE.of(1) is not None
    files = len(os.listdir("/proc/self/fd"))
    assert HERE.of(1) == HERE.of(1)
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize(("key", "nothing"), [("sha256", "{}"), ("files", "[]")])
def test_a_record_of_nothing(state: Path, tmp_path: Path, key: str, nothing: str) -> None:
    HERE.keep(1, {"a": b"1"}, {"a": tmp_path / "a"})
    record = HERE.of(1)
    assert record is not None
    text = (record.folder / "record.json").read_text()
    emptied = re.sub(rf'("{key}": )[\[{{].*?[\]}}]', rf"\1{nothing}", text, flags=re.DOTALL)
    assert emptied != text
    (record.folder / "record.json").write_text(emptied)
    with pytest.raises(MissingError, match=r"record\.json is missing or damaged"):
        HERE.of(1)


def cut(folder: Path) -> None:
    (folder / DDR_NAME).unlink()


def other_version(folder: Path) -> None:
    data = bytearray((folder / TCM_NAME).read_bytes())
    data[0x40 + 16] ^= 0xFF
    (folder / TCM_NAME).write_bytes(data)


@pytest.mark.parametrize(("change", "error"), [(cut, MissingError), (other_version, DeviceError)])
def test_a_record_of_no_use_says_how_to_get_rid_of_it(
    state: Path, pair: FirmwareImage, change: Callable[[Path], None], error: type[TpulayerError]
) -> None:
    keep(pair, 5)
    record = HERE.of(5)
    assert record is not None
    change(record.folder)
    with pytest.raises(error) as caught:
        Device(dev_id=5)
    assert "--forget 5" in caught.value.hint
    with pytest.raises(MissingError) as caught:
        Device(FirmwareImage(state / "absent.bin", pair.ddr))
    assert caught.value.hint == "run build_layers"


def test_what_okkernel_load_firmware_names(tmp_path: Path) -> None:
    assert named("a.img", "b.img") == FirmwareImage(Path("a.img").resolve(), Path("b.img").resolve())
    assert named("a/firmware.so", "") == named("a/firmware.so", "firmware_ddr.bin") == "a/firmware.so"
    assert named(tmp_path, "firmware_ddr.bin") == str(tmp_path)
    with pytest.raises(UsageError, match="path of the firmware is empty"):
        named("", "")


LOOP = r"""
#include "okk.h"
void loops(const void *args) {
    for (volatile int i = *(const int *)args; i != 0;) { /* here */
    }
}
OKKERNEL_FUNC_REGISTER(loops)
"""


def test_a_device_that_runs_keeps_the_pair_it_booted(
    state: Path, tmp_path: Path, pair: FirmwareImage
) -> None:
    """load_firmware and --forget meanwhile: after a reset it boots the same, and knows the source lines."""
    (tmp_path / "loop.c").write_text(LOOP)
    tcm = kernel_firmware([tmp_path / "loop.c"], kind="arm")
    keep(FirmwareImage(tcm, tcm.with_name(DDR_NAME)), 2)
    with Device(dev_id=2, time_limit=1) as device:
        keep(pair, 2)
        record = HERE.of(2)
        assert record is not None and record.folder != device.firmware.path.parent
        with pytest.raises(DeviceCrash, match=r"was stopped at .*loop\.c:4 in loops"):
            device.launch("loops", struct.pack("<i", 1))
        HERE.forget(2)
        device.launch("loops", struct.pack("<i", 0))
    assert HERE.of(2) is None
    assert len(list((state / "devices").iterdir())) == 2  # in use: this process has opened both
    # once nobody uses them they go
    use = (
        "from pathlib import Path; from firmware_sim.firmware.recorded import Records; r = Records.here(); "
        "keep = lambda: r.keep(2, {'a': b''}, {'a': Path('a')}); keep(); r.of(2); keep()"
    )
    subprocess.run([sys.executable, "-c", use], check=True, timeout=60)
    assert len(list((state / "devices").iterdir())) == 5
    end = "from firmware_sim.firmware.recorded import Records; Records.here().forget(2)"
    subprocess.run([sys.executable, "-c", end], check=True, timeout=60)
    assert len(list((state / "devices").iterdir())) == 2


def test_the_library_numbers_devices_alike() -> None:
    source = (sdk_dir() / "host" / "bmlib.c").read_text()
    found = re.search(r"#define DEVICES (\d+)", source)
    assert found is not None and int(found[1]) == load_firmware.DEVICES
    assert f"devices are numbered 0 to {load_firmware.DEVICES - 1}" in source
