"""The programs for a card in tests: built here, on libraries without a device, and packs made by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.paths import SOURCES
from tests.support.firmware_harness import SDK
from user_layers.card import programs
from user_layers.card.pack import write_sums
from user_layers.toolchain.compilers import Compiler, choose, run_compiler

LIMIT = 120.0  # seconds
FLAGS = programs._FLAGS
FLOATS = npt.NDArray[np.float32]


def with_system_compiler(patch: pytest.MonkeyPatch) -> None:
    """The programs are built by what builds all else in tests; zig would make a C library first. What C
    leaves undefined ends them."""
    patch.setattr(programs, "zig", lambda _language, _machine: choose().c)
    patch.setattr(programs, "_FLAGS", (*FLAGS, "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"))


def mock_libraries(folder: Path, compiler: Compiler) -> Path:
    """libbmlib.so and libbmrt.so of tests/sources/card_mock."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, uses in (("bmlib", ()), ("bmrt", ("-lbmlib",))):
        library = folder / f"lib{name}.so"
        words = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{SDK / 'include'}"]
        words += [str(SOURCES / "card_mock" / f"{name}.c"), f"-L{folder}", *uses]
        done = run_compiler((*compiler.argv, *words, f"-Wl,-soname,{library.name}", "-o", str(library)))
        assert done.returncode == 0, done.stderr
    return folder


def hand_made_pack(folder: Path, machine: str, built: Path, runs: Sequence[tuple[str, str, FLOATS]]) -> Path:
    """A pack of nets that copy: (kind, net, array). Nets named one_... have the array once, others twice.
    Nets of the kind dynamic are in a second model, which is one."""
    for name in ("models", "firmware", f"bin/{machine}"):
        (folder / name).mkdir(parents=True)
    for name in ("models/0.bmodel", "models/1.bmodel", "firmware/tcm.bin", "firmware/ddr.bin"):
        (folder / name).write_text(name)
    for program in programs.PROGRAMS:
        shutil.copy(built / program, folder / "bin" / machine / program)
    shutil.copy(Path(programs.__file__).with_name("files") / "run.sh", folder / "run.sh")
    lines, data = (
        ["tpulayer-plan\t1\tabc\ttpulayer test", "firmware\tfirmware/tcm.bin\tfirmware/ddr.bin"],
        b"",
    )
    for index, dynamic in enumerate((False, True)):
        lines.append(f"model\tmodels/{index}.bmodel\t{int(dynamic)}")
        for kind, net, array in runs:
            if (kind == "dynamic") != dynamic:
                continue
            lines.append(f"run\t{kind}\t{net}\t0\t{net}")
            shape = "x".join(map(str, array.shape))
            for k in range(1 if net.startswith("one_") else 2):
                for word in ("in", "out"):
                    sizes = f"{array.nbytes}\t{array.nbytes + 64 * k}"
                    lines.append(f"{word}\t{word}{k}\t0\t{shape}\t{sizes}\tdata.bin\t{len(data)}")
            data += array.tobytes()
    (folder / "plan.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "data.bin").write_bytes(data)
    write_sums(folder)
    return folder


def run_sh(
    pack: Path, *words: str, libraries: Path | str, code: int = 0, **env: Any
) -> subprocess.CompletedProcess[str]:
    """run.sh of a pack, which must end with this code. What load_firmware records stays beside the pack."""
    known = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "BMRUNTIME_FIRMWARE_PATH")}
    done = subprocess.run(
        [str(pack / "run.sh"), *words],
        env={
            **known,
            "LD_LIBRARY_PATH": str(libraries),
            "TPULAYER_STATE": str(pack.with_name(f"{pack.name}_state")),
            **env,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == code, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Those of this kind in a folder of results."""
    whole = json.loads((folder / "result.json").read_text())
    return [record for record in whole["records"] if record["kind"] == kind]
