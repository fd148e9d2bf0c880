"""What is made once in a run of the tests, whichever of its processes needs it first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from user_layers.toolchain.cache import locked


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder for all processes of a run: the first one makes its content, the others wait for that."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # which all workers have
    root = base / name
    with locked(root.with_suffix(".lock")):
        ready = root.with_suffix(".ready")
        if not ready.exists():
            root.mkdir()
            make(root)
            ready.touch()
    return root
