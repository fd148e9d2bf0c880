"""`tpulayer`: finds the command in the table, runs it, and turns errors into messages and exit codes.

Exit codes: 0 ok, 1 the check found something, 2 usage, 3 the environment lacks something, 4 an
internal error, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from firmware_sim import variables
from firmware_sim.errors import MissingError, TpulayerError, folder_is_gone, system_error
from firmware_sim.suggest import did_you_mean
from user_layers import __version__
from user_layers.cli import streams
from user_layers.commands import COMMANDS, GROUPS, Command, find

INTERRUPTED = 130
INTERNAL = 4
ENVIRONMENT = 3
USAGE = 2


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command line and exit with its code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        streams.prepare()
    except Exception as error:
        code = _failed(error)
    else:
        code = run(words)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # `tpulayer ... | head`: nobody reads on
        streams.discard_output()
    except OSError as error:
        streams.discard_output()
        code = code or _failed(error)
    sys.exit(code)


def run(words: Sequence[str]) -> int:
    """Run one command line; its exit code. Nothing escapes but SystemExit of a caller's own making."""
    try:
        return _dispatch(words)
    except TpulayerError as error:
        complain(error.message, error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    except Exception as error:
        return _failed(error)


def help_text() -> str:
    """What `tpulayer --help` prints, made from the table of commands."""
    lines = [
        "Usage: tpulayer COMMAND [ARGUMENTS]",
        "",
        "Write custom layers for the BM1684 in C; compile, emulate and check them without the chip.",
    ]
    width = max(len(name) for name in COMMANDS) + 2
    for title, group in GROUPS:
        lines += ["", f"{title}:"]
        lines += [f"  {command.name:{width}}{command.help}" for command in group]
    lines += [
        "",
        "Options:",
        f"  {'--help':{width}}this text; `tpulayer COMMAND --help` for one command",
        f"  {'--version':{width}}the version",
    ]
    return "\n".join(lines)


def complain(message: str, hint: str = "") -> None:
    """An error for the user, on stderr; the word `error` in red on a terminal."""
    stream = sys.stderr
    red = stream.isatty() and not os.environ.get("NO_COLOR")
    head = "\x1b[31;1merror:\x1b[0m" if red else "error:"
    print(f"{head} {message}", file=stream)
    if hint:
        from user_layers.cli.spelling import runnable

        print(f"  hint: {runnable(hint)}", file=stream)


def _dispatch(words: Sequence[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(help_text(), file=sys.stdout if words else sys.stderr)
        return 0 if words else USAGE
    if words[0] == "--version":
        print(f"tpulayer {__version__}")
        return 0
    if words[0] == "__complete":
        from user_layers.cli.completing import candidates

        print("\n".join(candidates(words[1:])))
        return 0
    command = find(words[0])
    if command is None:
        complain(_unknown(words[0]), "`tpulayer --help` lists the commands")
        return USAGE
    return _run_command(command, words[1:])


def _unknown(word: str) -> str:
    if word.startswith("-"):
        return f"unknown option {word}"
    return f"unknown command {word}{did_you_mean(word.replace('-', '_'), COMMANDS)}"


def _run_command(command: Command, arguments: Sequence[str]) -> int:
    variables.check()
    if gone := folder_is_gone():
        raise MissingError(gone)
    function = command.function()
    if not arguments and len(function.__defaults__ or ()) == function.__code__.co_argcount:
        return function() or 0  # nothing to parse: spares a third of the time of a build with nothing to do

    import typer

    from user_layers.cli.adapter import click_command, with_two_dashes

    runner = click_command(command)
    if command.one_dash:
        arguments = with_two_dashes(arguments)
    try:
        result = runner.main(
            args=list(arguments), prog_name=f"tpulayer {command.name}", standalone_mode=False
        )
    except typer.Abort:  # Ctrl-C or the end of input, as typer passes them on
        return INTERRUPTED
    except Exception as error:
        show = getattr(error, "format_message", None)  # typer's own complaints about arguments
        if show is None:
            raise
        complain(_argument_problem(error, show()), f"see `tpulayer {command.name} --help`")
        return USAGE
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _argument_problem(error: Exception, text: str) -> str:
    """What typer says of arguments, in this tool's words where it names an unknown option."""
    option = getattr(error, "option_name", "")
    if not text.startswith("No such option"):
        return text
    known = [*(getattr(error, "possibilities", None) or ()), "--help"]
    return f"unknown option {option}{did_you_mean(option, known)}"


def _failed(error: Exception) -> int:
    """An error that nothing nearer to it explained: the system refused something, or it should not happen."""
    refused = system_error(error)
    if not refused:
        return _internal(error)
    complain(refused, "look at the space that is left, permissions, and the limits of `ulimit -a`")
    return ENVIRONMENT


def _internal(error: Exception) -> int:
    """Something that should not happen: a short text, and the whole story in a file."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    words = " ".join(sys.argv)
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tpulayer-error-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(f"tpulayer {__version__}, Python {sys.version}\n{words}\n\n{text}")
        where = f"the full report is in {file.name}"
    except OSError:
        where = text
    complain(f"internal error: {type(error).__name__}: {error}", where)
    return INTERNAL


if __name__ == "__main__":
    main()
