"""Calls to the system that fail, one at a time: `python -m tests.failures --most 20`.

The nth write, rename, mmap, fork, malloc and so on of a command fails, n swept. Each run must end with a
documented exit code and without a traceback, and leave what was there before or what it was to make.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.failures.commands import COMMANDS, Place
from tests.failures.sweep import KINDS, Injector, sweep


def _complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.failures", description=__doc__)
    names = [command.name for command in COMMANDS]
    parser.add_argument("--command", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind of call; likewise")
    parser.add_argument("--most", type=int, default=20, help="runs of each command and kind (default: 20)")
    options = parser.parse_args()
    kinds = tuple(options.kind or KINDS)
    chosen = [command for command in COMMANDS if not options.command or command.name in options.command]
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    print("| command | calls that may fail | tried | exit codes and what was left | longest |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="tpulayer-failures-") as name:
        folder = Path(name).resolve()
        injector = Injector(folder)
        place = Place(folder, built=any(command.built for command in chosen))
        for command in chosen:
            done = sweep(command, place, injector, kinds, options.most, _complain)
            listed = ", ".join(f"{what}: {n}" for what, n in sorted(done.outcomes.items()))
            calls = sum(done.calls.values())
            print(
                f"| {command.name} | {calls} | {done.tried} | {listed} | {done.longest:.1f} s |", flush=True
            )
            outcomes += done.outcomes
            findings += done.findings
    print(f"{outcomes.total()} runs, {len(findings)} findings", *findings, sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
