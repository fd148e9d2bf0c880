"""The command that steps through what ran."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firmware_sim.errors import TpulayerError, UsageError
from user_layers.cli.another import run_another

if TYPE_CHECKING:
    from user_layers.stepper.session import Session

_KEPT = 8  # requests whose memories are kept, where nobody says which
_PROMPT = "(step) "


def step(
    words: Annotated[
        list[str],
        typer.Argument(
            help="A command of tpulayer with its words, or a Python file: what it runs is stepped through.",
            show_default=False,
            metavar="COMMAND...",
        ),
    ],
    execute: Annotated[
        list[str] | None,
        typer.Option("-x", "--execute", help="A command of the stepper, instead of asking; several times."),
    ] = None,
    request: Annotated[
        int | None,
        typer.Option(
            "--request", min=0, help="Which launch, from 0; usually the first that fails, or the first."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="With --execute: print one JSON object.")] = False,
) -> int:
    """Run a command, then walk through the commands that its kernels issued: forth, back, up to a line.

    For example `tpulayer step run_kernel --kernel fill.c --name fill ...`, `tpulayer step test crop`.
    """
    from firmware_sim.device.trace import traced
    from user_layers.stepper.session import Session, first_wrong

    if json and not execute:
        raise UsageError("--json without --execute", hint="add -x 'until crop.c:17' or the like")
    with traced(memories=range(_KEPT) if request is None else (request,)) as trace:
        code = run_another(words, "step")
    if request is not None and request >= len(trace.requests):
        raise UsageError(f"--request {request}: there are {len(trace.requests)}, counted from 0")
    wrong = first_wrong(trace.requests)
    if request is None and wrong is not None and wrong >= _KEPT:
        typer.echo(f"once more, to keep the memories of request {wrong}, which is wrong", err=True)
        with traced(memories=(wrong,)) as trace:
            run_another(words, "step")
    session = Session(trace.requests)
    if code and wrong is None:
        typer.echo("none of its launches failed: what is wrong came before or behind them", err=True)
    if execute:
        return _executed(session, execute, as_json=json)
    _asked(session)
    return 0


def _executed(session: Session, lines: list[str], *, as_json: bool) -> int:
    answers: list[dict[str, Any]] = []
    try:
        for line in lines:
            text = session.do(line)
            if text is None:
                break
            answers.append({"command": line, "position": session.replay.position, "text": text})
            if not as_json:
                typer.echo(text)
    finally:  # also of a line that cannot be carried out: what was answered before it
        if as_json:
            from json import dumps

            replay = session.replay
            about = {"number": session.number, "what": replay.request.what, "commands": len(replay)}
            typer.echo(dumps({"command": "step", "request": about, "answers": answers}, indent=2))
    return 0


def _asked(session: Session) -> None:
    """Line by line, from a terminal or from a pipe, until there are no more."""
    terminal = sys.stdin.isatty()
    if terminal:
        import contextlib

        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # input() then has a history
        typer.echo("`help` lists what can be done here; an empty line does the last thing again")
    typer.echo(session.do("where"))
    last = ""
    while True:
        try:
            line = input(_PROMPT if terminal else "").strip()
        except EOFError:
            return
        last = line or last
        try:
            text = session.do(last)
        except TpulayerError as error:
            from user_layers.cli.main import complain

            if not terminal:
                raise
            complain(error.message, error.hint)
            continue
        if text is None:
            return
        typer.echo(text)
