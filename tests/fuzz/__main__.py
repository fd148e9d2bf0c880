"""Fuzz by hand: `python -m tests.fuzz --what all --seconds 600 --seed 1`; --replay runs saved cases."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.fuzz.driver import Finding, Target, attempt, fuzz, load
from tests.fuzz.requests import SANITIZE

WHAT = {"images": 10, "bmodels": 1, "messages": 1, "descriptors": 50, "programs": 10}
"""The fuzzers, and after how many cases the device is looked at."""


def target(what: str) -> Target:
    made: Target = import_module(f"tests.fuzz.{what}").make()
    return made


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--what", choices=[*WHAT, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each of them")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for failing cases")
    parser.add_argument("--replay", type=Path, nargs="+", help="run these saved cases instead")
    parser.add_argument("--sanitize", action="store_true", help="native firmware with the compiler's checks")
    options = parser.parse_args()
    if options.sanitize:
        os.environ[SANITIZE] = "1"
    if options.replay:
        return _replay(options.replay)
    print(f"seed {options.seed}")
    failed = False
    for what in WHAT if options.what == "all" else (options.what,):
        with target(what) as running:
            report = fuzz(
                what,
                running,
                seconds=options.seconds,
                seed=options.seed,
                keep=options.keep,
                check_every=WHAT[what],
                say=_say,
            )
        print(report.text(), flush=True)
        failed |= bool(report.findings)
    return 1 if failed else 0


def _replay(files: list[Path]) -> int:
    failed = False
    for path in files:
        what, case = load(path)
        with target(what) as running:
            try:
                outcome = attempt(running, case)
                running.check()
            except Finding as finding:
                failed, outcome = True, f"FINDING {finding}"
        print(f"{path}: {outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
