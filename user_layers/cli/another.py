"""Running another command of this tool, or a Python file, for those that look at what it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from firmware_sim.errors import TpulayerError, UsageError

_LOOKING = ("profile", "step", "verify")  # each traces what runs, and only one of them can


def run_another(words: Sequence[str], own: str) -> int:
    """Its exit code; that it failed is told on stderr, and ends nothing: it is often why somebody looks.

    words: a command's name or a Python file, and its arguments. own: the command that looks; none that
    does can be run inside it. UsageError for that, and for a file that is not there.
    """
    from user_layers.cli import main

    if words[0] in _LOOKING:
        raise UsageError(f"{own} {words[0]}", hint=f"name the command that {own} is to look at")
    code = main.run(words) if not words[0].endswith(".py") else _file(words)
    if code:
        typer.echo(f"{words[0]} ended with exit code {code}", err=True)
    return code


def _file(words: Sequence[str]) -> int:
    import runpy

    from user_layers.cli.main import complain

    if not Path(words[0]).is_file():
        raise UsageError(f"there is no file {words[0]}")
    before, sys.argv = sys.argv, list(words)
    try:
        runpy.run_path(words[0], run_name="__main__")
    except TpulayerError as error:
        complain(error.message, error.hint)
        return error.exit_code
    except Exception:
        import traceback

        traceback.print_exc()
        return 1
    except SystemExit as end:
        if isinstance(end.code, str):
            typer.echo(end.code, err=True)
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.argv = before
    return 0
