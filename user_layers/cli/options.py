"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from firmware_sim.firmware.image import Kind

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

Gdb = Annotated[
    bool,
    typer.Option("--gdb", help="Run it in gdb, stopped at the kernel's first line; see docs/debugging.md."),
]
GdbCommand = Annotated[
    list[str] | None,
    typer.Option(
        "--gdb-command",
        metavar="TEXT|FILE",
        help="With --gdb: a command for gdb, or a file of some, for when it has stopped; several in order.",
    ),
]
GdbPort = Annotated[
    int | None,
    typer.Option(
        "--gdb-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Instead of --gdb: a gdb connects to this port of this machine; 0: a free one, which is told.",
        show_default=False,
    ),
]


InGdb = Callable[["Kind", Sequence[str]], AbstractContextManager[None]]


def in_gdb(gdb: bool, commands: list[str] | None, port: int | None) -> InGdb | None:
    """What makes the block in which devices run in gdb, given the kind of their firmware and the functions to
    stop at; None where nobody asks for it. UsageError for words that do not go together."""
    from firmware_sim.device.debugging import Choice, debugging
    from firmware_sim.errors import UsageError

    if gdb and port is not None:
        raise UsageError(
            "--gdb and --gdb-port: one of them", hint="with --gdb-port a gdb of your own connects"
        )
    if commands and not gdb:
        raise UsageError("--gdb-command without --gdb", hint="add --gdb")
    if not gdb and port is None:
        return None
    return lambda kind, names: debugging(Choice(kind, tuple(names), tuple(commands or ()), port))


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
