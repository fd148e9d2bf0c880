"""What the checks of a command's runs found: told at its end, in a SARIF file, and by its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.checks.error import CheckError
from firmware_sim.checks.merged import merged
from user_layers import __version__

if TYPE_CHECKING:
    from firmware_sim.checks.finding import Finding

_COLOURS = {"place": "1", "rule": "31;1", "hint": "36"}


class Found:
    """Gathers findings. sarif: the file to write them to, or None."""

    def __init__(self, sarif: Path | None = None) -> None:
        self._sarif = sarif
        self._all: list[Finding] = []

    def take(self, findings: Sequence[Finding]) -> None:
        """Those of one request."""
        self._all += findings

    @property
    def findings(self) -> list[Finding]:
        """All so far, each once."""
        return merged(self._all)

    def code(self, code: int = 0) -> int:
        """The exit code of a command that ends with `code` without them: another failure counts more."""
        wrong = any(not finding.about.advice for finding in self._all)
        return code or (CheckError.exit_code if wrong else 0)

    def end(self) -> None:
        """Tell them on stderr, and write the file."""
        if self._all:
            from firmware_sim.checks.rules import limit
            from firmware_sim.checks.text import plain, report

            colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
            print(report(self.findings, limit(None), paint=_painted if colour else plain), file=sys.stderr)
        if self._sarif is not None:
            write_sarif(self._sarif, self.findings)


@contextmanager
def checking(sarif: Path | None) -> Iterator[Found]:
    """Around a command's work: what checks find in there ends nothing, and is told at the end, also where
    something else ends it."""
    from firmware_sim.device.findings import together

    found = Found(sarif)
    try:
        with together(on_findings=found.take):
            yield found
    finally:
        found.end()


def write_sarif(path: Path, findings: Sequence[Finding]) -> None:
    """The file, whole or not at all; places are relative to the workspace, or to the current folder outside
    any. UsageError where it cannot be written."""
    import json

    from firmware_sim.checks.export import as_sarif
    from firmware_sim.errors import UsageError
    from user_layers.files import write_atomic
    from user_layers.workspace import Workspace

    ws = Workspace.around()
    log = as_sarif(findings, version=__version__, folder=Path.cwd() if ws is None else ws.root)
    try:
        write_atomic(path, f"{json.dumps(log, indent=1)}\n".encode())
    except OSError as error:
        raise UsageError(f"--sarif {path} cannot be written: {error.strerror or error}") from None


def _painted(part: str, text: str) -> str:
    return f"\x1b[{_COLOURS[part]}m{text}\x1b[0m"
