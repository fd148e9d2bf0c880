"""The lock of a workspace, for commands that change it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import typer


def alone(root: Path) -> AbstractContextManager[None]:
    """Let no other command change this workspace meanwhile; says on stderr when it waits for one."""
    from user_layers.toolchain.cache import workspace_locked

    return workspace_locked(root, lambda text: typer.echo(text, err=True))
