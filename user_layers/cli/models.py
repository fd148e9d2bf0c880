"""Commands about models of other frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from user_layers.cli.options import TimeLimit, for_devices


def compile(
    model: Annotated[
        Path,
        typer.Argument(help="A file: .onnx, .tflite, .pt2, .ms, .mindir or .prototxt.", metavar="MODEL"),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    weight: Annotated[
        Path | None,
        typer.Option("--weight", help="FILE.caffemodel of a .prototxt, if it is not called as that."),
    ] = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="Any shapes up to the given ones.")] = False,
    shapes: Annotated[
        list[str] | None, typer.Option("--shapes", help="INPUT=1x3x224x224; may be given several times.")
    ] = None,
    stages: Annotated[
        list[str] | None,
        typer.Option("--stage", help="INPUT=4x3x224x224[,INPUT=...]: a further set of input shapes."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Of the net; the file's, if it is left out.")] = "",
    opt: Annotated[
        int, typer.Option("--opt", min=0, max=2, help="0: every layer alone; 1: cheap groups; 2: by cycles.")
    ] = 2,
    custom: Annotated[
        list[str] | None,
        typer.Option("--map", help="NODE=TPU_OP or NODE=FILE.py:FUNCTION: layers of your own for a node."),
    ] = None,
    cpu: Annotated[
        bool, typer.Option("--cpu/--no-cpu", help="Run what no layer computes on onnxruntime.")
    ] = True,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Compare with onnxruntime.")] = True,
    report: Annotated[
        bool, typer.Option("--report", help="Also write what became of every layer, and a picture.")
    ] = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also write each layer as a net of its own, for `pack`.")
    ] = False,
    time_limit: TimeLimit = None,
) -> int:
    """Compile a model into a bmodel, and compare it with onnxruntime on random inputs."""
    from user_layers.formats import in_onnx
    from user_layers.onnx.command import CompileOptions, parse_shapes, run

    for_devices(time_limit)
    proto, source = in_onnx(model, weight=weight, shapes=parse_shapes(shapes or ()))
    options = CompileOptions(
        model,
        out,
        dynamic,
        tuple(shapes or ()),
        opt,
        tuple(custom or ()),
        check=check,
        report=report,
        cpu=cpu,
        stages=tuple(stages or ()),
        name=name,
        layers=layers,
        proto=proto if source is not None else None,
        source=source,
    )
    return 0 if run(options, typer.echo) else 1
