"""How a host program in C or C++ is compiled and linked with the host libraries, and where those are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from user_layers.files import replace_copy
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.homes import host_libraries
from user_layers.toolchain.plan import HOST_HEADERS
from user_layers.workspace import Workspace, check_installed, sdk_dir

LIBRARIES = ("bmcompiler", "bmrt", "bmlib")  # in the order of linking


@dataclass(frozen=True)
class HostFiles:
    """The libraries, in one folder, and the folders of the headers."""

    libraries: Path
    includes: Sequence[Path]

    @property
    def compile_flags(self) -> list[str]:
        """What a compiler gets for every source file of a host program."""
        return [f"-I{folder}" for folder in self.includes]

    @property
    def link_flags(self) -> list[str]:
        """For the program, behind its sources or objects. It finds the libraries where they are."""
        names = (f"-l{name}" for name in LIBRARIES)
        return [f"-L{self.libraries}", *names, f"-Wl,-rpath,{self.libraries}"]

    def copied(self, folder: Path) -> HostFiles:
        """The same in a folder of the user's: the libraries in it, the headers in its folder `include`."""
        includes = folder / "include"
        includes.mkdir(parents=True, exist_ok=True)
        for name in LIBRARIES:
            replace_copy(self.libraries / f"lib{name}.so", folder / f"lib{name}.so")
        for place in self.includes:
            for header in sorted(place.glob("*.h")):
                if header.name in HOST_HEADERS or header.name.startswith("bmcompiler_"):
                    replace_copy(header, includes / header.name)
        return HostFiles(folder.resolve(), [includes.resolve()])


def host_files(ws: Workspace | None) -> HostFiles:
    """Those that a workspace installed; without a workspace those of the toolkit itself, built if need be.

    Errors: MissingError when the workspace is not built.
    """
    if ws is None:
        builtin = builtin_artifacts()
        return HostFiles(host_libraries(builtin), [sdk_dir() / "include", builtin.directory])
    folder = ws.install_dir / "lib"
    for name in LIBRARIES:
        check_installed(folder / f"lib{name}.so")
    return HostFiles(folder, [ws.install_dir / "include"])
