"""These tests import PyTorch, which takes seconds: their files are read only when -m names them."""

from __future__ import annotations

import re
import warnings
from functools import cache
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if "executorch" not in re.findall(r"\w+", config.option.markexpr):
        return True
    _import()
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What these packages warn of is theirs."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@cache
def _import() -> None:
    """Import the packages before any test does, for they warn of each other; tests say if one is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import executorch.devtools
            import executorch.exir
            import executorch.extension.pybindings.portable_lib  # noqa: F401
        except ImportError:
            pass
