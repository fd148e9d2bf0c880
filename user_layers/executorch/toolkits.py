"""One toolkit for each workspace, as long as the process lives: partitioning asks it many small things."""

from __future__ import annotations

import atexit
from collections.abc import Hashable
from functools import cache
from pathlib import Path

from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace


def toolkit_of(workspace: str) -> Toolkit:
    """The toolkit of a workspace; "" for the one around the current folder, if there is one."""
    found = Workspace.find(Path(workspace)) if workspace else Workspace.around()
    return _opened(str(found.root) if found is not None else "")


@cache
def remembered_of(toolkit: Toolkit) -> dict[Hashable, str | None]:
    """Verdicts that were found with a toolkit."""
    return {}


@cache
def _opened(root: str) -> Toolkit:
    toolkit = Toolkit(Path(root) if root else None)
    atexit.register(toolkit.close)
    return toolkit
