"""Options about pictures, which several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Mean = Annotated[
    str | None,
    typer.Option("--mean", metavar="M0,M1,M2", help="Of pictures, for each channel: (x - mean) * scale."),
]
Scale = Annotated[
    str | None, typer.Option("--scale", metavar="S0,S1,S2", help="Of pictures, for each channel.")
]
PixelFormat = Annotated[
    str | None, typer.Option("--pixel-format", help="rgb, bgr or gray: what the model was trained with.")
]
ResizeDims = Annotated[
    str | None,
    typer.Option("--resize-dims", metavar="H,W", help="Pictures are resized to it, and their middle taken."),
]
KeepAspectRatio = Annotated[
    bool, typer.Option("--keep-aspect-ratio", help="Pictures are not stretched, but get bars.")
]
PadValue = Annotated[int | None, typer.Option("--pad-value", help="Of the bars; 0.", show_default=False)]
PadType = Annotated[
    str | None,
    typer.Option("--pad-type", help="Bars around (center) or behind (normal).", show_default=False),
]
ChannelFormat = Annotated[
    str | None,
    typer.Option("--channel-format", help="nchw or nhwc: the model's input, where its shape leaves it open."),
]
