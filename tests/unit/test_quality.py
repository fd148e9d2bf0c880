"""Lint, format, strict types and floors, as part of the one test command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT


@pytest.mark.parametrize(
    "tool", ["ruff check .", "ruff format --check .", "mypy"], ids=lambda t: str(t).replace(" ", "-")
)
def test_quality(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *tool.split()], cwd=ROOT, capture_output=True, text=True, timeout=840
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_floors() -> None:
    """Imports point down only: see docs/architecture.md."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(linter)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
