"""What starts gdb, and what is said where there is none; no gdb is needed here."""

from __future__ import annotations

import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from firmware_sim.device import debugging
from firmware_sim.device.debugging import Choice
from firmware_sim.errors import MissingError, UsageError
from firmware_sim.firmware.image import FirmwareImage, Kind
from firmware_sim.processes import debugger
from user_layers.cli.main import run as cli
from user_layers.cli.options import in_gdb


def fake(folder: Path, name: str, says: str = "", code: int = 0) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH; empty."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("kind", "port", "message", "hint"),
    [
        ("native", None, "--gdb: gdb is not installed", "apt-get install gdb "),
        ("native", 0, "--gdb-port: gdbserver is not installed", "apt-get install gdbserver"),
        ("arm", None, "--gdb: gdb-multiarch is not installed", "apt-get install gdb-multiarch"),
    ],
)
def test_no_gdb(programs: Path, kind: Kind, port: int | None, message: str, hint: str) -> None:
    with pytest.raises(MissingError) as caught, debugging.debugging(Choice(kind, ("f",), port=port)):
        raise AssertionError
    assert caught.value.message == message and hint in caught.value.hint


def test_a_gdb_for_this_machine_alone(programs: Path) -> None:
    gdb = fake(programs, "gdb", "Undefined item", 1)
    with pytest.raises(MissingError, match=f"{gdb} knows no ARM"), debugging.debugging(Choice("arm", ())):
        raise AssertionError
    fake(programs, "gdb", 'The target architecture is set to "armv5te".')
    with debugging.debugging(Choice("arm", ())):
        pass


def test_the_command_for_native_code(programs: Path, tmp_path: Path) -> None:
    gdb = fake(programs, "gdb")
    script = tmp_path / "script.gdb"
    script.write_text("bt\n")
    image = FirmwareImage(tmp_path / "firmware.so")
    assert debugging.session(image) is None
    with debugging.debugging(Choice("native", ("f", "g"), ("info args", str(script)))):
        assert debugging.session(FirmwareImage(tmp_path / "tcm", tmp_path / "ddr")) is None
        session = debugging.session(image)
        assert session is not None and session.under is not None and session.terminal
        words = session.under(["python", "-m", "m"], {"A": "b c"})
    assert words[0] == str(gdb) and words[-4:] == ["--args", "python", "-m", "m"]
    told = [(words[i], words[i + 1]) for i in range(2, len(words) - 4, 2)]
    assert ("-iex", "set environment A=b c") in told
    wanted = [("-ex", "break f"), ("-ex", "break g"), ("-ex", "run"), ("-ex", "info args")]
    assert told[-5:] == [*wanted, ("-x", str(script))]
    assert debugging.session(image) is None


def test_the_command_of_a_server(programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = fake(programs, "gdbserver")
    with debugging.debugging(Choice("native", ("f",), port=4242)):
        session = debugging.session(FirmwareImage(tmp_path / "firmware.so"))
        assert session is not None and session.under is not None and not session.terminal
        words = session.under(["python"], {"A": "b"})
    place = ["--", "127.0.0.1:4242", "python"]
    assert words == [str(server), "--once", "--wrapper", "env", "A=b", *place]
    assert "break f" in capsys.readouterr().err


def test_the_controller_without_its_program(tmp_path: Path) -> None:
    image = FirmwareImage(tmp_path / "firmware_tcm.bin", tmp_path / "firmware_ddr.bin")
    with debugging.debugging(Choice("arm", ("f",), port=0)):
        with pytest.raises(MissingError, match=r"there is no .*firmware\.elf"):
            debugging.session(image)
        image.debug.write_bytes(b"")
        session = debugging.session(image)
    assert session is not None and len(session.fds) == 1 and not session.beside
    os.close(session.fds[0])


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    image = FirmwareImage(tmp_path / "firmware_tcm.bin", tmp_path / "firmware_ddr.bin")
    image.debug.write_bytes(b"")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = pytest.raises(MissingError, match=f"cannot have port {port} of 127.0.0.1: .*in use")
        with debugging.debugging(Choice("arm", ("f",), port=port)), taken:
            debugging.session(image)


def test_words_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert in_gdb(False, None, None) is None
    with pytest.raises(UsageError, match="one of them"):
        in_gdb(True, None, 0)
    with pytest.raises(UsageError, match="--gdb-command without --gdb"):
        in_gdb(False, ["bt"], None)
    kernel = ["run_kernel", "--kernel", str(tmp_path / "none.c"), "--name", "none"]
    assert cli([*kernel, "--gdb-command", "bt"]) == 2
    assert cli([*kernel, "--gdb-port", "70000"]) == 2
    assert "65535" in capsys.readouterr().err


def test_said_before_anything_is_built(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["run_kernel", "--kernel", "none.c", "--name", "none", "--gdb"]) == 3
    assert "gdb is not installed" in capsys.readouterr().err


class Living:
    alive = True


def test_who_gets_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGINT)
    child = Living()
    with debugger.attended():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        debugger.attend(child)
        signal.raise_signal(signal.SIGINT)  # is the debugger's
        child.alive = False
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
