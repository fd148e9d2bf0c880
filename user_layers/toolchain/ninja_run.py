"""Run ninja: progress out, the compiler's own messages kept, ninja's noise dropped, a limit on waiting."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from firmware_sim.errors import BuildError, MissingError
from user_layers.toolchain.compilers import zig_environment
from user_layers.toolchain.ninja_file import relative
from user_layers.toolchain.report import Reporter

SILENCE_LIMIT = 300.0  # seconds without any compiler call ending; the slowest (libc++ by zig) takes about 50
_MARK = "\x02"
_END_LIMIT = 5.0


def ninja_binary() -> Path:
    """The ninja of the PyPI package, else one on the PATH. MissingError when there is none."""
    spec = find_spec("ninja")
    package = Path(spec.origin).parent if spec is not None and spec.origin else None
    candidates = [Path(sys.executable).parent / "ninja"]
    if package is not None:
        candidates += [package.parent / "bin" / "ninja", package / "data" / "bin" / "ninja"]
    on_path = shutil.which("ninja")
    if on_path:
        candidates.append(Path(on_path))
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    raise MissingError("ninja is not installed", hint="pip install ninja")


def run_ninja(
    root: Path,
    ninja_file: Path,
    targets: Iterable[Path],
    report: Reporter,
    *,
    label: str = "",
    limit: float = SILENCE_LIMIT,
) -> tuple[list[str], str]:
    """Build the targets; what was done (one description per command run) and the warnings that were printed.

    label: stands before every line of progress, where two parts are built at once.

    Errors: BuildError with the compilers' messages when something does not build, or when no command
    ends within `limit` seconds.
    """
    names = [relative(target, root) for target in targets]
    argv = [str(ninja_binary()), "-f", str(ninja_file), "-k", "0", *names]
    env = {**zig_environment(), "NINJA_STATUS": f"{_MARK}%f/%t{_MARK}", "LC_ALL": "C"}
    process = subprocess.Popen(
        argv, cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        lines = _lines(process, report, label, limit)
        code = process.wait(limit)
    finally:
        report.close()  # before what is said next, an error too
        _end(process)
    done, text = _sort(lines)
    if code != 0:
        raise BuildError(text.rstrip() or f"ninja ended with {code}")
    return done, text


def dependencies(root: Path, ninja_file: Path) -> dict[Path, list[Path]]:
    """Object -> what it was made from, source and headers, as the compilers reported it."""
    done = subprocess.run(
        [str(ninja_binary()), "-f", str(ninja_file), "-t", "deps"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"ninja -t deps: {(done.stdout + done.stderr).strip()}")
    found: dict[Path, list[Path]] = {}
    current: list[Path] = []
    for line in done.stdout.splitlines():
        if line.startswith("    "):
            current.append(root / line[4:])
        elif ": #deps " in line:
            current = found.setdefault(root / line.rsplit(": #deps ", 1)[0], [])
    return found


def _lines(process: subprocess.Popen[bytes], report: Reporter, label: str, limit: float) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    rest = b""
    last = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(min(1.0, limit)):
                if time.monotonic() > last + limit:
                    raise BuildError(
                        f"no compiler call ended within {limit:.0f} s; the build was stopped",
                        hint="run it again; if it stays, try another compiler (TPULAYER_CC)",
                    )
                report.tick()
                continue
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                break
            last = time.monotonic()
            *complete, rest = (rest + data).split(b"\n")
            for raw in complete:
                line = raw.decode(errors="replace")
                lines.append(line)
                if line.startswith(_MARK):
                    _, count, what = line.split(_MARK, 2)
                    report.progress(f"{label}[{count}] {what}")
    if rest:
        lines.append(rest.decode(errors="replace"))
    return lines


def _sort(lines: Sequence[str]) -> tuple[list[str], str]:
    """Split ninja's output into descriptions of what ran, and the compilers' text."""
    done = []
    text = []
    skip = False
    for line in lines:
        if skip:  # the command line of a failed step
            skip = False
        elif line.startswith(_MARK):
            done.append(line.split(_MARK, 2)[2])
        elif line.startswith("FAILED: "):
            skip = True
        elif not line.startswith(("ninja: build stopped", "ninja: no work to do", "ninja: Entering")):
            text.append(line)
    return done, "\n".join(text) + "\n" if text else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End ninja and, through it, its compilers (it passes SIGTERM on; it cannot pass SIGKILL on)."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_END_LIMIT)
    if process.stdout is not None:
        process.stdout.close()
