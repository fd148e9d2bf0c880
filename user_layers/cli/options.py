"""Options that several commands share."""

from __future__ import annotations

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


def for_devices(limit: float | None, warnings: str | None = None) -> None:
    """Make what was given that of every device opened from here on. Raises UsageError."""
    from firmware_sim.device import kernel_warnings, time_limit

    time_limit.choose(limit)
    kernel_warnings.choose(warnings)
