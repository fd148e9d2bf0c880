"""From a command's function to something that typer can run; used for running and for completion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer

from user_layers.commands import Command

_SETTINGS = {
    "help_option_names": ["--help", "-h"],
    "token_normalize_func": lambda word: word.replace("_", "-"),  # --context-dir is --context_dir
}


def click_command(command: Command) -> Any:
    """The command as typer sees it: `main(args=...)` runs it, `params` lists its options and arguments."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    settings = {**_SETTINGS, "allow_interspersed_args": not command.rest}
    app.command(name=command.name, context_settings=settings)(command.function())
    return typer.main.get_command(app)


def with_two_dashes(words: Sequence[str]) -> list[str]:
    """A command's words with two dashes before each option that has one, or the dash that manuals print."""
    return [re.sub(r"^(?:[\u2013\u2014]|-(?=[A-Za-z]\w|[A-Za-z]=))(?=\w)", "--", word) for word in words]
