"""The command for nets of Caffe's, under the vendor's name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from user_layers.cli.options import TimeLimit, for_devices


def bmnetu(
    model: Annotated[Path, typer.Option("--model", help="FILE.prototxt: the layers.")],
    weight: Annotated[
        Path | None,
        typer.Option("--weight", help="FILE.caffemodel: the weights; that beside the prototxt."),
    ] = None,
    target: Annotated[str, typer.Option("--target", help="BM1684.")] = "BM1684",
    shapes: Annotated[
        str, typer.Option("--shapes", help='Of the inputs, in their order: "[1,3,416,416],[1,10]".')
    ] = "",
    net_name: Annotated[str, typer.Option("--net_name", help="That of the file, if left out.")] = "",
    opt: Annotated[
        int, typer.Option("--opt", min=0, max=2, help="0: every layer alone; 1: cheap groups; 2: by cycles.")
    ] = 2,
    dyn: Annotated[
        str, typer.Option("--dyn", metavar="true|false", help="Any shapes up to the given ones.")
    ] = "false",
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            metavar="compile|check|summary",
            help="check: whether it can be compiled; summary: a table of the layers; both write nothing.",
        ),
    ] = "compile",
    max_n: Annotated[
        int | None, typer.Option("--max_n", min=1, help="The largest batch of a dynamic net.")
    ] = None,
    v: Annotated[int, typer.Option("--v", min=0, max=4, help="4 tells of each layer.")] = 0,
    outdir: Annotated[Path, typer.Option("--outdir", help="Folder to write.")] = Path("compilation"),
    cmp: Annotated[
        str, typer.Option("--cmp", metavar="true|false", help="Compare with onnxruntime.")
    ] = "true",
    prec: Annotated[str, typer.Option("--prec", help="FP32, or INT8 with --table.")] = "FP32",
    table: Annotated[
        Path | None, typer.Option("--table", help="What `tpulayer calibrate` wrote, for --prec INT8.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The summary as one JSON object.")] = False,
    time_limit: TimeLimit = None,
) -> int:
    """Compile a net of Caffe's into a bmodel, and compare it with onnxruntime on random inputs."""
    from user_layers.bmnetu import BmnetuOptions, run

    for_devices(time_limit)
    options = BmnetuOptions(
        model=model,
        weight=weight,
        target=target,
        shapes=shapes,
        net_name=net_name,
        opt=opt,
        dyn=dyn,
        mode=mode,
        max_n=max_n,
        v=v,
        outdir=outdir,
        cmp=cmp,
        prec=prec,
        table=table,
        json=json,
    )
    return 0 if run(options, typer.echo) else 1
