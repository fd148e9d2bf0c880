"""Options that several commands share."""

from __future__ import annotations

import os
from typing import Annotated

import typer

TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="How long a kernel or a layer may run; 60, or what TPULAYER_TIME_LIMIT says; 0 for any time.",
        show_default=False,
    ),
]
Warnings = Annotated[
    str | None,
    typer.Option(
        "--warnings",
        help="Of kernels that break a rule which nothing enforces: show (usual), error or ignore.",
    ),
]


def choose_warnings(mode: str | None) -> None:
    """Make a mode that was given the one of every device opened from here on. Raises UsageError."""
    if mode is not None:
        from firmware_sim.device.kernel_warnings import VARIABLE, chosen

        os.environ[VARIABLE] = chosen(mode)
