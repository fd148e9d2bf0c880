"""The workspace's folder and its configuration file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import SourceError, UsageError
from tests.paths import ROOT
from tests.support.workspaces import make_workspace
from user_layers.files import replace_copy, write_atomic, write_if_changed
from user_layers.workspace import Config, Workspace, edit_config, parse_config, sdk_dir

FILE = Path("config/Makefile.config")


def test_the_repository_is_a_workspace() -> None:
    ws = Workspace.find(ROOT / "docs")
    assert ws.root == ROOT
    assert ws.config == Config("x86", "cmodel", "bmkernel_demo")
    assert (sdk_dir() / "include" / "okk.h").is_file()


def test_find_walks_up(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    inner = tmp_path / "device" / "deep"
    inner.mkdir()
    assert Workspace.find(inner).root == tmp_path


def test_no_workspace_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in a workspace") as caught:
        Workspace.find(tmp_path)
    assert "tpulayer init" in caught.value.hint


def test_the_environment_names_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_workspace(tmp_path / "w")
    monkeypatch.chdir("/")
    monkeypatch.setenv("TPULAYER_WORKSPACE", str(tmp_path / "w"))
    assert Workspace.find().root == tmp_path / "w"
    monkeypatch.setenv("TPULAYER_WORKSPACE", str(tmp_path))
    with pytest.raises(UsageError, match="TPULAYER_WORKSPACE names"):
        Workspace.find()


def test_every_key_and_spelling() -> None:
    text = (
        "# a comment\n\nHOST_ARCH := aarch64   # why\nFIRMWARE_ARCH?=soc\n BMKERNEL_PATH = ../my kernels \n"
    )
    assert parse_config(text, FILE) == Config("aarch64", "soc", "../my kernels")
    assert parse_config("BMKERNEL_PATH =\n", FILE) == Config()


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("\nHOST_ARCH x86\n", 2, "KEY = VALUE"),
        ("HOST_ARCH = mips\n", 1, "HOST_ARCH = mips"),
        ("FIRMWARE_ARCH =\n", 1, "empty"),
        ("HOST_ARCH = x86\n\nHOST_ARCH = x86\n", 3, "first in line 1"),
        ("COLOUR = red\n", 1, "unknown key COLOUR"),
    ],
)
def test_what_cannot_be_understood_has_file_and_line(text: str, line: int, what: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_config(text, FILE)
    assert caught.value.message.startswith(f"{FILE}:{line}: ")
    assert what in str(caught.value)


_VALUES = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="/._- "), max_size=30
)


@given(
    _VALUES.map(str.strip), st.sampled_from(["", "# c\n", "BMKERNEL_PATH = old # c\n", "HOST_ARCH = x86\n"])
)
def test_what_is_written_is_read_back(value: str, before: str) -> None:
    text = edit_config(before, {"BMKERNEL_PATH": value})
    assert parse_config(text, FILE).bmkernel_path == (value or None)
    assert ("# c" in text) == ("# c" in before)  # comments stay
    assert edit_config(text, {"BMKERNEL_PATH": value}) == text


def test_set_config_changes_one_line(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path, config="# mine\nHOST_ARCH = x86\nBMKERNEL_PATH =\n")
    assert ws.set_config(BMKERNEL_PATH="../k")
    assert ws.config_file.read_text() == "# mine\nHOST_ARCH = x86\nBMKERNEL_PATH = ../k\n"
    assert not ws.set_config(BMKERNEL_PATH="../k")
    with pytest.raises(SourceError):
        ws.set_config(HOST_ARCH="vax")
    assert "HOST_ARCH = x86" in ws.config_file.read_text()


def test_a_bmkernel_path_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        _ = make_workspace(tmp_path / "a", config="BMKERNEL_PATH = nowhere\n").bmkernel
    (tmp_path / "b" / "empty").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"no device/\*\.c"):
        _ = make_workspace(tmp_path / "b", config="BMKERNEL_PATH = empty\n").bmkernel


def test_a_configuration_in_the_root(tmp_path: Path) -> None:
    root = tmp_path / "w"
    (root / "device").mkdir(parents=True)
    (root / "Makefile.config").write_text("FIRMWARE_ARCH ?= soc  # mine\n")
    ws = Workspace.find(root / "device")
    assert ws.root == root and ws.config == Config("x86", "soc", None)
    assert ws.config_files == (ws.config_file,) == (root / "Makefile.config",)
    assert ws.set_config(FIRMWARE_ARCH="pcie", BMKERNEL_PATH="../k")
    assert ws.config_file.read_text() == "FIRMWARE_ARCH ?= pcie  # mine\nBMKERNEL_PATH = ../k\n"
    (root / "device").rename(root / "src")  # another project's Makefile.config makes no workspace
    with pytest.raises(UsageError, match="not in a workspace"):
        Workspace.find(root)


def test_two_configurations(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path, config="HOST_ARCH = x86\nBMKERNEL_PATH =\n")
    other = tmp_path / "Makefile.config"
    other.write_text("\nHOST_ARCH ?= x86\nFIRMWARE_ARCH ?= pcie\nBMKERNEL_PATH = ../k\n")
    assert Workspace(tmp_path).config == Config("x86", "pcie", "../k")
    assert ws.set_config(HOST_ARCH="aarch64", FIRMWARE_ARCH="soc")  # each where it stands
    assert ws.config_file.read_text() == "HOST_ARCH = aarch64\nBMKERNEL_PATH =\n"
    assert other.read_text() == "\nHOST_ARCH ?= aarch64\nFIRMWARE_ARCH ?= soc\nBMKERNEL_PATH = ../k\n"
    other.write_text("\nHOST_ARCH = x86\n")
    with pytest.raises(SourceError) as caught:
        _ = Workspace(tmp_path).config
    assert caught.value.message == (f"{other}:2: HOST_ARCH = x86, but {ws.config_file}:1 says aarch64")


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert write_if_changed(path, "a")
    before = path.stat()
    assert not write_if_changed(path, b"a")
    assert path.stat() == before
    write_atomic(path, b"b")
    assert path.read_bytes() == b"b"
    assert path.stat().st_ino != before.st_ino  # readers of the old file keep it
    path.chmod(0o750)
    os.utime(path, ns=(1, 10**18))
    replace_copy(path, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mtime_ns == 10**18
    assert (tmp_path / "copy").stat().st_mode == path.stat().st_mode
    assert sorted(p.name for p in path.parent.iterdir()) == ["file"]
