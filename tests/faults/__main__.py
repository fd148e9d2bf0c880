"""Kernels, layers and nets with one mistake each, and tricky ones without: `python -m tests.faults`.

The checks must find each with the line that its source marks, or be silent. With words, only cases whose
kind or name is one of them. Exit code 1 if something is missed, told without its line, or a false alarm.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from firmware_sim.firmware.image import KINDS
from tests.faults.run import run_all
from tests.faults.verdict import Verdict, as_json, report, table


def _say(verdict: Verdict) -> None:
    if not verdict.good:
        print(report(verdict), file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("word", nargs="*", help="a kind of cases, or the name of one")
    parser.add_argument("--json", action="store_true", help="one object on stdout in place of the table")
    parser.add_argument("--firmware", choices=KINDS, default="native", help="which firmware runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tpulayer-faults-") as name:
        verdicts = run_all(options.word, options.firmware, Path(name).resolve(), _say)
    if not verdicts:
        print("no such case", file=sys.stderr)
        return 2
    print(json.dumps(as_json(verdicts), indent=1) if options.json else table(verdicts))
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
