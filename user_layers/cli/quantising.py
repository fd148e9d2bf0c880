"""Commands about nets in 8-bit integers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from user_layers.cli.models import Custom, Model, Shapes, Weight
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

Data = Annotated[
    Path, typer.Option("--data", help="Samples: a folder, .npz (an array for each input) or .npy.")
]

Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes.")]
Dask = Annotated[str, typer.Option("--dask", help="A Dask scheduler, tcp://HOST:PORT, whose workers do it.")]


def calibrate(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write.")],
    method: Annotated[
        str, typer.Option("--method", help="minmax, percentile (99.99), mse or entropy.")
    ] = "mse",
    vendor: Annotated[bool, typer.Option("--vendor", help="Write the vendor's text format.")] = False,
    weight: Weight = None,
    shapes: Shapes = None,
    custom: Custom = None,
    mean: Mean = None,
    scale: Scale = None,
    pixel_format: PixelFormat = None,
    resize_dims: ResizeDims = None,
    keep_aspect_ratio: KeepAspectRatio = False,
    pad_value: PadValue = None,
    pad_type: PadType = None,
    channel_format: ChannelFormat = None,
    time_limit: TimeLimit = None,
) -> None:
    """Run a model in float on samples and write which values each tensor takes, for `compile --int8`."""
    from user_layers.cli.progress import Progress
    from user_layers.formats import in_onnx
    from user_layers.onnx.command import parse_shapes
    from user_layers.onnx.int8 import CalibrateOptions, run_calibrate
    from user_layers.quantize.pictures import Words

    for_devices(time_limit)
    words = Words(
        mean, scale, pixel_format, resize_dims, keep_aspect_ratio, pad_value, pad_type, channel_format
    )
    proto, source = in_onnx(model, weight=weight, shapes=parse_shapes(shapes or ()))
    options = CalibrateOptions(
        model, data, out, method, vendor, tuple(shapes or ()), tuple(custom or ()), words.told()
    )
    with Progress() as progress:

        def say(line: str) -> None:
            progress.done()
            typer.echo(line)

        run_calibrate(options, proto, source, say, progress.step)


def evaluate(
    folder: Annotated[Path, typer.Argument(help="What `compile --int8` wrote.", metavar="MODEL_DIR")],
    data: Data,
    metric: Annotated[str, typer.Option("--metric", help="sqnr, cosine, top1 or FILE.py:FUNCTION.")] = "sqnr",
    layers: Annotated[bool, typer.Option("--layers", help="Say which layers add the noise.")] = False,
    jobs: Jobs = 1,
    dask: Dask = "",
    model: Annotated[
        Path | None, typer.Option("--model", help="Where the float model is now, if it was moved.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    mean: Mean = None,
    scale: Scale = None,
    pixel_format: PixelFormat = None,
    resize_dims: ResizeDims = None,
    keep_aspect_ratio: KeepAspectRatio = False,
    pad_value: PadValue = None,
    pad_type: PadType = None,
    channel_format: ChannelFormat = None,
    time_limit: TimeLimit = None,
) -> None:
    """Compare a net in 8-bit integers with the float net on samples, both on the emulator."""
    from user_layers.cases.hand_out import Where
    from user_layers.cli.progress import Progress
    from user_layers.evaluate.command import EvaluateOptions, run_evaluate
    from user_layers.quantize.pictures import Words

    for_devices(time_limit)
    words = Words(
        mean, scale, pixel_format, resize_dims, keep_aspect_ratio, pad_value, pad_type, channel_format
    )
    with Progress() as progress:

        def say(line: str) -> None:
            progress.done()
            typer.echo(line)

        options = EvaluateOptions(folder, data, metric, layers, Where(jobs, dask), model, json, words)
        run_evaluate(options, say, progress.step)
