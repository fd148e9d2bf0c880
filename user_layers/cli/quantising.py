"""Commands about nets in 8-bit integers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from user_layers.cli.models import Custom, Model, Shapes, Weight
from user_layers.cli.options import TimeLimit, for_devices

Data = Annotated[
    Path, typer.Option("--data", help="Samples: a folder, .npz (an array for each input) or .npy.")
]


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
    time_limit: TimeLimit = None,
) -> None:
    """Run a model in float on samples and write which values each tensor takes, for `compile --int8`."""
    from user_layers.cli.progress import Progress
    from user_layers.formats import in_onnx
    from user_layers.onnx.command import parse_shapes
    from user_layers.onnx.int8 import CalibrateOptions, run_calibrate

    for_devices(time_limit)
    proto, source = in_onnx(model, weight=weight, shapes=parse_shapes(shapes or ()))
    options = CalibrateOptions(model, data, out, method, vendor, tuple(shapes or ()), tuple(custom or ()))
    with Progress() as progress:

        def say(line: str) -> None:
            progress.done()
            typer.echo(line)

        run_calibrate(options, proto, source, say, progress.step)
