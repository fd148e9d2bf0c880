"""Commands about models of other frameworks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from user_layers.cli.options import TimeLimit, for_devices
from user_layers.cli.preprocessing import (
    ChannelFormat,
    KeepAspectRatio,
    Mean,
    PadType,
    PadValue,
    PixelFormat,
    ResizeDims,
    Scale,
)

if TYPE_CHECKING:
    from user_layers.evaluate.search import Target
    from user_layers.quantize.pictures import Preprocess, Words
    from user_layers.quantize.rewrite import Int8

Model = Annotated[
    Path,
    typer.Argument(help="A file: .onnx, .tflite, .pt2, .ms, .mindir or .prototxt.", metavar="MODEL"),
]
Weight = Annotated[
    Path | None,
    typer.Option("--weight", help="FILE.caffemodel of a .prototxt, if it is not called as that."),
]
Shapes = Annotated[
    list[str] | None, typer.Option("--shapes", help="INPUT=1x3x224x224; may be given several times.")
]
Custom = Annotated[
    list[str] | None,
    typer.Option("--map", help="NODE=TPU_OP or NODE=FILE.py:FUNCTION: layers of your own for a node."),
]

Table = Annotated[Path | None, typer.Option("--int8", help="A calibration table: the net in 8-bit integers.")]
Fp32 = Annotated[
    list[str] | None,
    typer.Option("--fp32", help="LAYER[,LAYER...] that stay in fp32, by names of layers or tensors."),
]


def explain(
    model: Model,
    weight: Weight = None,
    shapes: Shapes = None,
    custom: Custom = None,
    int8: Table = None,
    fp32: Fp32 = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    time_limit: TimeLimit = None,
) -> None:
    """Say of a model, without compiling it, which operations run on the TPU and which on the CPU, why, and
    how to add the layers that are missing; with --int8 also which layers would stay in fp32, and why."""
    from user_layers.formats import in_onnx
    from user_layers.onnx.command import ExplainOptions, explain_model, parse_shapes

    for_devices(time_limit)
    proto, source = in_onnx(model, weight=weight, shapes=parse_shapes(shapes or ()))
    asked = _int8(int8, fp32)
    options = ExplainOptions(model, tuple(shapes or ()), tuple(custom or ()), json, asked)
    explain_model(options, proto, source, typer.echo)


def compile(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    weight: Weight = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="Any shapes up to the given ones.")] = False,
    shapes: Shapes = None,
    stages: Annotated[
        list[str] | None,
        typer.Option("--stage", help="INPUT=4x3x224x224[,INPUT=...]: a further set of input shapes."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Of the net; the file's, if it is left out.")] = "",
    opt: Annotated[
        int, typer.Option("--opt", min=0, max=2, help="0: every layer alone; 1: cheap groups; 2: by cycles.")
    ] = 2,
    custom: Custom = None,
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
    int8: Table = None,
    fp32: Fp32 = None,
    quant_input: Annotated[
        bool, typer.Option("--quant-input", help="Inputs of the net are integers.")
    ] = False,
    quant_output: Annotated[
        bool, typer.Option("--quant-output", help="Outputs of the net are integers.")
    ] = False,
    no_equalise: Annotated[
        bool, typer.Option("--no-equalise", help="Channels keep their sizes before they are quantised.")
    ] = False,
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            help="DB of signal over noise, or top1:PERCENT of the samples as in float: keep layers in fp32 "
            "until it is reached.",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Samples for --search.")] = None,
    mean: Mean = None,
    scale: Scale = None,
    pixel_format: PixelFormat = None,
    resize_dims: ResizeDims = None,
    keep_aspect_ratio: KeepAspectRatio = False,
    pad_value: PadValue = None,
    pad_type: PadType = None,
    channel_format: ChannelFormat = None,
    fuse_preprocess: Annotated[
        bool, typer.Option("--fuse-preprocess", help="The net takes uint8 pictures, and does this itself.")
    ] = False,
    customization_format: Annotated[
        str | None,
        typer.Option(
            "--customization-format",
            help="Of these: RGB_PACKED, RGB_PLANAR, BGR_PACKED, BGR_PLANAR or GRAYSCALE.",
        ),
    ] = None,
    time_limit: TimeLimit = None,
) -> int:
    """Compile a model into a bmodel, and compare it with onnxruntime on random inputs."""
    from user_layers.cli.progress import Progress
    from user_layers.formats import in_onnx
    from user_layers.onnx.command import CompileOptions, parse_shapes, run
    from user_layers.onnx.load import Source
    from user_layers.onnx.preprocess import with_pictures
    from user_layers.quantize.pictures import Words
    from user_layers.testing.golden import WorkspaceGoldens

    for_devices(time_limit)
    words = Words(
        mean, scale, pixel_format, resize_dims, keep_aspect_ratio, pad_value, pad_type, channel_format
    )
    proto, source = in_onnx(model, weight=weight, shapes=parse_shapes(shapes or ()))
    asked = _int8(int8, fp32, quant_input, quant_output, no_equalise, search)
    target = _target(search, data)
    pictures = _pictures(words, asked, int8, fuse_preprocess, customization_format)
    if pictures is not None:
        proto, source = with_pictures(proto, source or Source.of(model), pictures)
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
        int8=asked,
        proto=proto if source is not None else None,
        source=source,
    )
    with Progress() as progress:

        def say(line: str) -> None:
            progress.done()
            typer.echo(line)

        if asked is not None and target is not None and data is not None:
            from user_layers.evaluate.command import searched

            found, line = searched(options, asked, data, target, proto, source, progress.step)
            say(line)
            options = replace(options, int8=found)
        return 0 if run(options, say, step=progress.step, goldens=WorkspaceGoldens) else 1


def _pictures(
    words: Words, asked: Int8 | None, table: Path | None, fuse: bool, customization: str | None
) -> Preprocess | None:
    """How pictures become the input, by the options and the table."""
    from firmware_sim.errors import UsageError
    from user_layers.quantize.pictures import fused

    told = words.told(None if asked is None else asked.table.pictures, f"the table {table}")
    if fuse:
        return fused(told, customization)
    if customization is not None:
        raise UsageError(
            "--customization-format without --fuse-preprocess", hint="it says what the net itself takes"
        )
    if told is not None and asked is None:
        raise UsageError(
            "nothing takes what is said of pictures",
            hint="--fuse-preprocess makes it part of the net, --int8 keeps it for `tpulayer evaluate`",
        )
    return told


def _int8(
    table: Path | None,
    fp32: list[str] | None,
    quant_input: bool = False,
    quant_output: bool = False,
    no_equalise: bool = False,
    search: str | None = None,
) -> Int8 | None:
    """What of 8-bit integers was said; without a table the model must bring scales of its own."""
    from user_layers.onnx.int8 import int8_of

    others = {
        "--fp32": fp32,
        "--quant-input": quant_input,
        "--quant-output": quant_output,
        "--no-equalise": no_equalise,
        "--search": search is not None,
    }
    option = next((option for option, given in others.items() if given), "")
    if table is None and not option:
        return None
    return int8_of(table, fp32 or (), quant_input, quant_output, not no_equalise, option)


def _target(search: str | None, data: Path | None) -> Target | None:
    """What --search shall reach."""
    from firmware_sim.errors import UsageError
    from user_layers.evaluate.search import Target

    if (search is None) != (data is None):
        raise UsageError("--search and --data go together", hint="--search 30 --data SAMPLES")
    return None if search is None else Target.of(search)
