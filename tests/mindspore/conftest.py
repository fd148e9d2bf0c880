"""These tests run MindSpore Lite itself, which is fetched (169 MB): only when -m names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from firmware_sim.errors import MissingError
from tests.support.workspaces import outside_of_workspaces
from user_layers.mindspore.programs import Programs, build_programs
from user_layers.mindspore.wheel import find_runtime


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """The runtime with the delegate and the built-in layers; a skip says why it cannot be had."""
    with outside_of_workspaces(tmp_path_factory.mktemp("apart")):
        try:
            made = build_programs(find_runtime())
        except MissingError as error:
            pytest.skip(f"MindSpore Lite: {error.message}")
        yield made
