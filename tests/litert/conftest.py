"""These tests import LiteRT, which not everybody has: their files are read only when -m names them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if "litert" in re.findall(r"\w+", config.option.markexpr) else True
