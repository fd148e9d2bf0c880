"""Fuzz by hand: `python -m tests.fuzz all --seconds 600`; --replay runs saved cases."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from firmware_sim.errors import TpulayerError
from tests.fuzz.driver import Finding, Report, Target, attempt, fuzz, load
from tests.fuzz.guided import Guided, require_atheris, run_guided
from tests.fuzz.requests import SANITIZE

GUIDED = {
    "bmodel": "bmodel",
    "onnx": "onnx_models",
    "messages": "messages",
    "programs": "programs",
    "partitions": "partitions",
    "foreign": "foreign",
}
"""Targets that coverage guides, and their modules."""

WHAT = {"images": 10, "networks": 1, "link": 1, "descriptors": 50, "streams": 1, "vectors": 1}
"""Targets of our own driver alone, and after how many cases it looks at the device."""


def target(what: str) -> Target:
    made: Target = import_module(f"tests.fuzz.{GUIDED.get(what, what)}").make()
    return made


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "what",
        metavar="TARGET",
        choices=[*GUIDED, *WHAT, "all"],
        nargs="?",
        default="all",
        help=", ".join((*GUIDED, *WHAT, "all")),
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="for each of them")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for failing cases")
    parser.add_argument("--replay", type=Path, nargs="+", help="run these saved cases instead")
    parser.add_argument("--sanitize", action="store_true", help="native firmware with the compiler's checks")
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="guided targets: keep inputs there, to go on later"
    )
    parser.add_argument(
        "--update-corpus", action="store_true", help="guided targets: renew tests/fuzz/corpus"
    )
    parser.add_argument("--unguided", action="store_true", help="guided targets: by our own driver alone")
    options = parser.parse_args()
    if options.sanitize:
        os.environ[SANITIZE] = "1"
    try:
        if options.replay:
            return _replay(options.replay)
        return _fuzz(options)
    except TpulayerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _fuzz(options: argparse.Namespace) -> int:
    names = [*GUIDED, *WHAT] if options.what == "all" else [options.what]
    if not options.unguided and any(name in GUIDED for name in names):
        require_atheris()
    print(f"seed {options.seed}")
    failed = False
    for what in names:
        with target(what) as running:
            report = _one(what, running, options)
        print(report.text(), flush=True)
        failed |= bool(report.findings)
    if failed:
        print("again: python -m tests.fuzz --replay FILE (with --sanitize for the firmware's C)")
    return 1 if failed else 0


def _one(what: str, running: Target, options: argparse.Namespace) -> Report:
    if isinstance(running, Guided) and not options.unguided:
        return run_guided(
            running,
            seconds=options.seconds,
            seed=options.seed,
            keep=options.keep,
            corpus=options.corpus / what if options.corpus else None,
            update=options.update_corpus,
            say=_say,
        )
    return fuzz(
        what,
        running,
        seconds=options.seconds,
        seed=options.seed,
        keep=options.keep,
        check_every=WHAT.get(what, 10),
        say=_say,
    )


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
