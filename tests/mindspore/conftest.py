"""These tests run MindSpore Lite itself, which is fetched (169 MB): only when -m names them."""

from __future__ import annotations

import pytest

from firmware_sim.errors import MissingError
from user_layers.mindspore.programs import Programs, build_programs
from user_layers.mindspore.wheel import find_runtime


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The runtime with the delegate; skipped with the reason where it cannot be had."""
    try:
        return build_programs(find_runtime())
    except MissingError as error:
        pytest.skip(f"MindSpore Lite: {error.message}")
