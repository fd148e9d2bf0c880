"""Commands about this tool and machine."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from user_layers.cli.spelling import runnable


class Shell(str, Enum):
    """The shells that have a completion script."""

    bash = "bash"
    zsh = "zsh"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that the script is for.")]) -> None:
    """Print the completion script: `source <(tpulayer completion bash)`. envsetup.sh does this."""
    from user_layers.cli.completing import script

    typer.echo(script(shell.value), nl=False)


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Say what was found on this machine and what will be used.

    Exit code 3 when something required is missing.
    """
    from user_layers.toolchain.doctor import examine

    checks = examine()
    if json:
        from json import dumps

        good = all(check.state != "missing" for check in checks)
        typer.echo(dumps({"ok": good, "checks": [check.__dict__ for check in checks]}, indent=2))
    else:
        width = max(len(check.name) for check in checks) + 2
        for check in checks:
            typer.echo(f"{check.state:8} {check.name:{width}}{check.value}")
            if check.hint:
                typer.echo(f"{'':8} {'':{width}}hint: {runnable(check.hint)}")
    return 3 if any(check.state == "missing" for check in checks) else 0
