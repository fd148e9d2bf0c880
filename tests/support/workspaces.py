"""Workspaces for tests, and the command line as a user calls it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.paths import ROOT, SOURCES
from tests.support.shared import made_once
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.targets import build_layers
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace

LIMIT = 600.0  # seconds: a first build with zig on a busy machine
FOLDERS = ("device", "host", "include", "config")
_FOREIGN = ("BMCOMPILER_PLUGIN_PATH", "BMRUNTIME_FIRMWARE_PATH", "TPULAYER_WORKSPACE", "NO_COLOR")


@contextmanager
def outside_of_workspaces(folder: Path) -> Iterator[None]:
    """In `folder`, where no workspace and no firmware of the environment is found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("TPULAYER_WORKSPACE", "BMRUNTIME_FIRMWARE_PATH"):
            patch.delenv(name, raising=False)
        yield


def make_workspace(root: Path, layers: Sequence[str] = ("double",), config: str = "") -> Workspace:
    """A workspace with copies of this repository's own layers, made without any command."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "config" / "Makefile.config").write_text(config)
    for layer in layers:
        add_repository_layer(root, layer)
    return Workspace(root)


def add_repository_layer(root: Path, layer: str, source: Path = ROOT) -> None:
    """Copy the files of one layer into a workspace."""
    for folder in ("device", "host"):
        for path in (source / folder).glob(f"bm_{folder}_{layer}.*"):
            shutil.copy(path, root / folder / path.name)


def built_workspace(
    factory: pytest.TempPathFactory, layers: Sequence[str] = ("crop", "double"), folder: str = ""
) -> Workspace:
    """A built workspace with layers of this repository and those of tests/sources/FOLDER.

    All processes of a run share it: nobody changes or builds anything in it, or runs commands there that do.
    """

    def make(root: Path) -> None:
        make_workspace(root, layers)
        for path in (SOURCES / folder).iterdir() if folder else ():
            shutil.copy(path, root / ("device" if path.suffix == ".c" else "host") / path.name)
        build_layers(Workspace(root))

    return Workspace(made_once(factory, "_".join(("shared", *layers, folder)), make))


def built_copy(factory: pytest.TempPathFactory, root: Path, layers: Sequence[str] = ("double",)) -> Workspace:
    """A built workspace with layers of this repository in the new folder `root`, for the caller alone.

    Nothing is compiled for it: it is a copy of one that all processes of a run share.
    """
    return _copy(built_workspace(factory, layers).root, root)


def built_demo(factory: pytest.TempPathFactory, root: Path) -> Workspace:
    """The same with what `tpulayer init --demo` writes; `root` may be an empty folder."""

    def make(shared: Path) -> None:
        tpulayer("init", ".", "--demo", cwd=shared)
        build_layers(Workspace(shared))

    return _copy(made_once(factory, "shared_demo", make), root)


def _copy(built: Path, root: Path) -> Workspace:
    shutil.copytree(built, root, symlinks=True, dirs_exist_ok=True)  # with the files' times
    ws = Workspace(root)
    build_layers(ws, Reporter(quiet=True))  # compiles nothing, and records the build as this folder's
    return ws


@contextmanager
def layers_toolkit(factory: pytest.TempPathFactory, folder: str) -> Iterator[Toolkit]:
    """The built workspace with the demo layers and those of tests/sources/FOLDER."""
    with Toolkit(built_workspace(factory, folder=folder)) as toolkit:
        yield toolkit


@contextmanager
def builtin_toolkit() -> Iterator[Toolkit]:
    """The built-in layers as they are now: outside any workspace, whose firmware may be older."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with Toolkit() as toolkit:
                assert toolkit.workspace is None
                yield toolkit
        finally:
            os.chdir(before)


def children_seconds() -> float:
    """The processor time of this process's children that have ended, which other programs do not change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(**changes: str) -> dict[str, str]:
    """The environment for a command: without what the tester's own shell sets."""
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**env, **changes}


def tpulayer(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run `tpulayer WORDS` in cwd and check its exit code (None: any)."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "user_layers.cli.main", *words],
        cwd=cwd,
        env=dict(env) if env is not None else environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if code is not None:
        assert done.returncode == code, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
