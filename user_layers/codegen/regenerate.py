"""Writes what is made ahead of builds from the chip's tables: `python -m user_layers.codegen.regenerate`."""

from __future__ import annotations

from pathlib import Path

from firmware_sim.isa.c_header import c_headers
from user_layers.files import write_if_changed
from user_layers.workspace import sdk_dir


def generated() -> dict[Path, str]:
    """The files and their texts."""
    return {sdk_dir() / "generated" / name: text for name, text in c_headers().items()}


def main() -> None:
    """Write the files that would change."""
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_if_changed(path, text)


if __name__ == "__main__":
    main()
