"""A sample of `python -m tests.failures`: calls to the system fail while a command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failures.commands import COMMANDS, Place
from tests.failures.sweep import Injector, sweep


@pytest.mark.parametrize(
    ("name", "kinds", "most"),
    [
        ("add_layer", ("write", "rename", "fsync"), 3),
        ("list_layers", ("malloc", "mmap"), 2),
        pytest.param("del_layer", ("unlink", "link", "lock", "create"), 4, marks=pytest.mark.slow),
    ],
)
def test_what_fails_leaves_the_old_state_or_the_new(
    name: str, kinds: tuple[str, ...], most: int, tmp_path: Path
) -> None:
    (command,) = (command for command in COMMANDS if command.name == name)
    said: list[str] = []
    place = Place(tmp_path, built=False)
    done = sweep(command, place, Injector(tmp_path), kinds, most, said.append)
    assert not done.findings, "\n".join(said)
    assert any(done.calls.values()), "nothing was made to fail"
    assert done.tried >= sum(count > 0 for count in done.calls.values())
