"""compile_commands.json: what is in it, and whose file it may replace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from user_layers.toolchain.compile_commands import NAME, write_commands
from user_layers.toolchain.compilers import Compiler
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.report import Reporter

CC = Compiler("gcc", "12", ("/usr/bin/cc",), ("ar",), ("-O2", "-g1"), (), "cc")
ARM = Compiler("zig", "1", ("/zig", "cc"), ("ar",), ("-O2",), (), "zig")


def ninja_of(root: Path) -> NinjaFile:
    ninja = NinjaFile(root, root / "build")
    group = Objects(CC, [root / "a b.c"], [root / "inc"], "device", ["X=$1"], included=[root / "in.cpp"])
    ninja.objects(group)
    ninja.objects(Objects(ARM, [root / "a b.c"], [], "arm-device", after="device"))
    ninja.objects(Objects(CC, [root / "a b.c", Path("/other/c.c")], [], "again"))
    return ninja


def test_an_entry_for_each_file_as_this_machine_compiles_it(tmp_path: Path) -> None:
    entries = json.loads(ninja_of(tmp_path).compile_commands())
    assert [entry["file"] for entry in entries] == ["a b.c", "in.cpp", "/other/c.c"]
    assert {entry["directory"] for entry in entries} == {str(tmp_path)}
    flags = ["/usr/bin/cc", "-O2", "-g1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-DX=$1", "-Iinc"]
    assert entries[0]["arguments"] == [*flags, "-c", "a b.c"]
    assert entries[1]["arguments"] == [*flags, "-c", "in.cpp"]


def test_a_file_of_another_tool_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, said = Reporter(), list[str]()
    monkeypatch.setattr(report, "note", said.append)
    ninja, path = ninja_of(tmp_path), tmp_path / NAME
    for theirs in ('[{"directory": "/", "file": "x.c", "command": "cc -c x.c"}]', "not JSON", "{}"):
        path.write_text(theirs)
        write_commands(ninja, tmp_path, report)
        assert path.read_text() == theirs
    assert len(said) == 3 and str(path) in said[0] and "stays" in said[0]
    for ours in ("[]", ninja.compile_commands()):
        path.write_text(ours)
        write_commands(ninja, tmp_path, report)
        assert path.read_text() == ninja.compile_commands()
    assert len(said) == 3
