"""Which tests the default run leaves to `-m thorough`: the longest ones, as a run of all of them measured.

    pytest -m "thorough or not thorough" --durations=0 --durations-min=0.02 > LOG
    python -m tests.thorough LOG [LOG...] [--budget SECONDS]

rewrites tests/thorough.txt, one test to a line, from what pytest says of durations. The default run keeps the
shortest tests, as many as take `--budget` seconds of both processes together; for each test function its
quickest parameter counts a third, so that the run still tries most functions once. What is not in the logs
stays as it is. `pytest -m thorough --part 0/2` runs one half of them, `--part 1/2` the other.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
BUDGET = 280.0  # seconds of both processes: the default run's three minutes, less collecting and starting
_QUICKEST = 1 / 3
_ALWAYS = (
    "tests/unit/test_quality.py::",
)  # kept, whatever they take: types and lint have caches of their own
_LINE = re.compile(r"^([\d.]+)s call +(tests/\S+\.py::.+)$")
_HEAD = """\
# The longest tests, which only `-m thorough` runs: measured, not written by hand (python -m tests.thorough).
"""


def read() -> frozenset[str]:
    """The ids of the tests in the list, as pytest has them."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def part(text: str) -> tuple[int, int]:
    """K and N of `--part K/N`. Raises ValueError for what is no part."""
    turn, parts = (int(number) for number in text.split("/"))
    if not 0 <= turn < parts:
        raise ValueError(f"{text}: K is from 0 to N - 1")
    return turn, parts


def of_part(tests: Iterable[str], turn: int, parts: int) -> frozenset[str]:
    """The tests of every `parts`th file, from number `turn` on; files share fixtures and stay whole."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    return frozenset(test for file in sorted(files)[turn::parts] for test in files[file])


def durations(lines: Iterable[str]) -> dict[str, float]:
    """Seconds that each test of a log took, without its fixtures; shorter ones are not in there."""
    found = (_LINE.match(line) for line in lines)
    return {match[2]: float(match[1]) for match in found if match}


def longest(times: Mapping[str, float], budget: float) -> set[str]:
    """The tests that do not fit into `budget` seconds."""
    quickest: dict[str, str] = {}
    for test in sorted(times, key=lambda test: (times[test], test)):
        quickest.setdefault(function(test), test)

    def rank(test: str) -> tuple[float, str]:
        return times[test] * (_QUICKEST if quickest[function(test)] == test else 1), test

    left = {test for test in times if not test.startswith(_ALWAYS)}
    for test in sorted(left, key=rank):
        budget -= times[test]
        if budget < 0:
            break
        left.remove(test)
    return left


def function(test: str) -> str:
    """The test's function: its id without parameters."""
    return test.partition("[")[0]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.thorough", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="what pytest --durations=0 printed")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds (default %(default)s)")
    given = parser.parse_args(words)
    times: dict[str, float] = {}
    for log in given.logs:
        times |= durations(log.read_text(encoding="utf-8", errors="replace").splitlines())
    if not times:
        parser.error("no durations in there: run pytest with --durations=0 --durations-min=0.02")
    listed = longest(times, given.budget) | (read() - times.keys())
    LIST.write_text(_HEAD + "".join(f"{test}\n" for test in sorted(listed)), encoding="utf-8")
    print(
        f"{len(listed)} tests are thorough; of {sum(times.values()):.0f} s measured the default run keeps "
        f"{sum(time for test, time in times.items() if test not in listed):.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
