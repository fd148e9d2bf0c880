"""Writes what c_source.py makes into sdk/host/generated, and what stub.py makes here.

Called as python -m user_layers.bmcompiler.regenerate
"""

from __future__ import annotations

from pathlib import Path

from user_layers.bmcompiler.c_source import CALLS, calls_source, headers
from user_layers.bmcompiler.stub import STUB, stub
from user_layers.codegen.generate import sdk_types
from user_layers.files import write_if_changed
from user_layers.workspace import sdk_dir


def generated() -> dict[Path, str]:
    """The files and their texts."""
    folder = sdk_dir() / "host" / "generated"
    sources = {**headers(sdk_types()), CALLS: calls_source()}
    return {folder / name: text for name, text in sources.items()} | {Path(__file__).with_name(STUB): stub()}


def main() -> None:
    """Write the files that differ from what is there; the others keep their times."""
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_if_changed(path, text)


if __name__ == "__main__":
    main()
