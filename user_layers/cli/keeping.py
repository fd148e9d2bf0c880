"""What --save-repro keeps of a command that found something, for `tpulayer repro` to show again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from firmware_sim import variables
from firmware_sim.checks.error import CheckError
from firmware_sim.errors import DeviceError, TpulayerError
from user_layers.files import read_input

if TYPE_CHECKING:
    from firmware_sim.checks.finding import Finding
    from user_layers.repro import Content

_VARIABLES = (variables.CHECK, variables.WARNINGS, variables.TIME_LIMIT, variables.FIRMWARE)
_FOUND = (1, CheckError.exit_code)
_LINES = 12  # of what was found


@dataclass
class Ended:
    """code: of the command; what: it found, a line or more."""

    code: int = 0
    what: str = ""


@contextmanager
def keeping(
    parent: Path | None,
    name: str,
    words: Callable[[], Sequence[object]],
    files: Callable[[], Mapping[str, Content]],
) -> Iterator[Ended]:
    """Around a command's work. Where that finds something, which it says by the code or by an error of the
    device's, a folder `name` of parent gets the command and its files. parent: None: nothing is kept. words:
    of the command, paths as they are among the files."""
    ended = Ended()
    try:
        yield ended
    except TpulayerError as error:
        if isinstance(error, (DeviceError, CheckError)):
            ended.code, ended.what = error.exit_code, error.message
            _keep(parent, name, ended, words, files)
        raise
    if ended.code in _FOUND:
        _keep(parent, name, ended, words, files)


def _keep(
    parent: Path | None,
    name: str,
    ended: Ended,
    words: Callable[[], Sequence[object]],
    files: Callable[[], Mapping[str, Content]],
) -> None:
    if parent is None:
        return
    from user_layers.repro import Repro, save

    told = {one.name: os.environ[one.name] for one in _VARIABLES if os.environ.get(one.name)}
    what = "\n".join(ended.what.splitlines()[:_LINES]) or "something was found"
    repro = Repro(tuple(map(str, words())), ended.code, what, variables=told)
    typer.echo(f"kept in {save(parent, name, repro, files())}", err=True)


def options(**given: object) -> list[object]:
    """Words of options: those that have a value; `time_limit` is --time-limit, a list is given one by one."""
    words: list[object] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-').strip('-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += (word for one in value for word in (option, one))
        elif value is not None and value is not False:
            words += [option, value]
    return words


def headers_beside(sources: Sequence[Path], folder: str) -> dict[str, Content]:
    """C files, and the headers in their folders, as files in one folder."""
    found: dict[str, Content] = {}
    for source in sources:
        for path in (*sorted(source.parent.glob("*.h")), source):
            found[f"{folder}/{path.name}"] = read_input(path)
    return found


def headers_in(folders: Sequence[Path], name: str) -> dict[str, Content]:
    """The headers below folders, as files in name0, name1, ..."""
    return {
        f"{name}{number}/{path.relative_to(folder)}": read_input(path)
        for number, folder in enumerate(folders)
        for path in sorted(folder.rglob("*.h"))
    }


def arrays_of(given: Sequence[str]) -> list[tuple[str, Path]]:
    """Of words MEMBER=FILE.npy the members and the files."""
    return [(member, Path(path)) for member, _, path in (word.partition("=") for word in given)]


def model_files(model: Path, inputs: Sequence[Path]) -> dict[str, Content]:
    """A bmodel with what lies beside it for it, or a compiled folder; inputs; the layers of the workspace."""
    from user_layers.bmodel.directory import SITES
    from user_layers.repro import workspace_files
    from user_layers.workspace import Workspace

    ws = Workspace.around()
    found: dict[str, Content] = {} if ws is None else workspace_files(ws)
    found[model.name] = model
    if model.is_file() and (sites := model.with_name(SITES)).is_file():
        found[sites.name] = sites
    return {**found, **{path.name: path for path in inputs}}


def report_of(findings: Sequence[Finding]) -> str:
    """Findings as a command tells them."""
    from firmware_sim.checks.rules import limit
    from firmware_sim.checks.text import report

    return report(findings, limit(None)) if findings else ""
