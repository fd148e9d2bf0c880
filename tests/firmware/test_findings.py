"""What becomes of findings: an error once all has run, a call of the user's, a command's exit code."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.checks.error import CheckError
from firmware_sim.checks.finding import Finding
from firmware_sim.device.client import Device
from firmware_sim.device.findings import together
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.processes.process import Child
from firmware_sim.variables import CHECK, CHECK_LIMIT
from tests.support.findings_sample import ADVICE, RACE, UNWRITTEN
from user_layers.cli.main import run
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = r"""
#include "okk.h"

typedef struct { unsigned long long output_addr; } __attribute__((packed)) args_t;

void fill(const void *args) {
    const args_t *p = args;
    *(int *)okk_global_mem_addr(p->output_addr) = 7;
}
OKKERNEL_FUNC_REGISTER(fill)

void refuses(const void *args) {
    OKKERNEL_ASSERT(args == NULL);
}
OKKERNEL_FUNC_REGISTER(refuses)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("findings") / "fill.c"
    path.write_text(SOURCE)
    return path


class Fake:
    """Stands where the device process answers: every launch finds what is in here. asked: the headers."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.untold: dict[str, int] = {}
        self.asked: list[dict[str, Any]] = []


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made, request = Fake(), Child.request

    def asked(child: Child, header: dict[str, Any], *given: Any, **more: Any) -> Any:
        reply, data = request(child, header, *given, **more)
        if header["op"] == "handle" and "kernel" in header["activity"]:
            made.asked.append(header)
            reply |= {"findings": [one.to_json() for one in made.found], "findings_untold": made.untold}
        return reply, data

    monkeypatch.setattr(Child, "request", asked)
    for variable in (CHECK, CHECK_LIMIT):
        monkeypatch.delenv(variable.name, raising=False)
    return made


Open = Callable[..., Device]


@pytest.fixture
def open_device(source: Path, fake: Fake) -> Iterator[Open]:
    opened: list[Device] = []

    def open_it(**given: Any) -> Device:
        opened.append(Device(kernel_firmware([source]), **given))
        return opened[-1]

    yield open_it
    for device in opened:
        device.close()


def launched(device: Device) -> int:
    """What the kernel wrote, whether the launch raised or not."""
    addr = device.malloc(4)
    device.write(addr, bytes(4))
    try:
        device.launch("fill", addr.to_bytes(8, "little"))
    finally:
        wrote = int(device.read_array(addr, (1,), np.int32)[0])
        assert wrote == 7
    return wrote


def test_nothing_found(open_device: Open, fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    device = open_device()
    capfd.readouterr()  # of the build
    assert launched(device) == 7
    assert fake.asked[0]["checks"] == ["memory", "init", "hazard", "sync"]
    assert fake.asked[0]["check_limit"] == 10
    assert capfd.readouterr() == ("", "")


def test_an_error_with_results_in_place(open_device: Open, fake: Fake) -> None:
    fake.found = [ADVICE, UNWRITTEN, RACE, UNWRITTEN]
    device = open_device()
    with pytest.raises(CheckError, match=r"^kernel fill: checks found\n") as caught:
        launched(device)
    assert [one.rule for one in caught.value.findings] == ["init.unwritten", "hazard.raw", "sync.superfluous"]
    assert [one.count for one in caught.value.findings] == [2, 64, 1]
    assert not isinstance(caught.value, DeviceError)
    fake.found = []
    assert launched(device) == 7


def test_advice_is_told_once(open_device: Open, fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    fake.found = [ADVICE]
    device = open_device()
    launched(device)
    launched(device)
    said = capfd.readouterr().err
    assert said.startswith("advice: ") and said.count("sync.superfluous") == 1


def test_the_limit(open_device: Open, fake: Fake) -> None:
    fake.found, fake.untold = [RACE, UNWRITTEN], {"sync.no_poll": 4}
    with pytest.raises(CheckError) as caught:
        launched(open_device(check_limit=1))
    assert "and 5 more: 1 init, 4 sync" in caught.value.message
    assert caught.value.untold == {"sync.no_poll": 4}
    assert len(caught.value.findings) == 2
    assert fake.asked[0]["check_limit"] == 1


def test_a_call_instead(open_device: Open, fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    fake.found = [RACE, ADVICE]
    got: list[Finding] = []
    device = open_device(on_findings=got.extend)
    launched(device)
    launched(device)
    assert got == [RACE, ADVICE] * 2
    assert capfd.readouterr().err == ""


def test_it_may_call_the_device(open_device: Open, fake: Fake) -> None:
    fake.found = [RACE]
    seen: list[int] = []
    opened: list[Device] = []
    device = open_device(on_findings=lambda _: seen.append(len(opened[0].query().kernels)))
    opened.append(device)
    launched(device)
    assert seen == [2]


def test_checks_may_change_between_requests(open_device: Open, fake: Fake) -> None:
    device = open_device(check="init,memory")
    assert device.check == "memory,init"
    launched(device)
    device.check = "off"
    launched(device)
    with device.checking("all"):
        launched(device)
        assert device.check == "memory,init,hazard,sync,numeric"
    launched(device)
    with together(check="sync"):
        launched(device)
    every = ["memory", "init", "hazard", "sync", "numeric"]
    assert [one["checks"] for one in fake.asked] == [["memory", "init"], [], every, [], ["sync"]]
    for wrong in ("hazards", "", "off,init", "init,,sync"):
        with pytest.raises(UsageError, match="give off, or some of memory,init,hazard,sync,numeric"):
            device.check = wrong
    assert device.check == "off"


def test_words_that_name_no_check(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^--check races: give off, or some of"):
        Device(kernel_firmware([source]), check="races")
    monkeypatch.setenv("TPULAYER_CHECK", "everything")
    with pytest.raises(UsageError, match=r"^TPULAYER_CHECK everything: give off, or some"):
        Device(kernel_firmware([source]))


def test_the_environment(open_device: Open, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_CHECK", "init")
    monkeypatch.setenv("TPULAYER_CHECK_LIMIT", "3")
    assert open_device().check == "init"
    device = open_device(check="off", check_limit=2)
    assert device.check == "off"
    launched(device)
    assert (fake.asked[0]["checks"], fake.asked[0]["check_limit"]) == ([], 2)


# ---- several requests as one ----


def test_together(open_device: Open, fake: Fake) -> None:
    fake.found = [RACE]
    device = open_device()
    steps: list[str] = []
    with pytest.raises(CheckError, match=r"^net 'x': checks found") as caught, together("net 'x'"):
        launched(device)
        with together():
            launched(device)
        steps.append("after")
    assert steps == ["after"]
    assert [one.count for one in caught.value.findings] == [2 * RACE.count]


def test_together_with_two_devices(open_device: Open, fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    fake.found = [RACE]
    first, second = open_device(), open_device()
    capfd.readouterr()
    with pytest.raises(CheckError) as caught, together():
        launched(first)
        launched(second)
    assert caught.value.findings == (RACE,)
    assert capfd.readouterr().err.count("kernel fill: checks found") == 1


def test_the_inner_name(open_device: Open, fake: Fake) -> None:
    fake.found = [RACE]
    device = open_device()
    with pytest.raises(CheckError, match=r"^net 'y': checks found"), together():
        with together("net 'y'"):
            launched(device)
        launched(device)


def test_together_with_an_inner_one_of_its_own(open_device: Open, fake: Fake) -> None:
    fake.found = [RACE]
    device = open_device()
    outer: list[Finding] = []
    inner: list[Finding] = []
    with together(on_findings=outer.extend):
        launched(device)
        with together(on_findings=inner.extend):
            launched(device)
        assert inner == [RACE]
        with together(check="init"):
            launched(device)
        assert outer == []
    assert [one.count for one in outer] == [2 * RACE.count]
    assert fake.asked[-1]["checks"] == ["init"]


def test_another_error_counts_more(open_device: Open, fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    fake.found = [RACE]
    device = open_device()
    with pytest.raises(DeviceError, match="assertion"):
        device.launch("refuses", bytes(8))
    assert "kernel refuses: checks found" in capfd.readouterr().err
    with pytest.raises(ZeroDivisionError), together():
        launched(device)
        _ = 1 // 0
    assert "kernel fill: checks found" in capfd.readouterr().err
    got: list[Finding] = []
    with pytest.raises(ZeroDivisionError), together(on_findings=got.extend):
        launched(device)
        _ = 1 // 0
    assert got == [RACE]


def test_launches_that_are_not_waited_for(open_device: Open, fake: Fake) -> None:
    fake.found = [RACE]
    device = open_device()
    addr = device.malloc(4)
    device.launch_async("fill", addr.to_bytes(8, "little"))
    with pytest.raises(CheckError, match="kernel fill"):
        device.sync()
    device.sync()
    got: list[Finding] = []
    threads = set()

    def tell(findings: list[Finding]) -> None:
        got.extend(findings)
        threads.add(threading.current_thread())

    told = open_device(on_findings=tell)
    addr = told.malloc(4)
    mine: list[Finding] = []
    with together(on_findings=mine.extend):  # of this thread
        told.launch_async("fill", addr.to_bytes(8, "little"))
        told.sync()
    assert got == [RACE] and not mine and threading.current_thread() not in threads


def test_threads_gather_for_themselves(open_device: Open, fake: Fake) -> None:
    fake.found = [RACE]
    device = open_device()
    caught: list[CheckError] = []

    def other() -> None:
        try:
            launched(device)
        except CheckError as error:
            caught.append(error)

    got: list[Finding] = []
    with together(on_findings=got.extend):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(caught) == 1 and got == []


# ---- commands ----


def run_fill(source: Path, *words: str) -> int:
    out = source.with_name("out.npy")
    out.unlink(missing_ok=True)
    line = ["run_kernel", "--kernel", str(source), "--name", "fill", "--out", f"output_addr=1:int32:{out}"]
    code = run([*line, *words])
    assert np.load(out).tolist() == [7]
    return code


def test_run_kernel(source: Path, fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_fill(source) == 0
    fake.found = [RACE, ADVICE]
    assert run_fill(source) == 5
    out, err = capfd.readouterr()
    assert "hazard.raw: okk_bdc_add reads" in err and err.endswith("2 findings: 1 hazard, 1 advice\n")
    assert "hazard" not in out and "\x1b" not in err
    fake.found = [ADVICE]
    assert run_fill(source) == 0
    assert "1 finding: 1 advice" in capfd.readouterr().err


def test_options(source: Path, fake: Fake, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fake.found = [RACE, UNWRITTEN]
    sarif = tmp_path / "found.sarif"
    words = ("--check", "all", "--check-limit", "1", "--json", "--sarif", str(sarif))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPULAYER_CHECK", "off")  # the options count more
        patch.setenv("TPULAYER_CHECK_LIMIT", "7")
        assert run_fill(source, *words) == 5
    out, err = capfd.readouterr()
    answer = json.loads(out)
    assert [one["rule"] for one in answer["findings"]] == ["hazard.raw", "init.unwritten"]
    assert answer["findings"][0]["kind"] == "hazard"
    assert "and 1 more: 1 init" in err
    log = json.loads(sarif.read_text())
    assert [one["ruleId"] for one in log["runs"][0]["results"]] == ["hazard.raw", "init.unwritten"]
    assert len(fake.asked[0]["checks"]) == 5 and fake.asked[0]["check_limit"] == 1


def test_sarif_without_findings(source: Path, fake: Fake, tmp_path: Path) -> None:
    sarif = tmp_path / "none.sarif"
    assert run_fill(source, "--sarif", str(sarif)) == 0
    assert json.loads(sarif.read_text())["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--check", "races"), "error: --check races: give off, or some of memory,init"),
        (("--check-limit", "0"), "error: --check-limit 0: give a number of findings, 1 or more"),
    ],
)
def test_wrong_words(
    source: Path, words: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["run_kernel", "--kernel", str(source), "--name", "fill", *words]) == 2
    assert capfd.readouterr().err.startswith(message)


def test_a_sarif_file_that_cannot_be_written(
    source: Path, fake: Fake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run_fill(source, "--sarif", str(tmp_path / "file" / "x.sarif")) == 2
    assert "x.sarif cannot be written: " in capfd.readouterr().err


def test_findings_are_told_when_something_else_ends_the_command(
    source: Path, fake: Fake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.found = [RACE]
    sarif = tmp_path / "found.sarif"
    line = ["run_kernel", "--kernel", str(source), "--name", "fill", "--arg", "output_addr=1"]
    code = run([*line, "--out", "nothing=1", "--sarif", str(sarif)])
    assert code == 2 and json.loads(sarif.read_text())["runs"][0]["results"] == []
    code = run(["run_kernel", "--kernel", str(source), "--name", "refuses", "--sarif", str(sarif)])
    err = capfd.readouterr().err
    assert code == 1 and "assertion" in err and "hazard.raw" in err
    assert len(json.loads(sarif.read_text())["runs"][0]["results"]) == 1


def test_colours(source: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    fake.found = [RACE]
    said = Terminal()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run_fill(source) == 5
    assert "\x1b[31;1mhazard.raw\x1b[0m: okk_bdc_add" in said.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    said.truncate(0)
    assert run_fill(source) == 5
    assert "\x1b" not in said.getvalue()
