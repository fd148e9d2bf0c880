"""Files are written whole or not at all, whatever fails; commands say on what they failed."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT
from user_layers.files import (
    read_input,
    replace_copy,
    run_python,
    write_atomic,
    write_if_changed,
    write_together,
)
from user_layers.scaffold import init
from user_layers.toolchain.cache import workspace_locked

CLI = (sys.executable, "-m", "user_layers.cli.main")


def _tree(folder: Path) -> dict[str, bytes | None]:
    """What is there, but for files that could not be removed: no command takes them for anything."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.suffix != ".tmp"
    }


def _failing(call: Callable[..., Any], nth: int, error: int) -> Callable[..., Any]:
    calls = 0

    def function(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(error, os.strerror(error), "something else")
        return call(*args, **kwargs)

    return function


@pytest.mark.parametrize("name", ["replace", "fsync", "link", "unlink", "mkdir", "fchmod"])
@pytest.mark.parametrize("nth", range(1, 7))
def test_files_that_belong_together_are_all_old_or_all_new(
    name: str, nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for old in ("a", "b", "gone"):
        (tmp_path / old).write_text(old)
    before = _tree(tmp_path)
    files: dict[Path, str | bytes] = {
        tmp_path / "a": "new a",
        tmp_path / "b": b"new b",
        tmp_path / "deep" / "er" / "c": "new c",
    }
    after = {"a": b"new a", "b": b"new b", "deep": None, "deep/er": None, "deep/er/c": b"new c"}
    monkeypatch.setattr(os, name, _failing(getattr(os, name), nth, errno.EIO))
    failed = False
    try:
        write_together(files, [tmp_path / "gone", tmp_path / "never"], executable=frozenset(files))
    except OSError as error:
        failed = True
        assert error.errno == errno.EIO
    monkeypatch.undo()
    assert _tree(tmp_path) == (before if failed else after)
    assert name == "unlink" or not list(tmp_path.rglob("*.tmp"))
    assert failed or stat.S_IMODE((tmp_path / "a").stat().st_mode) & 0o100


def test_errors_name_the_file_that_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_text("x")
    monkeypatch.setattr(os, "replace", _failing(os.replace, 1, errno.ENOSPC))
    with pytest.raises(OSError, match=r"No space left on device: '.*/target'"):
        replace_copy(tmp_path / "source", tmp_path / "target")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match=r"'.*/file(/x)?'"):
        write_atomic(tmp_path / "file" / "x", "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "source"]


def test_what_can_be_made_again_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert write_if_changed(tmp_path / "a", "x") and not write_if_changed(tmp_path / "a", b"x")
    assert not synced
    write_atomic(tmp_path / "a", "y")
    assert len(synced) == 2  # the file, and its folder


def test_devices_and_pipes_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    write_atomic(Path("/dev/null"), "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_device_without_end_is_not_read() -> None:
    with pytest.raises(OSError, match="it is a character device: '/dev/zero'"):
        read_input(Path("/dev/zero"))


# ---- commands ----


def _run(line: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "T": " ".join(CLI)}
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("$T --help >/dev/full", 3, "the standard output: No space left on device"),
        ("$T --help >&-", 3, "the standard output: Bad file descriptor"),
        ("$T list_layers --json >&- 2>&-", 3, ""),
        ("$T frobnicate 2>/dev/full", 2, ""),
        ("$T frobnicate 2>&- <&-", 2, ""),
        ("$T tpu_model --info /dev/zero", 1, "/dev/zero: it is a character device"),
        ("$T isa decode /dev/zero", 2, "/dev/zero is neither a file"),
        ("PYTHONIOENCODING=ascii $T --version --\u4e2d\u6587; $T --version | true", 0, ""),
    ],
)
def test_streams_that_do_not_take_or_give_anything(line: str, code: int, says: str) -> None:
    done = _run(line)
    assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    init(tmp_path)
    return tmp_path


def test_a_file_size_limit(workspace: Path) -> None:
    before = _tree(workspace)
    done = _run("ulimit -f 1; $T add_layer one", workspace)
    assert done.returncode == 2
    assert (
        f"cannot write {workspace}/device/bm_device_one.c: File too large; nothing was changed" in done.stderr
    )
    assert _tree(workspace) == before


def test_commands_that_change_a_workspace_wait_for_each_other(workspace: Path) -> None:
    lines = ("add_layer one", "add_layer one", "set_bmkernel_path ''", "gen_config", "clean", "init .")
    before = _tree(workspace)
    with workspace_locked(workspace, print):
        running = [
            subprocess.Popen(
                ["bash", "-c", f"{' '.join(CLI)} {line}"],
                cwd=workspace,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            for line in lines
        ]
        for process in running:
            assert process.stderr is not None
            assert process.stderr.readline() == f"waiting for another command that works in {workspace}\n"
        assert _tree(workspace) == before
    codes = []
    for process in running:
        process.communicate(timeout=60)
        codes.append(process.returncode)
    assert sorted(codes[:2]) == [0, 2] and not any(codes[2:])  # one of two that are the same is refused


def test_a_file_of_the_user_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it changed within the second in which it ran before, and kept its size."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mine.py"
    for value in "123":
        path.write_text(f"from dataclasses import dataclass\n\n@dataclass\nclass A:\n    x: int = {value}\n")
        os.utime(path, (1e9, 1e9))
        assert run_python(path, "tpulayer_test_of_files").A().x == int(value)
