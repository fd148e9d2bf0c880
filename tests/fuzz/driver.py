"""Runs cases of one target for some time, counts what came out, saves what must not come out."""

from __future__ import annotations

import abc
import hashlib
import json
import math
import random
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firmware_sim.errors import DeviceCrash, TpulayerError

Case = dict[str, Any]
CORPUS = Path(__file__).parent / "corpus"
HANG = 60.0  # s: nothing that a case does may take longer


class Finding(Exception):
    """What must not happen; the text begins with a short name of its class."""


class Target(abc.ABC):
    """What is fuzzed; a context manager."""

    crashes_are_findings = False
    """Whether the device process may never end: where nothing but the emulator itself runs in it."""

    @abc.abstractmethod
    def make(self, rng: random.Random) -> Case:
        """A new case: JSON that runs the same way later."""

    @abc.abstractmethod
    def run(self, case: Case) -> str:
        """Run it and return a short name for what came out. TpulayerErrors are answers, too."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raise Finding unless all is as it should be after any case: the device works, no byte was
        written where none belongs."""

    @abc.abstractmethod
    def close(self) -> None:
        """End its processes."""

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass
class Report:
    """counts: outcomes by class. findings: texts, with the files that the cases were saved to. edges: how
    many branches were reached, where that is measured."""

    what: str
    tried: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    edges: int = 0

    def text(self) -> str:
        lines = [
            f"{self.what}: {self.tried} cases in {self.seconds:.0f} s, the slowest {self.slowest:.1f} s, "
            + (f"{self.edges} edges, " if self.edges else "")
            + f"{len(self.findings)} findings"
        ]
        lines += [f"  {n:8d}  {name}" for name, n in self.counts.most_common()]
        return "\n".join([*lines, *(f"  FINDING {text}" for text in self.findings)])


def _class_of(error: TpulayerError) -> str:
    """Errors that differ only in numbers and names are one class."""
    if isinstance(error, DeviceCrash):
        if error.timed_out:
            return "stopped at its time limit"
        cause = re.search(r"crashed: (SIG\w+|[^;]*?)(?: at | \(|;|0x|$)", error.message)
        return f"crash: {cause[1]}" if cause else "crash: its process ended"
    return type(error).__name__


def kind_of(why: str) -> str:
    """Findings that differ only in numbers are one kind."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", why.strip().splitlines()[-1])


def attempt(target: Target, case: Case) -> str:
    """Run one case: the class of its outcome. Raises Finding."""
    return outcome_of(lambda: target.run(case), crashes_are_findings=target.crashes_are_findings)


def outcome_of(run: Callable[[], str], *, crashes_are_findings: bool = False) -> str:
    """The class of what came out. Raises Finding."""
    begin = time.monotonic()
    try:
        outcome = run()
    except TpulayerError as error:
        outcome = _class_of(error)
        if isinstance(error, DeviceCrash) and crashes_are_findings:
            raise Finding(f"{outcome}: {error}") from None
    except Finding:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise Finding("".join(traceback.format_exception(error))) from None
    passed = time.monotonic() - begin
    if passed > HANG:
        raise Finding(f"hang: {passed:.0f} s until {outcome}")
    return outcome


def fuzz(
    what: str,
    target: Target,
    *,
    seconds: float = math.inf,
    cases: float = math.inf,
    seed: int,
    keep: Path,
    check_every: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Make and run so many cases, or for `seconds`; a kind of finding goes to keep/WHAT-HASH.json once."""
    report = Report(what)
    seen: set[str] = set()
    begin = time.monotonic()
    recent: list[Case] = []
    while (passed := time.monotonic() - begin) < seconds and report.tried < cases:
        case = target.make(random.Random(f"{what} {seed} {report.tried}"))
        recent = [*recent[-(check_every - 1) :], case] if check_every > 1 else [case]
        report.tried += 1
        try:
            outcome = attempt(target, case)
            if report.tried % check_every == 0:
                target.check()
        except Finding as finding:
            outcome = "FINDING"
            kind = kind_of(str(finding))
            if kind not in seen:
                seen.add(kind)
                last = str(finding).strip().splitlines()[-1]
                report.findings.append(f"{save(keep, what, case, str(finding))}: {last[:300]}")
                say(f"FINDING {report.findings[-1]}")
        report.counts[outcome] += 1
        report.slowest = max(report.slowest, time.monotonic() - begin - passed)
    report.seconds = time.monotonic() - begin
    return report


def save(folder: Path, what: str, case: Case, why: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"what": what, "why": why, "case": case}, indent=1) + "\n"
    path = folder / f"{what}-{hashlib.sha256(json.dumps(case).encode()).hexdigest()[:10]}.json"
    path.write_text(text)
    return path


def load(path: Path) -> tuple[str, Case]:
    saved = json.loads(path.read_text())
    return saved["what"], saved["case"]
