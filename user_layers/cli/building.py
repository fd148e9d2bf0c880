"""Commands that generate code and build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from user_layers.cli.alone import alone
from user_layers.cli.spelling import runnable
from user_layers.workspace import Workspace

if TYPE_CHECKING:
    from user_layers.toolchain.targets import BuildResult

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Sanitize = Annotated[
    bool, typer.Option("--sanitize", help="A native firmware that checks its C while it runs.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def build_layers(sanitize: Sanitize = False, json: Json = False, dry_run: DryRun = False) -> None:
    """Build and install what is not up to date: build_bmkernel, gen_config, gen_entry, then all else."""
    ws = Workspace.find()
    if dry_run:
        _say_changes(ws, json, sanitize)
        return
    from user_layers.toolchain import targets

    _say_result("build_layers", targets.build_layers(ws, sanitize=sanitize), ws.root, json)


def rebuild_layers(sanitize: Sanitize = False, json: Json = False, dry_run: DryRun = False) -> None:
    """Remove what was built and build it again. op_type numbers stay as they are."""
    ws = Workspace.find()
    if dry_run:
        clean(dry_run=True)
        return
    from user_layers.toolchain import targets

    _say_result("rebuild_layers", targets.rebuild_layers(ws, sanitize=sanitize), ws.root, json)


def clean(dry_run: DryRun = False) -> None:
    """Remove generated/, build/ and install/. op_type numbers (config/op_types.lock) stay."""
    from user_layers.toolchain import targets

    ws = Workspace.find()
    verb = "would remove" if dry_run else "removed"
    with alone(ws.root):
        folders = targets.clean(ws, dry_run=dry_run)
    for folder in folders:
        typer.echo(f"{verb} {folder}")
    if not folders:
        typer.echo("clean: nothing was built")


def build_bmkernel(sanitize: Sanitize = False, json: Json = False) -> None:
    """Build the bmkernel project by itself, into a firmware without user layers."""
    from user_layers.toolchain import targets

    ws = Workspace.find()
    result = targets.build_bmkernel(ws, sanitize=sanitize)
    _say_result("build_bmkernel", result, ws.bmkernel or ws.root, json)


def host_flags(
    cflags: Annotated[bool, typer.Option("--cflags", help="Only those for compiling.")] = False,
    libs: Annotated[bool, typer.Option("--libs", help="Only those for linking, behind the sources.")] = False,
    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            metavar="FOLDER",
            help="Copy the libraries there, and the headers into its folder include.",
        ),
    ] = None,
) -> None:
    """Print the compiler's switches for programs with the host libraries, quoted for the shell: those of the
    workspace around the current folder, or without one the toolkit's own."""
    from shlex import join

    from firmware_sim.errors import UsageError
    from user_layers.toolchain.host_flags import host_files

    if into == "":
        raise UsageError("--into: the folder has no name", hint="`.` is the current one")
    files = host_files(Workspace.around())  # tells what is not built, whichever are asked for
    if into is not None:
        files = files.copied(Path(into))
    both = cflags == libs
    flags = [*(files.compile_flags if cflags or both else ()), *(files.link_flags if libs or both else ())]
    typer.echo(join(flags))


def gen_config(dry_run: DryRun = False) -> None:
    """Write what the build needs of Makefile.config to generated/build_config.json."""
    from user_layers.toolchain.config import gen_config as generate

    ws = Workspace.find()
    with alone(ws.root):
        config, changed = generate(ws, dry_run=dry_run)
    typer.echo(f"gen_config: HOST_ARCH {config.host_arch}, FIRMWARE_ARCH {config.firmware_arch}")
    typer.echo(f"  bmkernel {config.bmkernel or 'none'}, {len(config.bmkernel_sources)} C files")
    _say_files(changed, ws.root, dry_run)


def gen_entry(dry_run: DryRun = False) -> None:
    """Scan device/ and host/ for layers and write bmtpu.h and the two entry files to generated/."""
    from user_layers.toolchain import targets

    ws = Workspace.find()
    with alone(ws.root):
        table, changed = targets.gen_entry(ws, dry_run=dry_run)
    names = ", ".join(f"{layer.op} = {layer.op_type}" for layer in table.layers)
    typer.echo(f"gen_entry: {len(table.layers)} layers{': ' + names if names else ''}")
    _say_files(changed, ws.root, dry_run)


def set_bmkernel_path(
    path: Annotated[str, typer.Argument(help="The project's folder; '' for none.")], dry_run: DryRun = False
) -> None:
    """Choose a bmkernel project whose kernels the layers may call: device/*.c, headers in include/."""
    from user_layers.toolchain.ninja_file import relative
    from user_layers.workspace import check_bmkernel

    ws = Workspace.find()
    value = ""
    if path:
        folder = Path(path).expanduser().resolve()
        check_bmkernel(folder, "set_bmkernel_path")
        value = str(folder.relative_to(ws.root) if folder.is_relative_to(ws.root) else folder)
    with alone(ws.root):
        changed = ws.config.bmkernel_path != (value or None)
        if changed and not dry_run:
            ws.set_config(BMKERNEL_PATH=value)
    verb = ("would set" if dry_run else "set") if changed else "unchanged:"
    typer.echo(f"{relative(ws.config_file, ws.root)}: {verb} BMKERNEL_PATH = {value}")
    if changed and not dry_run:
        typer.echo(f"next: {runnable('build_layers')}")


def _say_files(changed: Sequence[Path], root: Path, dry_run: bool) -> None:
    from user_layers.toolchain.ninja_file import relative

    for path in changed:
        typer.echo(f"  {'would write' if dry_run else 'wrote'} {relative(path, root)}")
    if not changed:
        typer.echo("  nothing changed, no file written")


def _say_changes(ws: Workspace, json: bool, sanitize: bool) -> None:
    from user_layers.toolchain import manifest, targets

    changes = manifest.changes(targets.manifest_path(ws, sanitize))
    if json:
        from json import dumps

        typer.echo(dumps({"command": "build_layers", "dry_run": True, "changes": changes}, indent=2))
    elif changes:
        typer.echo("build_layers: would build, because")
        for change in changes:
            typer.echo(f"  {change}")
    else:
        typer.echo("build_layers: would do nothing: no input or output changed since the last build")


def _say_result(command: str, result: BuildResult, root: Path, json: bool) -> None:
    from user_layers.toolchain.ninja_file import relative

    installed = [relative(path, root) for path in result.installed]
    kept = [relative(path, root) for path in result.kept]
    if json:
        from json import dumps

        answer = {
            "command": command,
            "seconds": round(result.seconds, 3),
            "commands": result.commands,
            "installed": installed,
            "unchanged": kept,
            "skipped": result.skipped,
            "sanitized": result.sanitized,
            "notes": [text for text, _ in result.notes],
        }
        typer.echo(dumps(answer, indent=2))
        return
    for line in result.skipped:
        typer.echo(f"skipped {line}")
    for name in installed:
        typer.echo(f"installed {name}")
    for name in kept:
        typer.echo(f"unchanged {name}")
    count = len(result.commands)
    checks = f"; firmware.so is sanitized: {result.sanitized}" if result.sanitized else ""
    typer.echo(
        f"{command}: {count or 'no'} command{'' if count == 1 else 's'} run in {result.seconds:.2f} s{checks}"
    )
    for text, hint in result.notes:
        typer.echo(f"note: {text}\n  hint: {hint}", err=True)
