"""The list of the longest tests: what is in it exists, and how it is made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import thorough
from tests.paths import ROOT
from tests.support.examples import examples


def _functions(path: Path) -> set[str]:
    return set(re.findall(r"^ *def (test_\w+)\(", path.read_text(), re.MULTILINE))


def test_what_is_listed_exists() -> None:
    known: dict[str, set[str]] = {}
    for test in thorough.read():
        file, _, name = thorough.function(test).rpartition("::")
        found = known.setdefault(file, _functions(ROOT / file) if (ROOT / file).exists() else set())
        assert name in found, f"{test} is gone: take it out of {thorough.LIST.name}"


def test_most_files_keep_tests_in_the_default_run() -> None:
    """A file that is listed as a whole is one whose every test takes long."""
    listed = {thorough.function(test) for test in thorough.read()}
    files = sorted((ROOT / "tests").glob("*/test_*.py"))
    whole = [
        path.name
        for path in files
        if (names := _functions(path)) and {f"{path.relative_to(ROOT)}::{name}" for name in names} <= listed
    ]
    assert len(whole) < len(files) / 10, whole


LOG = """\
=== slowest durations ===
3.50s call     tests/unit/test_a.py::test_x[1 or -2]
0.10s setup    tests/unit/test_a.py::test_x[1 or -2]
0.25s call     tests/unit/test_a.py::test_y
12.00s call     tests/unit/test_a.py::test_x[3]
"""


def test_durations_of_a_log() -> None:
    assert thorough.durations(LOG.splitlines()) == {
        "tests/unit/test_a.py::test_x[1 or -2]": 3.5,
        "tests/unit/test_a.py::test_y": 0.25,
        "tests/unit/test_a.py::test_x[3]": 12.0,
    }


def test_the_quickest_parameter_of_a_function_stays_first() -> None:
    times = {"f::a[0]": 3.0, "f::a[1]": 4.0, "f::b[0]": 2.0, "f::b[1]": 1.9}
    assert thorough.longest(times, 5.0) == {"f::a[1]", "f::b[0]"}


@examples(60)
@given(st.dictionaries(st.from_regex(r"\A[ab]\[[0-9]\]\Z"), st.floats(0.02, 9)), st.floats(0, 40))
def test_what_stays_fits(times: dict[str, float], budget: float) -> None:
    left = thorough.longest(times, budget)
    assert sum(times[test] for test in times.keys() - left) <= budget + 1e-9
    assert left <= times.keys()


def test_a_log_without_durations_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("1 passed\n")
    before = thorough.LIST.read_text()
    with pytest.raises(SystemExit) as ended:
        thorough.main([str(tmp_path / "log")])
    assert ended.value.code == 2 and "--durations=0" in capsys.readouterr().err
    assert thorough.LIST.read_text() == before


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_each_test_of_the_list_has_its_turn_and_files_stay_whole(parts: int) -> None:
    listed = thorough.read()
    found = [thorough.of_part(listed, turn, parts) for turn in range(parts)]
    assert sum(map(len, found)) == len(listed) and frozenset().union(*found) == listed
    files = [{test.partition("::")[0] for test in part} for part in found]
    assert sum(map(len, files)) == len(set().union(*files))


@pytest.mark.parametrize("text", ["2/2", "-1/2", "0/0", "1", "a/b", "1/2/3"])
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(ValueError):
        thorough.part(text)
