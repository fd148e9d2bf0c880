"""Make generated/ from model.fbs with flatc: `python -m user_layers.bmodel.regenerate`.

Needs Debian's flatbuffers-compiler, at development time only: the output is committed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from firmware_sim.errors import MissingError

FLATC_VERSION = "2.0.8"
HERE = Path(__file__).parent
BANNER = (
    f"# Generated from user_layers/bmodel/model.fbs by flatc {FLATC_VERSION}; do not edit.\n"
    "# Regenerate: python -m user_layers.bmodel.regenerate\n"
)


def flatc_version() -> str | None:
    """Version of the flatc on the path, or None when there is none."""
    if shutil.which("flatc") is None:
        return None
    reply = subprocess.run(["flatc", "--version"], capture_output=True, text=True, timeout=10, check=True)
    found = re.search(r"\d+(\.\d+)+", reply.stdout)
    return found.group() if found else None


def generate() -> dict[str, str]:
    """File name -> text of every generated module. Raises MissingError without the right flatc."""
    found = flatc_version()
    if found != FLATC_VERSION:
        raise MissingError(
            f"flatc {FLATC_VERSION} is needed to regenerate the bmodel classes; found {found or 'none'}",
            hint="apt-get install flatbuffers-compiler (Debian 12)",
        )
    with tempfile.TemporaryDirectory() as folder:
        options = ["--python", "--gen-mutable", "--gen-object-api", "-o", folder]
        command = ["flatc", *options, str(HERE / "model.fbs")]
        subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        # flatc lays the namespace out as folders, with an __init__.py in each: only the last is ours.
        made = Path(folder, "user_layers", "bmodel", "generated")
        return {path.name: BANNER + path.read_text() for path in sorted(made.glob("*.py"))}


def main() -> None:
    """Replace everything in generated/ by what flatc makes now."""
    target = HERE / "generated"
    target.mkdir(exist_ok=True)
    for old in target.glob("*.py"):
        old.unlink()
    for name, text in generate().items():
        (target / name).write_text(text)


if __name__ == "__main__":
    main()
