"""The folder: repro.json, README.txt, and in files/ what the command reads."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import UsageError
from user_layers import __version__
from user_layers.files import read_input, replace_folder
from user_layers.workspace import ROOT_CONFIG_FILE, Workspace, edit_config

Content = bytes | str | Path | npt.NDArray[Any]
"""Of a file: itself, its text, where it lies (also a folder with all in it), an array as numpy writes it."""

RECORD = "repro.json"
README = "README.txt"
FILES = "files"
VERSION = 1
_BMKERNEL = "bmkernel"
_FOLDERS = ("device", "host", "include", "config", "caffe")


@dataclass(frozen=True)
class Repro:
    """What is run again.

    command: the words behind `tpulayer`, run in the folder files/: paths among them are relative to it.
    exit_code: with which it ended. what: what was found, in a line or more. about: what else is worth knowing
    of it (seed, case, options), as JSON has it. variables: of the environment, that the command had.
    release: of the toolkit that saved it.
    """

    command: tuple[str, ...]
    exit_code: int
    what: str
    about: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    release: str = __version__


def save(parent: Path, name: str, repro: Repro, files: Mapping[str, Content]) -> Path:
    """Keep it in a new folder `name` of parent (with a number behind it where that is taken); its path.

    files: by their paths below files/. The folder is there whole or not at all. Errors: UsageError where it
    cannot be written, or a file cannot be read.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
        try:
            for path, content in files.items():
                _write(aside / FILES / path, content)
            (aside / FILES).mkdir(exist_ok=True)
            record = {
                "version": VERSION,
                "release": repro.release,
                "command": repro.command,
                "exit_code": repro.exit_code,
                "what": repro.what,
                "about": repro.about,
                "variables": repro.variables,
            }
            _write(aside / RECORD, json.dumps(record, indent=2) + "\n")
            _write(aside / README, f"{repro.what}\n\nTo see it again: tpulayer repro {name}\n")
            aside.chmod(0o755)
            place = _free(parent, name)
            replace_folder(aside, place)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    except OSError as error:
        raise UsageError(f"{error.filename or parent} cannot be kept: {error.strerror or error}") from error
    return place


def load(folder: Path) -> Repro:
    """What a folder says. Errors: UsageError for one that `save` has not written."""
    path = folder / RECORD
    try:
        data = json.loads(read_input(path))
        if data["version"] != VERSION:
            raise ValueError(f"it has version {data['version']}, this toolkit reads {VERSION}")
        words = tuple(map(str, data["command"]))
        if not words or not (folder / FILES).is_dir():
            raise ValueError(f"no command, or no folder {FILES} beside it")
        return Repro(
            words,
            int(data["exit_code"]),
            str(data["what"]),
            dict(data["about"]),
            {str(name): str(value) for name, value in dict(data["variables"]).items()},
            str(data["release"]),
        )
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="name a folder that --save-repro made"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} does not say what to run again: {error}") from error


def workspace_files(ws: Workspace) -> dict[str, Content]:
    """The sources of a workspace, with the kernels that its layers call: files/ is then one, which is built
    before the command runs."""
    found: dict[str, Content] = {}
    for name in _FOLDERS:
        folder = ws.root / name
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file() and "__pycache__" not in path.parts:
                found[str(path.relative_to(ws.root))] = path.read_bytes()
    for path in sorted(ws.tests_dir.glob("*.py")):
        found[str(path.relative_to(ws.root))] = path.read_bytes()
    if (ws.root / ROOT_CONFIG_FILE).is_file():
        found[str(ROOT_CONFIG_FILE)] = (ws.root / ROOT_CONFIG_FILE).read_bytes()
    if ws.bmkernel is not None:
        found[_BMKERNEL] = ws.bmkernel
        for path in ws.config_files:
            text = path.read_text()
            if "BMKERNEL_PATH" in text:
                found[str(path.relative_to(ws.root))] = edit_config(text, {"BMKERNEL_PATH": _BMKERNEL})
    return found


def _write(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        if content.is_dir():
            shutil.copytree(content, path, dirs_exist_ok=True)
        else:
            path.write_bytes(read_input(content))
    elif isinstance(content, np.ndarray):
        file = io.BytesIO()
        np.save(file, content, allow_pickle=False)
        path.write_bytes(file.getvalue())
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _free(parent: Path, name: str) -> Path:
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(parent / one for one in names if not (parent / one).exists())
