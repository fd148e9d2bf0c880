"""The source files that commands come from, as far as they are on this machine."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from firmware_sim.checks.finding import Frame
from user_layers.files import read_input


@cache
def lines_of(file: str) -> tuple[str, ...]:
    """The lines of a file, without their ends; none where it cannot be read."""
    try:
        return tuple(read_input(Path(file)).decode(errors="replace").splitlines()) if file else ()
    except OSError:
        return ()


def line_of(frame: Frame) -> str:
    """The text of one line, without the blanks around it; "" where nobody knows."""
    lines = lines_of(frame.file)
    return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""
