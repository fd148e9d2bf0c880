"""init: a new workspace."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from firmware_sim.errors import MissingError, UsageError
from user_layers.commands import TOOLS
from user_layers.scaffold.layers import layer_paths
from user_layers.scaffold.made import Made, render, write_all
from user_layers.workspace import CONFIG_FILE, ROOT_CONFIG_FILE

DEMO_LAYERS = ("crop", "double")
DEMO_PROGRAM = Path("test") / "test_tpu_layer_cpp.cpp"
_FOLDERS = ("device", "host", "include")
_PORTS = {"native_port": 24684, "controller_port": 24685}


def tool_scripts() -> dict[str, str]:
    """File name -> text of the scripts in tool/; the repository's own are the same."""
    return {name: command.script for name, command in TOOLS.items()}


def environment_scripts() -> dict[str, str]:
    """File name -> text of the scripts in scripts/; the repository's own are the same."""
    return {f"envsetup_{name}.sh": render(f"workspace/envsetup_{name}.sh.j2") for name in ("cmodel", "pcie")}


def editor_files() -> dict[str, str]:
    """File name -> text of what Visual Studio Code has in .vscode/: how to build, test and debug a layer."""
    values = {**_PORTS, "python": json.dumps(sys.executable)}
    return {name: render(f"vscode/{name}.j2", **values) for name in ("launch.json", "tasks.json")}


def init(
    directory: Path, *, demo: bool = False, vscode: bool = False, force: bool = False, dry_run: bool = False
) -> Made:
    """Make `directory` a workspace, or complete one; files that exist are kept (unless force).

    demo: with the demo layers crop and double, and their program in C++. vscode: with `editor_files`.
    Errors: UsageError when the directory cannot be one.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file", hint="name a folder, existing or new")
    root = directory.resolve()
    tools = {root / "tool" / name: text for name, text in tool_scripts().items()}
    config = ROOT_CONFIG_FILE if (root / ROOT_CONFIG_FILE).is_file() else CONFIG_FILE
    files: dict[Path, str | bytes] = {
        root / config: render("workspace/Makefile.config.j2"),
        root / "envsetup.sh": render("workspace/envsetup.sh.j2"),
        root / "Makefile": render("workspace/Makefile.j2"),
        root / ".gitignore": render("workspace/gitignore.j2"),
        **tools,
        **{root / "scripts" / name: text for name, text in environment_scripts().items()},
    }
    if vscode:
        files |= {root / ".vscode" / name: text for name, text in editor_files().items()}
    if demo:
        source = _demo_source()
        for layer in DEMO_LAYERS:
            for path in layer_paths(Path(), layer):
                files[root / path] = (source / path).read_bytes()
        files[root / DEMO_PROGRAM] = (source / DEMO_PROGRAM).read_bytes()
    for folder in _FOLDERS:  # version control keeps no empty folders
        if not any((root / folder) in p.parents for p in files):
            files[root / folder / ".gitkeep"] = ""
    kept = tuple(p for p in files if p.exists() and not force)
    write = {p: text for p, text in files.items() if p not in kept}
    if not dry_run:
        write_all(write, frozenset(tools))
    enter = f"cd {directory} && " if root != Path.cwd().resolve() else ""
    then = "build_layers && test_tpu_layer 0" if demo else "add_layer crop 1"
    return Made(tuple(write), kept, f"{enter}source envsetup.sh && {then}")


def _demo_source() -> Path:
    """The folder with device/, host/ and test/ of the demo layers: package data, or the repository."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_demo", package.parent):
        paths = [DEMO_PROGRAM, *(p for layer in DEMO_LAYERS for p in layer_paths(Path(), layer))]
        if all((folder / p).is_file() for p in paths):
            return folder
    raise MissingError(
        f"the demo layers are missing beside {package}",
        hint="install the package again from its clone: pip install --force-reinstall CLONE",
    )
