"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
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
SaveRepro = Annotated[
    Path | None,
    typer.Option(
        "--save-repro",
        metavar="DIR",
        help="Where something is found: keep in DIR what shows it again (tpulayer repro).",
        show_default=False,
    ),
]
Check = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="WORDS",
        help="Checks while it runs: off, or some of memory,init,hazard,sync,numeric,waits,schedule with "
        "commas between; usually the first four. See docs/checking.md.",
        show_default=False,
    ),
]
Schedule = Annotated[
    bool,
    typer.Option("--schedule", help="Also execute commands in other legal orders: --check ...,schedule."),
]
CheckLimit = Annotated[
    int | None,
    typer.Option("--check-limit", metavar="N", help="Tell N findings in full; 10.", show_default=False),
]
Sarif = Annotated[
    Path | None,
    typer.Option("--sarif", metavar="FILE", help="Also write the findings of checks as SARIF 2.1.0."),
]


def for_devices(
    limit: float | None,
    warnings: str | None = None,
    check: str | None = None,
    check_limit: int | None = None,
    schedule: bool = False,
) -> None:
    """Make what was given that of every device opened from here on. Raises UsageError."""
    from firmware_sim.device import findings, kernel_warnings, time_limit

    time_limit.choose(limit)
    kernel_warnings.choose(warnings)
    findings.choose(check, check_limit, schedule=schedule)
