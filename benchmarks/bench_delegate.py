"""What a call of libtpulayer_delegate.so costs above bmrt_launch_tensor_ex of the same net.

python -m benchmarks.bench_delegate [TIMES]: medians in microseconds, and of the differences.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.support.toy_framework import TOY, toy
from user_layers.delegates.build import CORE, core_library, delegate_dir
from user_layers.delegates.compile import compile_partition
from user_layers.delegates.program import pack
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.homes import host_libraries
from user_layers.toolkit import Toolkit
from user_layers.workspace import sdk_dir

# Channels last, which the net has first: each call moves the axes of input and output.
SHAPES = ((1, 8, 8, 3), (1, 112, 112, 3), (1, 224, 224, 3), (1, 56, 56, 64))


def program(folder: Path) -> Path:
    """The C program, built."""
    libraries, core, made = host_libraries(builtin_artifacts()), core_library(), folder / "delegate_calls"
    source = Path(__file__).with_name("delegate_calls.c")
    words: list[str | Path] = [*choose().c.argv, "-O2", source, f"-I{sdk_dir() / 'include'}"]
    words += [f"-I{delegate_dir() / 'core'}", core.parent / CORE, f"-L{libraries}", "-lbmrt", "-lbmlib"]
    words += [f"-Wl,-rpath,{core.parent}", f"-Wl,-rpath,{libraries}", "-o", made]
    subprocess.run([*map(str, words)], check=True)
    return made


def main() -> None:
    times = sys.argv[1] if len(sys.argv) > 1 else "200"
    with tempfile.TemporaryDirectory() as name, Toolkit() as toolkit:
        folder = Path(name)
        os.chdir(folder)
        calls = program(folder)
        print("us                  by the clock               processor time of the calling thread")
        print("input                 bmrt  delegate   above      bmrt  delegate   above")
        for shape in SHAPES:
            out = (shape[0], shape[1] // 2, shape[2] // 2, shape[3])
            model = toy({"x": shape, "y": out}, [("POOL", ["x"], "y", {"size": 2})], ["x"], ["y"])
            made = compile_partition(model, TOY, name="net", toolkit=toolkit)
            (folder / "program").write_bytes(pack([made]))
            (folder / "bmodel").write_bytes(made.bmodel)
            done = subprocess.run(
                [str(calls), "program", "bmodel", "net", times], check=True, stdout=subprocess.PIPE, text=True
            )
            pairs = [tuple(map(float, line.split())) for line in done.stdout.splitlines()[5:]]
            bmrt, delegate, bmrt_own, delegate_own = map(median, zip(*pairs, strict=True))
            above = median(row[1] - row[0] for row in pairs)
            above_own = median(row[3] - row[2] for row in pairs)
            print(f"{shape!s:18} {bmrt:8.0f} {delegate:9.0f} {above:7.0f}", end="")
            print(f"  {bmrt_own:8.0f} {delegate_own:9.0f} {above_own:7.0f}")


if __name__ == "__main__":
    main()
