"""What editors read of a workspace and of a single kernel: each source compiles as they are told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.workspaces import built_copy, tpulayer
from user_layers.toolchain.compile_commands import NAME
from user_layers.toolchain.targets import build_layers
from user_layers.workspace import Workspace

KERNEL = '#include "okk.h"\nvoid nothing(const void *args) { (void)args; }\nOKKERNEL_FUNC_REGISTER(nothing)\n'


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_copy(tmp_path_factory, tmp_path_factory.mktemp("commands") / "ws")


def entries_of(path: Path) -> dict[str, dict[str, Any]]:
    return {entry["file"]: entry for entry in json.loads(path.read_text())}


def check_compiles(entry: dict[str, Any]) -> None:
    done = subprocess.run(
        [*entry["arguments"], "-fsyntax-only"],
        cwd=entry["directory"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_source_of_a_workspace(ws: Workspace) -> None:
    entries = entries_of(ws.root / NAME)
    assert set(entries) == {
        "device/bm_device_double.c",
        "generated/bmtpu_device_entry.c",
        "host/bm_host_double.cpp",  # which the host entry includes
        "generated/bmtpu_host_entry.cpp",
    }
    for entry in entries.values():
        assert entry["directory"] == str(ws.root)
        check_compiles(entry)


def test_a_build_writes_it_again_when_it_is_gone(ws: Workspace) -> None:
    before = (ws.root / NAME).read_text()
    assert build_layers(ws).nothing_to_do
    (ws.root / NAME).unlink()
    build_layers(ws)
    assert (ws.root / NAME).read_text() == before


def test_a_single_kernel(tmp_path: Path) -> None:
    (tmp_path / "nothing.c").write_text(KERNEL)
    tpulayer("run_kernel", "--kernel", "nothing.c", "--name", "nothing", cwd=tmp_path)
    entries = entries_of(tmp_path / NAME)
    assert list(entries) == [str(tmp_path / "nothing.c")]
    check_compiles(entries[str(tmp_path / "nothing.c")])


def test_a_kernel_inside_a_workspace_leaves_its_file(ws: Workspace) -> None:
    (ws.root / "kernels").mkdir()
    (ws.root / "kernels" / "nothing.c").write_text(KERNEL)
    before = (ws.root / NAME).read_text()
    tpulayer("run_kernel", "--kernel", "kernels/nothing.c", "--name", "nothing", cwd=ws.root)
    assert not (ws.root / "kernels" / NAME).exists()
    assert (ws.root / NAME).read_text() == before
