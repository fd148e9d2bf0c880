"""test_tpu_layer in C++, built by build_layers against libbmcompiler.so and libbmrt.so."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.workspaces import ROOT, environment, make_workspace, tpulayer
from user_layers.scaffold.workspace import DEMO_PROGRAM
from user_layers.workspace import Workspace


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Built before it had the program, and again with it."""
    made = make_workspace(tmp_path_factory.mktemp("w"), layers=("crop", "double"))
    tpulayer("build_layers", cwd=made.root)
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
    assert names == {"compilation.bmodel", "input_ref_data.dat", "output_ref_data.dat"}
    said = tpulayer("bmrt_test", "--context_dir", folder, cwd=ws.root).stdout
    assert "+++ The network[tpulayer] stage[0] cmp success +++" in said


def test_its_words(ws: Workspace) -> None:
    done = run(ws, "2")
    assert done.returncode == 2 and "usage: test_tpu_layer_cpp 0|1" in done.stderr


def run(ws: Workspace, *words: str) -> subprocess.CompletedProcess[str]:
    program = ws.install_dir / "test" / DEMO_PROGRAM.stem
    return subprocess.run(
        [program, *words],
        cwd=ws.root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
