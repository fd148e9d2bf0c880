"""The command that shows what was kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def repro(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that --save-repro made.")],
) -> int:
    """Show again what --save-repro has kept: build the layers in DIR, run the same command on the same data.

    The exit code is that of the command, so the one it had at first while nothing is mended; change the
    sources in DIR/files and run it again to see whether they are.
    """
    from user_layers.repro import replay

    return replay(folder, lambda text: typer.echo(text, err=True))
