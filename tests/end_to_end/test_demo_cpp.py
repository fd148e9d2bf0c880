"""test_tpu_layer in C++, built by build_layers against libbmcompiler.so and libbmrt.so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.workspaces import built_copy, environment, tpulayer
from user_layers.scaffold.workspace import DEMO_PROGRAM
from user_layers.workspace import Workspace


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Built before it had the program, and again with it."""
    made = built_copy(tmp_path_factory, tmp_path_factory.mktemp("w"), ("crop", "double"))
    made.test_dir.mkdir()
    shutil.copy(ROOT / DEMO_PROGRAM, made.test_dir)
    tpulayer("build_layers", cwd=made.root)
    return made


@pytest.mark.parametrize(
    ("mode", "folder", "runs"), [("0", "tpulayer_static", 1), ("1", "tpulayer_dynamic", 4)]
)
def test_both_modes(ws: Workspace, mode: str, folder: str, runs: int) -> None:
    done = run(ws, mode)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equals the host's bit for bit") == runs
    assert "TPU(CROP)" in done.stderr and "TPU(DOUBLE)" in done.stderr
    names = {p.name for p in (ws.root / folder).iterdir()}
    assert names - {"compilation.sites.npz"} == {
        "compilation.bmodel",
        "input_ref_data.dat",
        "output_ref_data.dat",
    }
    said = tpulayer("bmrt_test", "--context_dir", folder, cwd=ws.root).stdout
    assert "+++ The network[tpulayer] stage[0] cmp success +++" in said


def test_the_library_knows_the_workspace_that_it_is_installed_in(ws: Workspace, tmp_path: Path) -> None:
    """In another folder; the firmware to run it with is told by name there."""
    done = run(ws, "0", cwd=tmp_path, BMRUNTIME_FIRMWARE_PATH=str(ws.firmware))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "tpulayer_static" / "compilation.bmodel").exists()


def test_its_words(ws: Workspace) -> None:
    done = run(ws, "2")
    assert done.returncode == 2 and "usage: test_tpu_layer_cpp 0|1" in done.stderr


def run(ws: Workspace, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ws.install_dir / "test" / DEMO_PROGRAM.stem, *words],
        cwd=cwd or ws.root,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
