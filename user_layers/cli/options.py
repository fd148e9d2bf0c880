"""Options that several commands have."""

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
