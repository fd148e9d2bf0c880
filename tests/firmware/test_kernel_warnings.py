"""What becomes of calls that the guide forbids and that work all the same: told, an error, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_sim.device.client import Device
from firmware_sim.device.kernel_warnings import VARIABLE, KernelWarning, Mode, parsed
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.firmware.image import Kind
from user_layers.cli.main import run
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = r"""
#include "okk.h"

void wide(const void *args) {
    (void)args;
    okk_initialize();
    for (int i = 0; i < 3; i++)
        okk_bdc_matmul(0x1000, 0x2000, 0x3000, 0, 2, 5, 6, 8, 4, false, false); /* wide */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(wide)

void wide_and_wrong(const void *args) {
    (void)args;
    okk_initialize();
    okk_bdc_matmul(0x1000, 0x2000, 0x3000, 0, 2, 5, 6, 8, 4, false, false);
    okk_bdc_matmul(0x1000, 0x2000, 0x3000, 0, 2, 5, 6, 0, 4, false, false);
}
OKKERNEL_FUNC_REGISTER(wide_and_wrong)

void wide_and_refused(const void *args) {
    (void)args;
    okk_initialize();
    okk_bdc_matmul(0x1000, 0x2000, 0x3000, 0, 2, 5, 6, 8, 4, false, false); /* refused */
    okk_poll();
    okk_bdc_add_C(0x70000, 0, 1.f, &(dim4){1, 64, 448, 256}, NULL, NULL); /* no room for it */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(wide_and_refused)

void fitting(const void *args) {
    (void)args;
    okk_initialize();
    for (int i = 0; i < 3; i++) okk_bdc_matmul(0x1000, 0x2000, 0x3000, 0, 2, 5, 6, 5, 4, false, false);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(fitting)
"""
TEXT = "okk_bdc_matmul: 8 columns of the left matrix per channel, which has 5"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("warnings") / "wide.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def image(source: Path) -> Path:
    return kernel_firmware([source])


def _line(source: Path) -> str:
    number = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if "/* wide */" in text)
    return f"{source}:{number}"


@pytest.mark.parametrize("kind", ["native", "arm"])
def test_told_once_with_the_line_and_how_often(source: Path, kind: str) -> None:
    told: list[KernelWarning] = []
    firmware = kernel_firmware([source], kind="arm" if kind == "arm" else "native")
    with Device(firmware, on_warning=told.append) as device:
        device.launch("wide")
        device.launch("wide")
        device.record_launch("wide")
    assert told == [KernelWarning(TEXT, _line(source), 3)]
    assert str(told[0]) == f"{_line(source)}: {TEXT} (3 times)"


def test_shown_on_stderr(image: Path, source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Device(image) as device:
        device.launch("wide")
    assert capfd.readouterr().err == f"warning: {_line(source)}: {TEXT} (3 times)\n"


def test_an_error_when_asked_for(image: Path, source: Path) -> None:
    with Device(image, warnings="error") as device:
        with pytest.raises(DeviceError) as caught:
            device.launch("wide")
        assert caught.value.message == f"kernel wide: {_line(source)}: {TEXT} (3 times)"
        with pytest.raises(DeviceError, match="0 per channel; both start at 1"):
            device.launch("wide_and_wrong")


def test_silence_and_what_the_environment_says(
    image: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "ignore")
    with Device(image) as device:
        device.launch("wide")
    assert capfd.readouterr().err == ""
    monkeypatch.setenv(VARIABLE, "error")
    with Device(image) as device, pytest.raises(DeviceError, match="8 columns of the left matrix"):
        device.launch("wide")
    monkeypatch.setenv(VARIABLE, "loud")
    with pytest.raises(UsageError, match="TPULAYER_WARNINGS loud: give one of show, error, ignore"):
        Device(image)


@pytest.mark.parametrize(("mode", "code"), [("show", 0), ("error", 1), ("ignore", 0), ("loud", 2)])
def test_the_option_of_commands(
    source: Path, mode: str, code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "show")  # what the option sets is taken back
    command = ["run_kernel", "--kernel", str(source), "--name", "wide", "--warnings", mode]
    assert run(command) == code
    said = capfd.readouterr().err
    assert (f"warning: {_line(source)}: {TEXT}" in said) == (mode == "show")


@pytest.mark.parametrize("kind", ["native", "arm"])
@pytest.mark.parametrize("mode", ["show", "error"])
def test_told_before_an_error_of_the_engines(source: Path, kind: Kind, mode: Mode) -> None:
    told: list[KernelWarning] = []
    with Device(kernel_firmware([source], kind=kind), on_warning=told.append, warnings=mode) as device:
        with pytest.raises(DeviceError, match="each lane's memory ends at 0x80000"):
            device.launch("wide_and_refused")
        assert [warning.text for warning in told] == [TEXT]
        told.clear()
        device.launch("fitting")
    assert told == []


def test_their_words_are_no_instructions_of_the_kernel(source: Path) -> None:
    """What only the emulated controller does for messages is not counted."""
    with Device(kernel_firmware([source], kind="arm"), on_warning=lambda warning: None) as device:
        counts = []
        for kernel in ("fitting", "wide", "fitting", "wide"):
            before = device.instructions
            device.launch(kernel)
            counts.append(device.instructions - before)
    assert counts[0] == counts[2] and counts[1] == counts[3]
    assert abs(counts[1] - counts[0]) < 300


def test_damaged_lines_are_passed_over() -> None:
    found = parsed("x\n\n3\n2 a [called at f.c:3 in g]\n1 b\n5 a [called at f.c:3]\n")
    assert found == [KernelWarning("a", "f.c:3", 7), KernelWarning("b")]
