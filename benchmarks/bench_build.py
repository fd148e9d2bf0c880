"""How long builds take, as a user waits for them: each in a new process, start of Python included.

    python benchmarks/bench_build.py [--first]

--first also measures a first build with zig and an empty cache (half a minute to a minute).
The aims are those of docs/measured.md.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 9
MAIN = [sys.executable, "-m", "user_layers.cli.main"]
ROOT = Path(__file__).resolve().parent.parent


def tpulayer(words: list[str], cwd: Path, env: dict[str, str]) -> float:
    """Seconds of one command."""
    begin = time.perf_counter()
    subprocess.run(
        [*MAIN, *words],
        cwd=cwd,
        env=env,
        check=True,
        timeout=600,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begin


def repeated(measure: Callable[[int], float]) -> list[float]:
    return [measure(i) for i in range(ROUNDS)]


def measure(env: dict[str, str], folder: Path) -> dict[str, list[float]]:
    """Case -> seconds of each round, with one choice of compiler."""
    tpulayer(["init", str(folder), "--demo"], ROOT, env)
    first = tpulayer(["build_layers"], folder, env)
    kernel = folder / "device" / "bm_device_double.c"
    header = folder / "host" / "bm_host_double.h"
    text, other = kernel.read_text(), header.read_text()

    def after_edit(path: Path, old: str) -> Callable[[int], float]:
        def run(i: int) -> float:
            path.write_text(f"{old}\n/* {i} */\n")
            return tpulayer(["build_layers"], folder, env)

        return run

    kernel_changed = repeated(after_edit(kernel, text))
    descriptor_changed = repeated(after_edit(header, other))
    time.sleep(0.1)  # files as new as a build count as changed
    tpulayer(["build_layers"], folder, env)
    return {
        "first build of a workspace": [first],
        "one kernel changed": kernel_changed,
        "one descriptor changed": descriptor_changed,
        "nothing changed": repeated(lambda _: tpulayer(["build_layers"], folder, env)),
    }


def main() -> None:
    aims = {"one kernel changed": 1.0, "nothing changed": 0.2}
    base = {**os.environ, "PYTHONPATH": str(ROOT)}
    columns: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="tpulayer-bench-") as name:
        folder = Path(name)
        if "--first" in sys.argv[1:]:
            env = {**base, "TPULAYER_CC": "zig", "TPULAYER_CACHE": str(folder / "cache")}
            tpulayer(["init", str(folder / "fresh"), "--demo"], ROOT, env)
            seconds = tpulayer(["build_layers"], folder / "fresh", env)
            print(f"first build on a machine, with zig: {seconds:.1f} s (aim 60 s)\n")
        for title, change in (("default", {}), ("zig", {"TPULAYER_CC": "zig"})):
            columns[title] = measure({**base, **change}, folder / title)
        quick = {
            "tpulayer --help": (0.15, repeated(lambda _: tpulayer(["--help"], folder, base))),
            "python -c pass": (0.0, repeated(lambda _: plain(base))),
        }
    print(
        f"seconds, median of {ROUNDS} (smallest)     "
        + "".join(f"{title:>18}" for title in columns)
        + "    aim"
    )
    for case in columns["default"]:
        cells = "".join(f"{statistics.median(c[case]):9.3f} ({min(c[case]):.3f})" for c in columns.values())
        print(f"{case:36} {cells}    {aims.get(case, '')}")
    for case, (aim, seconds) in quick.items():
        print(f"{case:36} {statistics.median(seconds):9.3f} ({min(seconds):.3f})    {aim or ''}")


def plain(env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=env, check=True, timeout=60)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
