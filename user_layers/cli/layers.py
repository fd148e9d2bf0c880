"""Commands that make, remove and list layers and workspaces."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firmware_sim.errors import UsageError
from user_layers.cli.alone import alone
from user_layers.cli.spelling import runnable
from user_layers.workspace import Workspace

if TYPE_CHECKING:
    from user_layers.scaffold import Made
    from user_layers.scan.model import LayerInfo

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


def init(
    directory: Annotated[Path, typer.Argument(help="The workspace's folder, existing or new.")] = Path("."),
    demo: Annotated[bool, typer.Option("--demo", help="With the demo layers crop and double.")] = False,
    vscode: Annotated[
        bool, typer.Option("--vscode", help="With tasks and launch files for Visual Studio Code.")
    ] = False,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Make a workspace: folders, configuration, envsetup.sh, Makefile. Files that exist are kept."""
    from user_layers.scaffold import init as make

    with alone(directory) if directory.is_dir() else nullcontext():
        made = make(directory, demo=demo, vscode=vscode, force=force, dry_run=dry_run)
    _say_made(made, directory.resolve(), dry_run)


def add_layer(
    name: Annotated[str, typer.Argument(help="For example crop: the op is then TPU_CROP.")],
    has_local: Annotated[int, typer.Argument(min=0, max=1, help="1: with a local function too.")] = 0,
    dtype: Annotated[str, typer.Option("--dtype", help="What it takes: fp32, or int8.")] = "fp32",
    caffe: Annotated[
        str | None,
        typer.Option("--caffe", metavar="TYPE", help="Layers of this type in a prototxt become this one."),
    ] = None,
    caffe_cpp: Annotated[
        str | None, typer.Option("--caffe-cpp", metavar="TYPE", help="The same; what reads them is in C++.")
    ] = None,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Make the files of a new layer, its test too. It builds, and runs as a copy, from the start."""
    from user_layers.scaffold import add_layer as make

    if caffe is not None and caffe_cpp is not None:
        raise UsageError("--caffe and --caffe-cpp: one of them", hint="a layer is read in one language")
    root = Workspace.find().root
    with alone(root):
        made = make(
            root,
            name,
            bool(has_local),
            dtype=dtype,
            caffe=caffe if caffe_cpp is None else caffe_cpp,
            cpp=caffe_cpp is not None,
            force=force,
            dry_run=dry_run,
        )
    _say_made(made, root, dry_run)


def del_layer(
    name: Annotated[str, typer.Argument(help="The layer's short name, as add_layer took it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove the files of a layer, asking for each. Its op_type number is not given to another layer."""
    from user_layers.scaffold import del_layer as delete
    from user_layers.scaffold import layer_files

    root = Workspace.find().root
    found = layer_files(root, name)  # complains about an unknown layer before anything is asked
    if not (yes or dry_run):
        if not sys.stdin.isatty():
            raise UsageError("del_layer asks for each file, and this is not a terminal", hint="add --yes")
        found = [path for path in found if typer.confirm(f"remove {_relative(path, root)}?", err=True)]
    with alone(root):
        removed = delete(root, name, confirm=found.__contains__, dry_run=dry_run)
    for path in removed:
        typer.echo(f"{'would remove' if dry_run else 'removed'} {_relative(path, root)}")
    if not removed:
        typer.echo("nothing removed")
    elif not dry_run:
        typer.echo(f"next: {runnable('build_layers')}")


def list_layers(json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> int:
    """List the layers: op_type, functions, parameter struct, descriptor, files.

    Exit code 1 when the sources of a layer are wrong; the others are listed all the same.
    """
    from user_layers.scaffold import list_layers as find

    root = Workspace.find().root
    listing = find(root)
    if json:
        from json import dumps

        answer = {
            "layers": [_as_object(layer, root) for layer in listing.layers],
            "problems": [str(problem) for problem in listing.problems],
        }
        typer.echo(dumps(answer, indent=2))
    else:
        for layer in listing.layers:
            _say_layer(layer, root)
        if not listing.layers and not listing.problems:
            typer.echo(f"no layers; make one with `{runnable('add_layer')} NAME`")
        for problem in listing.problems:
            typer.echo(str(problem), err=True)
    return 1 if listing.problems else 0


def _say_layer(layer: LayerInfo, root: Path) -> None:
    local = layer.local_fn.name if layer.local_fn is not None else "none"
    typer.echo(f"{layer.name}  {layer.op} = {layer.op_type}")
    typer.echo(f"  global {layer.global_fn.name}, local {local}, shape {layer.shape_fn.name}")
    typer.echo(f"  param {layer.param.c_type} ({layer.param.size} bytes), descriptor {layer.descriptor.name}")
    typer.echo(f"  files {', '.join(_files(layer, root))}")


def _as_object(layer: LayerInfo, root: Path) -> dict[str, object]:
    return {
        "name": layer.name,
        "op": layer.op,
        "op_type": layer.op_type,
        "global": layer.global_fn.name,
        "local": layer.local_fn.name if layer.local_fn is not None else None,
        "shape": layer.shape_fn.name,
        "param": {"type": layer.param.c_type, "size": layer.param.size},
        "descriptor": layer.descriptor.name,
        "files": _files(layer, root),
    }


def _files(layer: LayerInfo, root: Path) -> list[str]:
    """Its sources as the scan found them, its test, and what reads it from Caffe's files."""
    from user_layers.scaffold.layers import caffe_paths

    test = Workspace(root).tests_dir / f"test_{layer.name}.py"
    others = (test, *caffe_paths(root, layer.name))
    return [_relative(path, root) for path in (*layer.files, *others) if path.exists()]


def _say_made(made: Made, root: Path, dry_run: bool) -> None:
    for path in made.files:
        typer.echo(f"{'would write' if dry_run else 'wrote'} {_relative(path, root)}")
    for path in made.kept:
        typer.echo(f"kept {_relative(path, root)}")
    if made.next_command and not dry_run:
        typer.echo(f"next: {runnable(made.next_command)}")


def _relative(path: Path, root: Path) -> str:
    from user_layers.toolchain.ninja_file import relative

    return relative(path, root)
