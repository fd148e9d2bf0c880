"""`tpulayer pack`: everything that someone with a card needs to run a net there, in one folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

from firmware_sim.device.findings import together
from firmware_sim.errors import MissingError, UsageError
from firmware_sim.firmware.image import DDR_NAME, TCM_NAME
from firmware_sim.shown import count
from user_layers import __version__
from user_layers.card.programs import MACHINES, PROGRAMS, card_headers, card_programs, card_sources
from user_layers.card.runs import Collected, Given, Run, collect
from user_layers.toolkit import Toolkit

FORMAT = "tpulayer pack"
VERSION = 1
MANIFEST = "manifest.json"
PLAN = "plan.txt"
DATA = "data.bin"
SUMS = "SHA256SUMS"
RESULT = "result"
_FILES = Path(__file__).with_name("files")


@together()
def pack(
    net: Path,
    out: Path,
    *,
    machines: Sequence[str] = tuple(MACHINES),
    force: bool = False,
    toolkit: Toolkit | None = None,
) -> list[str]:
    """Write the folder `out`; what to tell about it, a line each.

    net: a folder that compiling wrote, or a bmodel file. machines: some of MACHINES, by their `uname -m`.
    force: an older pack in `out` is replaced. toolkit: whose emulator computes what is expected.
    Errors: UsageError for words and folders that do not fit, ModelError, MissingError without zig or a built
    firmware; `out` is as it was then. CheckError when it is written, and checks found something in the net.
    """
    unknown = [machine for machine in machines if machine not in MACHINES]
    if unknown or not machines:
        raise UsageError(
            f"--machine {unknown[0] if unknown else ''}: there are no programs for it",
            hint=f"one of {', '.join(MACHINES)}",
        )
    _check_target(out, force)
    own = None if toolkit is not None else Toolkit()
    used = toolkit or own
    assert used is not None
    try:
        collected = collect(net, used.device)
        images = _images(used)
    finally:
        if own is not None:
            own.close()
    programs = {machine: card_programs(machine) for machine in dict.fromkeys(machines)}
    target = out.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
            made = Path(name) / "pack"
            _write(made, collected, images, programs)
            if target.exists():
                os.replace(target, Path(name) / "old")
            os.replace(made, target)
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or target}: {error.strerror}", hint="give another folder"
        ) from error
    runs = [run for model in collected.models for run in model.runs]
    layers = sum(run.kind == "layer" for run in runs)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return [
        f"{out}: {count(len(runs), 'run')}, {layers} of them of single layers; {size / 1e6:.1f} MB; programs "
        f"for {' and '.join(programs)}",
        *(f"note: {note}" for note in collected.notes),
        *(
            ["note: dynamic nets run on no firmware but the pack's, see its README.txt"]
            if _dynamic(collected)
            else []
        ),
        f"next: copy {out} to a machine with a card, run ./run.sh there, and bring {RESULT}/ back for "
        "`tpulayer compare`",
    ]


def _check_target(out: Path, force: bool) -> None:
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is not a folder", hint="give another one with -o")
    if not any(out.iterdir()):
        return
    if not (out / MANIFEST).is_file() or not (out / PLAN).is_file():
        raise UsageError(f"{out} is not empty, and no pack", hint="give another folder with -o")
    if not force:
        raise UsageError(
            f"{out} is a pack already, perhaps with results in it",
            hint="--force replaces it, or give another folder with -o",
        )


def _images(toolkit: Toolkit) -> tuple[Path, Path]:
    """The controller's images: the workspace's, else those without user layers."""
    from user_layers.toolchain import builtin_artifacts

    ws = toolkit.workspace
    folder = builtin_artifacts().directory if ws is None else ws.firmware.parent
    found = folder / TCM_NAME, folder / DDR_NAME
    for path in found:
        if not path.is_file():
            raise MissingError(f"{path} is not built", hint="run `build_layers`")
    return found


def _dynamic(collected: Collected) -> bool:
    return any(model.dynamic for model in collected.models)


# ---- writing ----


class _Data:
    """The arrays of a pack, one behind the other in one file, each once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._places: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """Where it lies."""
        key = hashlib.sha256(data).digest()
        if key not in self._places:
            self._places[key] = self._file.tell()
            self._file.write(data)
            self._file.write(bytes(-len(data) % 64))
        return self._places[key]

    def close(self) -> None:
        self._file.close()


def _write(folder: Path, collected: Collected, images: tuple[Path, Path], programs: dict[str, Path]) -> None:
    for name in ("models", "firmware", "sources/include", *(f"bin/{machine}" for machine in programs)):
        (folder / name).mkdir(parents=True)
    data = _Data(folder / DATA)
    lines = [["firmware", f"firmware/{TCM_NAME}", f"firmware/{DDR_NAME}"]]
    for index, model in enumerate(collected.models):
        name = f"models/{index}.bmodel"
        shutil.copy(model.path, folder / name)
        lines.append(["model", name, str(int(model.dynamic))])
        for run in model.runs:
            lines.append(["run", run.kind, run.net, str(run.stage), run.title])
            lines += [_line("in", given, data) for given in run.inputs]
            lines += [_line("out", given, data) for given in run.outputs]
    data.close()
    for path, image in zip(images, (TCM_NAME, DDR_NAME), strict=True):
        shutil.copy(path, folder / "firmware" / image)
    for machine, built in programs.items():
        for program in PROGRAMS:
            shutil.copy(built / program, folder / "bin" / machine / program)
    for path in (*(p for paths in card_sources().values() for p in paths), *card_headers()):
        own = path.name == "check.h" or path.suffix == ".c"
        shutil.copy(path, folder / "sources" / ("" if own else "include") / path.name)
    shutil.copy(_FILES / "Makefile", folder / "sources" / "Makefile")
    shutil.copy(_FILES / "run.sh", folder / "run.sh")
    (folder / "run.sh").chmod(0o755)
    text = "".join("\t".join(map(_word, line)) + "\n" for line in lines)
    head = f"tpulayer-plan\t1\t{_identity(folder, text)}\ttpulayer {__version__}\n"
    (folder / PLAN).write_text(head + text, encoding="utf-8")
    (folder / "README.txt").write_text(_readme(collected, list(programs)), encoding="utf-8")
    (folder / MANIFEST).write_text(json.dumps(_manifest(folder, collected), indent=1) + "\n")
    write_sums(folder)


def write_sums(folder: Path) -> None:
    """The list of all files of a pack with their SHA-256, as sha256sum reads and the program check holds them
    against it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / SUMS)
    lines = [f"{_hash(path)}  {path.relative_to(folder)}\n" for path in paths]
    (folder / SUMS).write_text("".join(lines))


def _line(word: str, given: Given, data: _Data) -> list[str]:
    raw = given.array.tobytes()
    shape = "x".join(map(str, given.array.shape))
    dtype = str(int(given.tensor.dtype))
    return [word, given.tensor.name, dtype, shape, str(len(raw)), str(given.room), DATA, str(data.add(raw))]


def _word(text: str) -> str:
    """Words are divided by tabs; names are printable, those of other compilers might not be."""
    if any(c in text for c in "\t\n\r\0"):
        raise UsageError(f"{text!r} cannot be a name in a pack", hint="rename the net or the tensor")
    return text


def _identity(folder: Path, plan: str) -> str:
    """What tells whether a result is of this pack: its plan, its nets and its data."""
    digest = hashlib.sha256(plan.encode())
    for path in (folder / DATA, *sorted((folder / "models").iterdir())):
        digest.update(_hash(path).encode())
    return digest.hexdigest()[:32]


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _manifest(folder: Path, collected: Collected) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "tpulayer": __version__,
        "id": (folder / PLAN).read_text(encoding="utf-8").split("\t")[2],
        "models": [
            {
                "file": f"models/{index}.bmodel",
                "dynamic": model.dynamic,
                "runs": [{"what": run.kind, "net": run.net, "stage": run.stage} for run in model.runs],
            }
            for index, model in enumerate(collected.models)
        ],
    }


_WHAT = {
    "layer": "a layer by itself",
    "whole": "the whole net, layer by layer",
    "net": "the net as it was compiled",
}
_STATIC = """\
Nothing here needs another firmware than the card's own: static nets use the two engines only. The images are
for experiments. Do not load them on a card that others use."""
_NEEDED = """\
Dynamic nets are run by the firmware in firmware/, which ./run.sh loads only with --load-firmware; without it
they are left out. Nobody has run this firmware on a card yet: it may stop the controller. Use a card that
nobody else uses. To go back, load the vendor's images with bin/MACHINE/load_firmware, or restart the
machine."""


def _readme(collected: Collected, machines: Sequence[str]) -> str:
    runs = [_run_text(run) for model in collected.models for run in model.runs]
    return Template((_FILES / "README.txt").read_text()).substitute(
        tool=f"tpulayer {__version__}",
        runs="\n".join(runs),
        firmware=_NEEDED if _dynamic(collected) else _STATIC,
        machines=" and ".join(machines),
    )


def _run_text(run: Run) -> str:
    edges = ", ".join(f"{g.tensor.name} {list(g.array.shape)}" for g in run.inputs)
    return f"  {run.title}: {_WHAT[run.kind]}; inputs {edges}"
