"""`tpulayer litert`: models for LiteRT compiled ahead, and run with the TPU."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from user_layers.cli.options import TimeLimit, for_devices


class Action(str, Enum):
    """What `tpulayer litert` does: its first word."""

    COMPILE = "compile"
    RUN = "run"
    PATHS = "paths"


def litert(
    action: Annotated[
        Action,
        typer.Argument(help="compile MODEL.tflite -o OUT.tflite; run MODEL.tflite; paths", metavar="ACTION"),
    ],
    model: Annotated[Path | None, typer.Argument(help="A .tflite file, compiled ahead or not.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="compile: the file to write.", show_default=False)
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="compile: also say which operations stay on the CPU, and why.")
    ] = False,
    opt: Annotated[
        int | None,
        typer.Option("--opt", min=0, max=2, help="compile: level of optimization (2).", show_default=False),
    ] = None,
    operations: Annotated[
        int | None,
        typer.Option("--operations", min=0, help="compile: the most in a partition.", show_default=False),
    ] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option("--shapes", help="compile: INPUT=4x224x224x3, where it is not what the file says."),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option("--input", help="run: an .npz file with the inputs by name; else random ones."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="run: an .npz file to write the outputs to.")
    ] = None,
    time_limit: TimeLimit = None,
) -> int:
    """Compile a .tflite file for LiteRT with the TPU, run one, or say where the libraries are."""
    from firmware_sim.errors import UsageError
    from user_layers.delegates import litert_command

    for_devices(time_limit)
    if action is Action.PATHS:
        if model is not None:
            raise UsageError(f"litert paths takes no further word, not {str(model)!r}")
        return litert_command.paths(typer.echo)
    if model is None:
        raise UsageError(f"litert {action.value} needs a .tflite file", hint="see tpulayer litert --help")
    if action is Action.COMPILE:
        if out is None:
            raise UsageError("litert compile needs the file to write", hint="-o OUT.tflite")
        return litert_command.compile(
            model, out, report, typer.echo, opt=opt, operations=operations, shapes=shapes or ()
        )
    return litert_command.run(model, given, output, typer.echo)
