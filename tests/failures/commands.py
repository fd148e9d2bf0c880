"""The commands that faults are injected into, and the folder that each starts from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

LIMIT_S = 300.0
_PLAIN = "import ctypes; from user_layers.cli.main import main; main()"
_MAIN = _PLAIN.replace("main()", "ctypes.CDLL(None).fault_arm(); main()")
_NOT_STATE = ("build", "__pycache__")  # what is made again when it is damaged

State = dict[str, bytes]


@dataclass(frozen=True)
class Command:
    """words: of `tpulayer`. prepare: makes the folder ready before each run. file_by_file: its files are made
    again when they are run again, so that each may be old or new; else all are the one or the other."""

    name: str
    words: tuple[str, ...]
    prepare: Callable[[Path], object] = lambda _: None
    file_by_file: bool = False
    built: bool = False


@dataclass(frozen=True)
class Ran:
    """What one run left. code: None when it was stopped."""

    code: int | None
    text: str
    state: State


def _change_kernel(folder: Path) -> None:
    path = folder / "device" / "bm_device_scale.c"
    path.write_text(path.read_text() + "\nint scale_changed;\n")


def _forget_generated(folder: Path) -> None:
    shutil.rmtree(folder / "generated", ignore_errors=True)
    (folder / "config" / "op_types.lock").unlink(missing_ok=True)


COMMANDS = (
    Command("init", ("init", "new", "--demo")),
    Command("add_layer", ("add_layer", "extra", "1")),
    Command("del_layer", ("del_layer", "scale", "--yes")),
    Command("list_layers", ("list_layers",)),
    Command("gen_entry", ("gen_entry",), _forget_generated, file_by_file=True),
    Command("build_layers, nothing changed", ("build_layers",), file_by_file=True, built=True),
    Command("build_layers, one changed", ("build_layers",), _change_kernel, file_by_file=True, built=True),
    Command("compile", ("compile", "../small.onnx", "-o", "again"), built=True),
    Command(
        "bmrt_test",
        ("bmrt_test", "--context_dir", "net", "--output", "out.npz"),
        built=True,
    ),
)


class Place:
    """A folder with a workspace, and copies of it from which it is put back before each run."""

    def __init__(self, folder: Path, *, built: bool) -> None:
        self.folder = folder
        self.work = folder / "work"
        self._kept = {False: folder / "plain", True: folder / "built"}
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        for words in (("init", "."), ("add_layer", "scale", "1"), ("gen_entry",)):
            self._sure(words)
        self._keep(False)
        if built:
            _small_model(folder / "small.onnx")
            self._sure(("build_layers",))
            self._sure(("compile", "../small.onnx", "-o", "net"))
            self._sure(("build_layers",))  # what was written while the first one ran
            self._keep(True)

    def _keep(self, built: bool) -> None:
        shutil.rmtree(self._kept[built], ignore_errors=True)
        shutil.copytree(self.work, self._kept[built], symlinks=True)

    def _sure(self, words: tuple[str, ...]) -> None:
        ran = self._run(words, {}, _PLAIN)
        if ran.code != 0:
            raise RuntimeError(f"{' '.join(words)} does not work: {ran.text}")

    def restore(self, command: Command) -> State:
        """The folder as before the command."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self._kept[command.built], self.work, symlinks=True)
        command.prepare(self.work)
        return self.state()

    def run(self, command: Command, more: dict[str, str]) -> Ran:
        """The command, with faults if the environment has them."""
        return self._run(command.words, more, _MAIN if more else _PLAIN)

    def _run(self, words: tuple[str, ...], more: dict[str, str], code: str) -> Ran:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "0", **more}
        with (
            open(self.folder / "said", "w+b") as said,
            subprocess.Popen(
                [sys.executable, "-c", code, *words],
                cwd=self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            ) as process,
        ):
            try:
                found: int | None = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                found = None
            said.seek(0)
            text = said.read().decode(errors="replace")
        return Ran(found, text, self.state())

    def state(self) -> State:
        """Every file that counts, and its content."""
        return {str(path.relative_to(self.work)): path.read_bytes() for path in _files(self.work)}


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).parts
        if path.is_file() and path.suffix != ".tmp" and not any(name in inner for name in _NOT_STATE):
            yield path


def _small_model(path: Path) -> None:
    import onnx

    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Relu", ["x"], ["h"]), onnx.helper.make_node("Det", ["h"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "small", [value("x", 1, [2, 3, 3])], [value("y", 1, [2])])
    onnx.save(
        onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]), path
    )
