"""Short runs of the fuzzers, and every case that once found something."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from firmware_sim.errors import DeviceCrash, DeviceError
from tests.fuzz.__main__ import WHAT, target
from tests.fuzz.driver import CORPUS, Case, Finding, Target, attempt, fuzz, load, save

CASES = {"images": 15, "bmodels": 20, "messages": 25, "descriptors": 800, "programs": 100}


@pytest.mark.parametrize("what", WHAT)
def test_short_run(what: str, tmp_path: Path) -> None:
    """Old cases first, then some new ones, always the same; all on the same device."""
    with target(what) as running:
        for path in sorted(CORPUS.glob(f"{what}-*.json")):
            kept, case = load(path)
            assert kept == what
            attempt(running, case)
            running.check()
        report = fuzz(what, running, cases=CASES[what], seed=1, keep=tmp_path, check_every=WHAT[what])
    assert report.findings == [] and report.tried, report.text()


def test_cases_are_the_same_for_the_same_seed() -> None:
    with target("descriptors") as running:
        one, two = (running.make(random.Random("descriptors 1 7")) for _ in range(2))
    assert one == two and one != {"bd": [], "gdma": []}


class _Fake(Target):
    crashes_are_findings = True

    def __init__(self, do: Callable[[int], str]) -> None:
        self._do = do
        self._made = 0

    def make(self, rng: random.Random) -> Case:
        self._made += 1
        return {"number": self._made}

    def run(self, case: Case) -> str:
        return self._do(case["number"])

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


def _raise(error: Exception) -> str:
    raise error


@pytest.mark.parametrize(
    ("error", "finding"),
    [
        (ValueError("what"), True),
        (RuntimeError("internal"), True),
        (DeviceCrash("kernel x crashed: SIGSEGV (invalid)"), True),
        (Finding("written outside"), True),
        (DeviceError("refused"), False),
    ],
)
def test_what_is_a_finding(error: Exception, finding: bool, tmp_path: Path) -> None:
    fake = _Fake(lambda number: _raise(error) if number == 3 else "fine")
    report = fuzz("fake", fake, cases=5, seed=1, keep=tmp_path)
    assert len(report.findings) == finding
    if finding:
        [path] = tmp_path.iterdir()
        assert load(path) == ("fake", {"number": 3})
        with pytest.raises(Finding, match=str(error).split("(")[0]):
            attempt(fake, load(path)[1])
    else:
        assert report.counts["DeviceError"] == 1
    assert f"{len(report.findings)} findings" in report.text()


def test_saved_cases_come_back(tmp_path: Path) -> None:
    path = save(tmp_path / "new", "programs", {"a": [1, "x"]}, "because")
    assert load(path) == ("programs", {"a": [1, "x"]})
