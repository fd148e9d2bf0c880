"""What --save-repro keeps of a command that found something, for `tpulayer repro` to show again."""

from __future__ import annotations

import os
import re
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
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


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


@dataclass(frozen=True)
class Sources:
    """C files with all that they include by a path, as they lie to each other: paths of the files among what
    is kept, of the folders with headers, and the contents."""

    kernels: tuple[str, ...]
    folders: tuple[str, ...]
    files: Mapping[str, Content]


def sources_of(kernels: Sequence[Path], folders: Sequence[Path], name: str) -> Sources:
    """Files that an #include names and that are not there (the toolkit's, the system's) are left out."""
    here = [path.resolve() for path in kernels]
    around = [path.resolve() for path in folders]
    found = dict.fromkeys(here)
    for path in (waiting := list(here)):
        for named in _INCLUDE.findall(read_input(path).decode(errors="replace")):
            places = ((folder / named).resolve() for folder in (path.parent, *around))
            there = next((place for place in places if place.is_file()), None)
            if there is not None and there not in found:
                found[there] = None
                waiting.append(there)
    top = Path(os.path.commonpath([*(path.parent for path in found), *around]))

    def kept(path: Path) -> str:
        return str(Path(name, path.relative_to(top)))

    files: dict[str, Content] = {kept(path): path for path in found}
    for folder in around:  # it has to be there, for the compiler
        files.setdefault(f"{kept(folder)}/.keep", "")
    return Sources(tuple(map(kept, here)), tuple(map(kept, around)), files)


def arrays_of(given: Sequence[str]) -> list[tuple[str, Path]]:
    """Of words MEMBER=FILE.npy the members and the files."""
    return [(member, Path(path)) for member, _, path in (word.partition("=") for word in given)]


def model_files(model: Path, inputs: Sequence[Path], firmware: Path | None) -> dict[str, Content]:
    """A bmodel with what lies beside it for it, or a compiled folder; inputs by `input_name`; the layers of
    the workspace; a firmware's file, and those of its pair."""
    from user_layers.bmodel.directory import SITES
    from user_layers.repro import workspace_files
    from user_layers.workspace import Workspace

    ws = Workspace.around()
    found: dict[str, Content] = {} if ws is None else workspace_files(ws)
    whole = model.resolve()
    found[f"model/{whole.name}"] = whole
    if whole.is_file() and (sites := whole.with_name(SITES)).is_file():
        found[f"model/{sites.name}"] = sites
    if firmware is not None:
        beside = firmware.parent.glob("*.bin") if firmware.suffix == ".bin" else ()
        found |= {f"firmware/{path.name}": path for path in (firmware, *beside)}
    return {**found, **{input_name(k, path): path for k, path in enumerate(inputs)}}


def input_name(number: int, path: Path) -> str:
    """What an input's file is called among those that are kept."""
    return f"inputs/{number}/{path.name}"


def report_of(findings: Sequence[Finding]) -> str:
    """Findings as a command tells them."""
    from firmware_sim.checks.rules import limit
    from firmware_sim.checks.text import report

    return report(findings, limit(None)) if findings else ""
