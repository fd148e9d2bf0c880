"""Files to write from templates, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from firmware_sim.errors import UsageError
from user_layers.files import write_together


@dataclass(frozen=True)
class Made:
    """What a command did. files: written (or, in a dry run, to be written); kept: existing files
    that were left as they are; next_command: what the user does now."""

    files: tuple[Path, ...]
    kept: tuple[Path, ...] = ()
    next_command: str = ""


def render(template: str, **values: object) -> str:
    """A template of this package, filled in."""
    return str(_environment().get_template(template).render(values))


@cache
def _environment() -> Any:
    import jinja2  # slow to import

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def write_all(files: Mapping[Path, str | bytes], executable: frozenset[Path] = frozenset()) -> None:
    """Write files, all or none. UsageError says why."""
    try:
        write_together(files, executable=executable)
    except OSError as e:
        raise UsageError(
            f"cannot write {e.filename}: {e.strerror}; nothing was changed",
            hint="check the folder's permissions and the free space",
        ) from e
