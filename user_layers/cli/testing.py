"""The command that tests layers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firmware_sim.checks.export import as_json
from user_layers.cli.checking import checking
from user_layers.cli.options import (
    Check,
    CheckLimit,
    Gdb,
    GdbCommand,
    GdbPort,
    InGdb,
    Sarif,
    SaveRepro,
    Schedule,
    TimeLimit,
    Warnings,
    for_devices,
    in_gdb,
)
from user_layers.workspace import Workspace

if TYPE_CHECKING:
    from firmware_sim.firmware.image import Kind
    from user_layers.repro import Content
    from user_layers.testing.run import Result


def test(
    names: Annotated[
        list[str] | None, typer.Argument(help="Layers, by their short names; none: all.", show_default=False)
    ] = None,
    warnings: Warnings = None,
    time_limit: TimeLimit = None,
    check: Check = None,
    schedule: Schedule = False,
    check_limit: CheckLimit = None,
    sarif: Sarif = None,
    save_repro: SaveRepro = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    firmware: Annotated[
        str | None, typer.Option("--firmware", help="native or arm: only on this one.", show_default=False)
    ] = None,
    gdb: Gdb = False,
    gdb_command: GdbCommand = None,
    gdb_port: GdbPort = None,
) -> int:
    """Run layers beside their numpy references, tests/test_NAME.py.

    Each case runs by itself (opt 0), between other layers (opt 1 and 2) and dynamically, on the native
    firmware and, where its images are built, on the controller's; in gdb on the native one, or on what
    --firmware says. Exit code 1 when anything differs, 5 when only the checks found something.
    """
    from firmware_sim.firmware.image import kind_named
    from user_layers.cli.keeping import keeping, options

    for_devices(time_limit, warnings, check, check_limit, schedule)

    def words() -> list[object]:
        told = options(check=check, schedule=schedule, warnings=warnings, time_limit=time_limit)
        return ["test", *(names or ()), *told, *options(firmware=firmware)]

    def files() -> dict[str, Content]:
        from user_layers.repro import workspace_files

        return workspace_files(Workspace.find())

    only = kind_named(firmware, "--firmware") if firmware is not None else None
    debugger = in_gdb(gdb, gdb_command, gdb_port)
    with keeping(save_repro, "test", words, files) as ended:
        ended.code, ended.what = _tested(names or [], sarif, only, debugger, as_json_object=json)
    return ended.code


def _tested(
    names: list[str],
    sarif: Path | None,
    only: Kind | None,
    start: InGdb | None,
    *,
    as_json_object: bool,
) -> tuple[int, str]:
    """The exit code, and a line for each case that is wrong. only: on that firmware; start: in gdb."""
    from user_layers.testing.collect import find_tests, load_test
    from user_layers.testing.run import built_firmware, check_built, open_toolkits, run_cases

    ws = Workspace.find()
    paths = find_tests(ws, names)
    check_built(ws)
    tests = [load_test(path) for path in paths]
    found: dict[str, list[Result]] = {test.name: [] for test in tests}
    images = built_firmware(ws, only if start is None else only or "native")
    with ExitStack() as stack:
        if start is not None:
            from user_layers.toolchain.debug import debug_workspace, layer_functions

            functions = layer_functions(ws, [test.name for test in tests])
            stack.enter_context(start(only or "native", functions))
            if only != "arm":
                images = {"native": debug_workspace(ws)}
        seen = stack.enter_context(checking(sarif))
        toolkits = stack.enter_context(open_toolkits(ws, images))
        if "arm" not in toolkits and only is None and start is None:
            typer.echo("the controller's images are not installed: on the native firmware only", err=True)
        for test in tests:
            typer.echo(f"{test.name}: {len(test.cases)} cases on {' and '.join(toolkits)}", err=True)
            for result in run_cases(ws, toolkits, test.name, test.golden, test.cases):
                found[test.name].append(result)
                seen.take(result.findings)
                typer.echo(f"{test.name} {result}", err=as_json_object)
    results = [result for part in found.values() for result in part]
    wrong = sum(not result.ok for result in results)
    unequal = sum(bool(result.problem) for result in results)
    if as_json_object:
        from json import dumps

        answer = {
            "command": "test",
            "ok": not wrong,
            "tests": {name: [_as_object(r) for r in part] for name, part in found.items()},
        }
        typer.echo(dumps(answer, indent=2))
    elif unequal:
        typer.echo(f"test: {unequal} of {len(results)} are not equal to golden")
    elif wrong:
        typer.echo(f"test: all {len(results)} are equal to golden; checks found something in {wrong} of them")
    else:
        typer.echo(f"test: all {len(results)} are equal to golden")
    bad = [f"{name} {one}" for name, part in found.items() for one in part if not one.ok]
    return seen.code(1 if unequal else 0), "\n".join(bad)


def _as_object(result: Result) -> dict[str, object]:
    answer: dict[str, object] = {
        "case": result.case,
        "mode": result.mode,
        "firmware": result.firmware,
        "ok": result.ok,
        "elements": result.elements,
        "where": result.where,
        "problem": result.problem,
        "difference": None,
        "findings": as_json(result.findings),
    }
    if result.difference is not None:
        d = result.difference
        values = {"got": str(d.got), "golden": str(d.want)}  # as text: JSON has no infinities
        answer["difference"] = {"index": d.index, **values, "count": d.count, "elements": d.elements}
    return answer
