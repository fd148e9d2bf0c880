"""`tpulayer executorch`: PyTorch modules compiled for ExecuTorch, and run with the TPU."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from user_layers.cli.options import TimeLimit, for_devices


class Action(str, Enum):
    """What `tpulayer executorch` does: its first word."""

    COMPILE = "compile"
    RUN = "run"


def executorch(
    action: Annotated[
        Action, typer.Argument(help="compile FILE.py:FUNCTION -o OUT.pte; run FILE.pte", metavar="ACTION")
    ],
    what: Annotated[
        str, typer.Argument(help="FUNCTION gives a module and its example inputs; or a .pte file.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="compile: the file to write.", show_default=False)
    ] = None,
    operators: Annotated[
        list[str] | None,
        typer.Option("--operator", help="compile: give only these to the TPU (aten.add.Tensor, add)."),
    ] = None,
    custom: Annotated[
        list[str] | None, typer.Option("--map", help="compile: NAMESPACE::OPERATOR=TPU_LAYER.")
    ] = None,
    opt: Annotated[
        int, typer.Option("--opt", min=0, max=2, help="compile: 0, 1 or 2, as of `tpulayer compile`.")
    ] = 2,
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="compile: nets that take smaller shapes too.")
    ] = False,
    xnnpack: Annotated[
        bool, typer.Option("--xnnpack", help="compile: give what stays to XNNPACK, where that takes it.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="compile: a file for why operations stay.")
    ] = None,
    given: Annotated[
        Path | None, typer.Option("--input", help="run: an .npz file with the inputs; else random ones.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="run: an .npz file to write the outputs to.")
    ] = None,
    time_limit: TimeLimit = None,
) -> None:
    """ExecuTorch with the TPU: compile a PyTorch module into a .pte file, or run one."""
    from firmware_sim.errors import UsageError
    from user_layers.executorch.command import CompileOptions, compile_program, run_program

    for_devices(time_limit)
    if action is Action.RUN:
        run_program(Path(what), given, output, typer.echo)
        return
    if out is None:
        raise UsageError("executorch compile needs the file to write", hint="-o OUT.pte")
    options = CompileOptions(
        what, out, tuple(operators or ()), tuple(custom or ()), opt, dynamic, 0, xnnpack, report
    )
    compile_program(options, typer.echo)
