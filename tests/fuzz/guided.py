"""Fuzzing that is guided by coverage: libFuzzer, as the package atheris brings it, keeps and changes those
inputs that reach new branches of Python, and of the firmware's C.

It runs in a process of its own (guided_child.py), which ends with what crashes it, runs too long or takes too
much memory; this side keeps the input, says how to repeat it, and starts the process again for the time left.
"""

from __future__ import annotations

import abc
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from firmware_sim.errors import MissingError
from tests.fuzz.driver import CORPUS, Report, kind_of, save
from tests.fuzz.inputs import Inputs

_GRACE = 120.0  # s that the process may take to start and to end
_ENDS = re.compile(r"(?:crash|timeout|oom)-[0-9a-f]+")
_STATUS = re.compile(r"^#(\d+)\s.* cov: (\d+) ft: \d+ corp: (\d+)", re.MULTILINE)
_WHY = re.compile(
    r"(?:SUMMARY: |ERROR: libFuzzer: |==\d+==ERROR: |ERROR: AddressSanitizer: )(.*)|^(.*Error: .*)$",
    re.MULTILINE,
)
_STACK = 1 << 20
_SAME = 20  # ends of the process for one reason, then the run is over


class Guided(Inputs):
    """A target of inputs that coverage guides."""

    longest: ClassVar[int] = 4096  # bytes of an input
    own: ClassVar[int] = 3
    """Of so many new inputs one comes from `changed`, the others from libFuzzer."""

    words: ClassVar[tuple[bytes, ...]] = ()
    """What a grammar of the inputs would know: magic numbers, names."""

    def start(self) -> None:
        """Once in the process that is watched."""

    def environment(self) -> dict[str, str]:
        """What that process needs in its environment."""
        return {}

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As on the command line."""


# ---- the inputs that are kept ----


def kept(name: str) -> list[bytes]:
    """The inputs of corpus/NAME.zip; none where there is no such file."""
    path = CORPUS / f"{name}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(member) for member in sorted(archive.namelist())]


def keep_inputs(name: str, inputs: Iterable[bytes]) -> Path:
    """Write corpus/NAME.zip: the same bytes for the same inputs."""
    path = CORPUS / f"{name}.zip"
    temporary = path.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for number, data in enumerate(sorted(set(inputs), key=lambda data: (len(data), data))):
            info = zipfile.ZipInfo(f"{number:04d}")
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    os.replace(temporary, path)
    return path


# ---- running ----


def require_atheris() -> None:
    """MissingError where the fuzzer is not installed."""
    if find_spec("atheris") is None:
        raise MissingError(
            "fuzzing guided by coverage needs the package atheris, which is not installed",
            hint="pip install --require-hashes -r requirements-fuzz.lock, on x86-64 Linux; "
            "--unguided needs nothing",
        )


def _small_stack() -> None:
    """AddressSanitizer clears what it knows of the whole stack at every longjmp: each error of firmware."""
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))


class _Run:
    def __init__(self, target: Guided, folder: Path, corpus: Path, keep: Path, seed: int) -> None:
        self.report = Report(target.name)
        self._target, self._folder, self._corpus, self._keep = target, folder, corpus, keep
        self._seed = seed
        self._ends: Counter[str] = Counter()
        self._environment = {**os.environ, **target.environment()}

    def command(self, *options: str) -> list[str]:
        target = self._target
        words = ["".join(f"\\x{byte:02x}" for byte in word) for word in target.words]
        dictionary = self._folder / "words"
        dictionary.write_text("".join(f'"{word}"\n' for word in words))
        own = [target.name, str(self._keep), str(self._folder / "stats.json")]
        return [
            *(sys.executable, "-m", "tests.fuzz.guided_child", *own),
            *(f"-max_len={target.longest}", f"-timeout={target.limit}", f"-rss_limit_mb={target.megabytes}"),
            *(f"-malloc_limit_mb={target.megabytes // 2}", f"-artifact_prefix={self._folder}/"),
            *(f"-seed={self._seed}", "-report_slow_units=3600", *options),
            *([f"-dict={dictionary}"] if words else []),
        ]

    def process(self, seconds: float, say: Callable[[str], None]) -> bool:
        """One life of the process; whether another one may follow."""
        before = {path for path in self._folder.iterdir() if _ENDS.fullmatch(path.name)}
        log = self._folder / "log"
        command = self.command(f"-max_total_time={max(1, int(seconds))}", str(self._corpus))
        with open(log, "wb") as out:
            limit = seconds + self._target.limit + _GRACE
            try:
                status = subprocess.run(
                    command,
                    stdout=out,
                    stderr=out,
                    env=self._environment,
                    timeout=limit,
                    preexec_fn=_small_stack,
                ).returncode
            except subprocess.TimeoutExpired:
                status = -9
        text = log.read_text(errors="replace")
        self._count(text)
        new = [p for p in self._folder.iterdir() if _ENDS.fullmatch(p.name) and p not in before]
        if status == 0 and not new:
            return False
        if not new:
            raise MissingError(f"the process of the fuzzer ended with {status}:\n{text[-2000:]}")
        found = [next(part for part in match if part) for match in _WHY.findall(text)]
        why = f"{new[0].name.partition('-')[0]}: {found[-1] if found else f'the process ended with {status}'}"
        kind = kind_of(why)
        self._ends[kind] += 1
        if self._ends[kind] == 1:
            case = {"input": new[0].read_bytes().hex()}
            tail = text[text.rfind("==ERROR") :][:4000] if "==ERROR" in text else text[-4000:]
            path = save(self._keep, self._target.name, case, f"{tail}\n{why}")
            self.report.findings.append(f"{path}: {why[:300]}")
            say(f"FINDING {self.report.findings[-1]}")
        self._seed += 1
        return self._ends[kind] < _SAME

    def _count(self, text: str) -> None:
        if lines := _STATUS.findall(text):
            self.report.tried += int(lines[-1][0])
            self.report.edges = max(self.report.edges, int(lines[-1][1]))
        stats = self._folder / "stats.json"
        if stats.exists():
            found = json.loads(stats.read_text())
            self.report.counts.update(found["counts"])
            self.report.slowest = max(self.report.slowest, found["slowest"])
            stats.unlink()

    def smallest(self) -> list[bytes]:
        """As few inputs of the corpus as reach all that it reaches."""
        merged = self._folder / "merged"
        merged.mkdir()
        again = self._folder / "again.sh"  # libFuzzer starts itself, by its first argument
        own = self.command()[:6]
        preloaded = self._environment.get("LD_PRELOAD", "")
        again.write_text(
            f"#!/bin/sh\nLD_PRELOAD='{preloaded}' exec " + " ".join(f"'{word}'" for word in own) + ' "$@"\n'
        )
        again.chmod(0o755)
        command = self.command("-merge=1", str(merged), str(self._corpus))
        log = self._folder / "merge.log"
        with open(log, "wb") as out:
            environment = {**self._environment, "TPULAYER_FUZZ_AGAIN": str(again)}
            subprocess.run(command, stdout=out, stderr=out, env=environment, timeout=3600, check=True)
        return [path.read_bytes() for path in sorted(merged.iterdir())]


def run_guided(
    target: Guided,
    *,
    seconds: float,
    seed: int,
    keep: Path,
    corpus: Path | None = None,
    update: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Fuzz for so long. corpus: a folder that keeps inputs from run to run; update: as few inputs as reach
    all that was reached replace corpus/NAME.zip.

    Errors: MissingError without atheris.
    """
    require_atheris()
    keep = keep.resolve()
    with tempfile.TemporaryDirectory(prefix="tpulayer-fuzz-") as name:
        folder = Path(name)
        inputs = corpus or folder / "corpus"
        inputs.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate([*target.seeds(), *kept(target.name)]):
            (inputs / f"seed-{number:04d}").write_bytes(data)
        run = _Run(target, folder, inputs, keep, seed)
        old = set(_findings(keep, target.name))
        begin = time.monotonic()
        while (left := seconds - (time.monotonic() - begin)) > 0 and run.process(left, say):
            pass
        run.report.seconds = time.monotonic() - begin
        for path in _findings(keep, target.name):
            if path not in old and not any(text.startswith(str(path)) for text in run.report.findings):
                run.report.findings.append(f"{path}: {_last_line(path)}")
        if update:
            keep_inputs(target.name, run.smallest())
    return run.report


def _findings(keep: Path, name: str) -> list[Path]:
    return sorted(keep.glob(f"{name}-*.json")) if keep.is_dir() else []


def _last_line(path: Path) -> str:
    why: str = json.loads(path.read_text())["why"]
    return why.strip().splitlines()[-1][:300]


def known_kinds(keep: Path, name: str) -> set[str]:
    """The kinds of findings that the folder has already, for the process that is watched."""
    return {kind_of(json.loads(path.read_text())["why"]) for path in _findings(keep, name)}
