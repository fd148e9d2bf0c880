"""Fixtures that several test modules share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import firmware_harness


@pytest.fixture(scope="session")
def firmware_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware.so with the tests' kernels and layers (tests/firmware_fixture.c)."""
    return firmware_harness.build(tmp_path_factory.mktemp("firmware"))
