"""The command that tries layers on random cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from user_layers.cli.models import Shapes
from user_layers.cli.options import TimeLimit
from user_layers.cli.quantising import Dask, Jobs


def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LAYER...|FILE]",
            help="Layers, by their short names, or a model's file; none: all layers.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", metavar="60s|N", help="How long, or cases of each layer.")
    ] = "60s",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Other random cases.")] = 0,
    jobs: Jobs = 1,
    dask: Dask = "",
    values: Annotated[
        str,
        typer.Option("--values", help="What inputs may also hold: zeros, large, denormals, nan; or none."),
    ] = "zeros,large,denormals",
    check: Annotated[
        str, typer.Option("--check", metavar="WORDS", help="Checks while it runs, as of other commands.")
    ] = "memory,init,hazard,sync,schedule",
    time_limit: TimeLimit = None,
    shapes: Shapes = None,
    case: Annotated[
        Path | None, typer.Option("--case", help="Try this case only, which --save-repro has kept.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a report as JUnit's XML.")] = None,
    save_repro: Annotated[
        Path | None, typer.Option("--save-repro", metavar="DIR", help="Keep each counterexample there.")
    ] = None,
) -> int:
    """Try layers on random shapes, parameters, values and slicings, made of the cases in tests/test_NAME.py.

    For each: the global function beside golden, tiles in local memory, windows, dynamic nets, both firmwares,
    all checks, all orders of the engines; of a model's file random inputs beside onnxruntime, compiled in
    every way. What fails is made as small as possible. Exit code 1 when anything differs, 5 when only the
    checks found something.
    """
    from firmware_sim.checks.rules import chosen
    from user_layers.cases.hand_out import Where
    from user_layers.cli.progress import Progress
    from user_layers.verify.command import Budget, lines, verify_all
    from user_layers.verify.export import as_json, save_repros, write_junit
    from user_layers.verify.work import Job, job_of, parsed_values, sample_ticket

    chosen(check)
    wanted = Job(None, (), seed, check, parsed_values(values), time_limit)
    job = job_of(wanted, names or (), shapes or ())
    ticket = None if case is None else sample_ticket(job, case)
    with Progress() as progress:
        report = verify_all(job, Budget.of(budget), Where(jobs, dask), progress.step, ticket)
        progress.done()
    if json:
        from json import dumps

        typer.echo(dumps(as_json(report), indent=2))
    else:
        for line in lines(report):
            typer.echo(line)
    if junit is not None:
        write_junit(junit, report)
    if save_repro is not None:
        for path in save_repros(save_repro, job, report):
            typer.echo(f"kept: tpulayer repro {path}", err=True)
    return report.code
