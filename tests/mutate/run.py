"""Run mutants: each is applied to a copy of the checkout, and its tests must fail there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutate.mutants import Mutant
from tests.paths import ROOT

_PYTEST = (
    *("-x", "-q", "-n0", "-p", "no:cacheprovider", "--hypothesis-profile=suite-unshrunk"),
    *("-m", "thorough or not thorough"),
)
LIMIT = 600.0  # seconds for the tests of one mutant
_PASSED, _FAILED, _INTERRUPTED, _USAGE = 0, 1, 2, 4  # pytest's exit codes; 2: a file cannot be loaded


class RunError(Exception):
    """What is wrong with the checkout or this machine, not with a mutant."""


@dataclass
class Result:
    """What became of one mutant."""

    mutant: Mutant
    killed: bool
    seconds: float
    by: str
    """The test that failed, or how else it ended; empty when none did."""
    place: str
    """FILE:LINE: what changed."""

    @property
    def accepted(self) -> bool:
        """Nothing is to be done about it."""
        return self.killed or (bool(self.mutant.why) and not self.by)

    @property
    def word(self) -> str:
        if self.killed:
            return "killed"
        return "UNCLEAR" if self.by else "explained" if self.mutant.why else "SURVIVED"


class Copy:
    """A copy of the checkout with its own caches, so that only what a mutant changes is built again."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self._folder = folder
        self._cache = folder / "cache"
        self._child: subprocess.Popen[bytes] | None = None
        self._cache.mkdir(parents=True, exist_ok=True)
        _mirror(ROOT, self.root)

    def run(self, mutant: Mutant, limit: float = LIMIT) -> Result:
        """Apply it, run its tests, restore what was there. RunError when pytest itself cannot run."""
        place = mutant.shown(self.root)
        begin = time.monotonic()
        with self._applied(mutant):
            code, text = self._pytest([f"tests/{name}" for name in mutant.tests], limit)
        if code is None:
            by = f"time: not done after {limit:.0f} s"
        elif code < 0:
            by = f"signal {-code} ended the tests"
        elif code > _INTERRUPTED:
            raise RunError(f"{mutant.id}: pytest ended with {code}:\n{text[-3000:]}")
        else:
            by = next(_failed(text), text[-3000:] if code else "")
        return Result(mutant, code != _PASSED, time.monotonic() - begin, by, place)

    def unsound(self, tests: Sequence[str]) -> set[str]:
        """Those of the tests that fail without any mutant, too."""
        named = sorted({test for test in tests if "::" in test})
        files = sorted({test for test in tests if re.fullmatch(r"tests/\S+\.py", test)})  # not loaded with it
        failed: set[str] = set()
        for options, words in (((), named), (("--collect-only",), files)):
            if words:
                code, text = self._pytest([*options, "--maxfail=0", *words], None)
                if code == _USAGE:  # a parameter is written so that pytest does not know it again
                    whole = {word.partition("[")[0] for word in words}
                    code, text = self._pytest(["--maxfail=0", *sorted(whole)], None)
                if code not in (_PASSED, _FAILED, _INTERRUPTED):
                    raise RunError(f"pytest ended with {code}:\n{text[-3000:]}")
                failed |= set(_failed(text))
        return failed

    def stop(self) -> None:
        """End the tests that run, from another thread."""
        if (child := self._child) is not None and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)

    @contextmanager
    def _applied(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        before, stamp = path.read_bytes(), path.stat()
        built = set(self._built())
        try:
            path.write_text(mutant.mutated(self.root), encoding="utf-8")
            # Python takes a file of the same size and second for the one that it compiled.
            os.utime(path, (stamp.st_atime + 10, stamp.st_mtime + 10))
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            for made in set(self._built()) - built:  # else the unchanged part leaves the cache
                if made.is_dir():
                    shutil.rmtree(made, ignore_errors=True)
                else:
                    made.unlink(missing_ok=True)

    def _built(self) -> list[Path]:
        return [*(self._cache / "builtin").glob("*"), *(self._cache / "loops").glob("*")]

    def _pytest(self, words: Sequence[str], limit: float | None) -> tuple[int | None, str]:
        """Its exit code (None: stopped after `limit` seconds) and output."""
        env = {**os.environ, "PYTHONPATH": str(self.root), "TPULAYER_CACHE": str(self._cache)}
        env.pop("TPULAYER_WORKSPACE", None)
        output = self._folder / "output.txt"
        with output.open("wb") as file:
            self._child = child = subprocess.Popen(
                [sys.executable, "-m", "pytest", *_PYTEST, f"--basetemp={self._folder / 'tmp'}", *words],
                cwd=self.root,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = child.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self.stop()
                child.wait()
        return code, output.read_text(encoding="utf-8", errors="replace")


def _failed(text: str) -> Iterator[str]:
    """The tests, and files that could not be loaded, of pytest's last lines."""
    return (found[1] for found in re.finditer(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE))


def check(results: Sequence[Result], copy: Copy) -> None:
    """A test that fails without the mutant, too, killed nothing: correct the results."""
    unsound = copy.unsound([result.by for result in results if result.killed])
    for result in results:
        if result.killed and result.by in unsound:
            result.killed, result.by = False, f"fails without the mutant, too: {result.by}"


def _mirror(source: Path, target: Path) -> None:
    """Make `target` hold what git knows of `source` or would add. Times are kept: Python looks at them."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=source,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        raise RunError(f"git does not list the files of {source}: {os.fsdecode(listing.stderr).strip()}")
    names = {name for name in os.fsdecode(listing.stdout).split("\0") if name and (source / name).is_file()}
    for name in names:
        old, new = source / name, target / name
        if not new.is_file() or old.read_bytes() != new.read_bytes():
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(old, new)
    for path in target.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and str(path.relative_to(target)) not in names:
            path.unlink()
