"""Asking the vendor's functional model: the same descriptors, memory before -> memory after."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import BuildError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from tests.oracle.model_child import DDR_BYTES, LIBRARIES
from user_layers.files import write_atomic
from user_layers.toolchain.cache import locked

U8 = npt.NDArray[np.uint8]

PACKAGE = "tpu_mlir==1.30.2"
_SPACES = {Space.LOCAL: 0, Space.DDR: 1, Space.L2: 2}
_ENGINES = {Engine.BD: 0, Engine.GDMA: 1}
_FETCH_SECONDS, _ANSWER_SECONDS = 180.0, 60.0


class Unavailable(Exception):
    """The model cannot be had here; the text says why."""


class Refused(Exception):
    """A check inside the model failed; the text is what it printed."""


def cache() -> Path:
    """Where what is fetched stays."""
    return Path(os.environ.get("TPULAYER_ORACLE", Path.home() / ".cache" / "bm1684-oracle"))


RUNTIME = ("libbmlib.so.0", "libbmrt.so.1.0")  # for programs in C; they load the model as libcmodel.so


def fetch(names: tuple[str, ...] = LIBRARIES) -> Path:
    """The folder of the model's libraries, downloaded once. Raises Unavailable."""
    folder, why = _fetched(names)
    if why:
        raise Unavailable(why)
    return folder


@lru_cache(maxsize=2)
def _fetched(names: tuple[str, ...]) -> tuple[Path, str]:
    """The folder, and why it could not be filled: without a network one does not want to wait again."""
    folder = cache() / "lib"
    try:
        with locked(cache() / "lock"):  # of the processes that run tests one downloads
            if not all((folder / name).exists() for name in names):
                _download(folder, names)
    except (OSError, subprocess.SubprocessError, StopIteration, KeyError, BuildError) as error:
        return folder, f"{PACKAGE} cannot be fetched: {error}"
    return folder, ""


def _download(folder: Path, names: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", "3.10", "--implementation", "cp", "--platform", "manylinux_2_35_x86_64"]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [*command, "-d", scratch, PACKAGE], check=True, capture_output=True, timeout=_FETCH_SECONDS
        )
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as archive:
            for name in names:
                write_atomic(folder / name, archive.read(f"tpu_mlir/lib/{name}"))


@dataclass
class Answer:
    """Bytes of each region asked for, and the seconds of each execution."""

    after: list[U8]
    seconds: list[float]


class Oracle:
    """The model in a child process; started again after a refusal. Context manager."""

    def __init__(self, ddr_bytes: int = DDR_BYTES) -> None:
        self._folder = fetch()
        self._ddr_bytes = ddr_bytes
        self._child: subprocess.Popen[bytes] | None = None
        self._folder_for_dumps = tempfile.TemporaryDirectory()  # the model leaves files where it runs
        # not a pipe: the model may say more than a pipe holds
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._said.close()
        self._folder_for_dumps.cleanup()

    def _stop(self) -> str:
        """End the child; what it printed last."""
        child, self._child = self._child, None
        if child is None:
            return ""
        with contextlib.suppress(OSError):
            child.kill()
        child.communicate()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.truncate(0)
        self._said.seek(0)
        checks = [line for line in lines if "ASSERT" in line]  # before it lists its stack
        return " ".join(checks or lines[-1:]) or "the model ended without a word"

    def ask(
        self,
        descriptors: Sequence[tuple[Engine, bytes]],
        before: Sequence[tuple[Space, int, U8]],
        read: Sequence[tuple[Space, int, int]],
        *,
        repeat: int = 1,
        checks: bool = True,
    ) -> Answer:
        """Execute; memory is zero but for `before` and the tables. Raises Refused, Unavailable.

        checks: false passes over the model's own checks. Sums per channel need it: the model has a check
        there that always fails, though it computes them.
        """
        if self._child is None:
            script = Path(__file__).with_name("model_child.py")
            self._child = subprocess.Popen(
                [sys.executable, str(script), str(self._folder), str(self._ddr_bytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                cwd=self._folder_for_dumps.name,
            )
        child = self._child
        assert child.stdin and child.stdout
        request = {
            "before": [(_SPACES[s], offset, data.tobytes()) for s, offset, data in before],
            "descriptors": [(_ENGINES[e], data) for e, data in descriptors],
            "read": [(_SPACES[s], offset, size) for s, offset, size in read],
            "repeat": repeat,
            "checks": checks,
        }
        try:
            pickle.dump(request, child.stdin)
            child.stdin.flush()
            ready, _, _ = select.select([child.stdout], [], [], _ANSWER_SECONDS)
            reply = pickle.load(child.stdout) if ready else None
        except (EOFError, BrokenPipeError):
            raise Refused(self._stop()) from None
        if reply is None:
            self._stop()
            raise Unavailable(f"the model did not answer within {_ANSWER_SECONDS:.0f} s")
        return Answer([np.frombuffer(data, np.uint8) for data in reply["after"]], reply["seconds"])
