"""`tpulayer mindspore`: MindSpore Lite with the TPU as its delegate."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Action(str, Enum):
    """What `tpulayer mindspore` does: its first word."""

    SETUP = "setup"
    RUN = "run"


def mindspore(
    action: Annotated[
        Action, typer.Argument(help="setup; run MODEL.ms|MODEL.mindir|MODEL.onnx", metavar="ACTION")
    ],
    model: Annotated[Path | None, typer.Argument(help="A model of MindSpore Lite, or an ONNX file.")] = None,
    given: Annotated[
        Path | None,
        typer.Option("--input", help="run: an .npz file with the inputs by name; else random ones."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="run: an .npz file to write the outputs to.")
    ] = None,
    resize: Annotated[
        list[str] | None,
        typer.Option("--resize", help="run: INPUT=2x224x224x3, another shape; may be given several times."),
    ] = None,
    config: Annotated[
        str, typer.Option("--config", help="run: of the delegate, such as device=0,opt=2,dynamic=1.")
    ] = "",
    report: Annotated[
        bool, typer.Option("--report", help="run: also say which operations the framework keeps, and why.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="run: print one JSON object.")] = False,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="run: how often, for its time.")] = 1,
) -> int:
    """MindSpore Lite with the TPU: fetch and build what it needs, or run a model with and without the TPU."""
    from firmware_sim.errors import UsageError
    from user_layers.mindspore import command

    if action is Action.SETUP:
        if model is not None:
            raise UsageError(f"mindspore setup takes no further word, not {str(model)!r}")
        return command.setup(typer.echo)
    if model is None:
        raise UsageError("mindspore run needs a model", hint="see tpulayer mindspore --help")
    options = command.RunOptions(
        model, given, output, tuple(resize or ()), config, report=report, json=json, repeat=repeat
    )
    return command.run(options, typer.echo)
