"""The programs in examples/ run, in a workspace of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.workspaces import built_demo


def _run(command: list[str], cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BMCOMPILER_", "BMRUNTIME_"))}
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=840
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_demo(tmp_path_factory, tmp_path_factory.mktemp("examples") / "work").root


def test_photo(workspace: Path) -> None:
    out = _run([sys.executable, str(ROOT / "examples" / "photo.py"), "pictures"], workspace)
    assert out.count("equals numpy bit for bit") == 2
    for name in ("before", "static", "dynamic"):
        picture = (workspace / "pictures" / f"{name}.jpg").read_bytes()
        assert picture.startswith(b"\xff\xd8"), name
