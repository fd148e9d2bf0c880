"""How a host program in C or C++ is compiled and linked with the libraries that a build installed."""

from __future__ import annotations

from user_layers.workspace import Workspace, check_installed

LIBRARIES = ("bmcompiler", "bmrt", "bmlib")  # in the order of linking


def compile_flags(ws: Workspace) -> list[str]:
    """What a compiler gets for every source file of a host program: where the headers are installed."""
    return [f"-I{ws.install_dir / 'include'}"]


def link_flags(ws: Workspace) -> list[str]:
    """For the program, behind its sources or objects. It finds the libraries where they are installed.

    Errors: MissingError when the workspace is not built.
    """
    folder = ws.install_dir / "lib"
    for name in LIBRARIES:
        check_installed(folder / f"lib{name}.so")
    return [f"-L{folder}", *(f"-l{name}" for name in LIBRARIES), f"-Wl,-rpath,{folder}"]
