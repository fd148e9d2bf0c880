"""Commands for nets on a card: what to take there, and what comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def pack(
    net: Annotated[Path, typer.Argument(help="A folder that compiling wrote, or a bmodel.", metavar="NET")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    machine: Annotated[
        list[str] | None,
        typer.Option("--machine", help="x86_64 or aarch64; may be given twice. Both, if it is left out."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an older pack, with its results.")] = False,
) -> None:
    """Write one folder with all that a machine with a card needs to run a net and compare every bit."""
    from user_layers.card.pack import pack as write
    from user_layers.card.programs import MACHINES

    for line in write(net, out, machines=machine or tuple(MACHINES), force=force):
        typer.echo(line)


def compare(
    result: Annotated[
        Path, typer.Argument(help="A pack, the folder of its results, or result.json.", metavar="RESULT")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Say what a result from a card means: equal, or what differs first, how, and what to try.

    Exit code 1 when something differs, failed or was not run to the end.
    """
    from user_layers.card.explain import as_json, as_text, explain
    from user_layers.card.result import read_result

    found = explain(read_result(result))
    typer.echo(as_json(found) if json else as_text(found))
    return 0 if found.good else 1
