"""`tpulayer test` and check_layer where the numbers are right and checks found something."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.findings_sample import ADVICE, RACE, UNWRITTEN
from user_layers.cli.main import run
from user_layers.testing import collect
from user_layers.testing import run as running
from user_layers.testing.run import Result, check_layer

EQUAL = Result("[2, 3]", "opt 0", "native", True, 6, "global (opt=0)")
FOUND = replace(EQUAL, ok=False, findings=(RACE, ADVICE))
ADVISED = replace(EQUAL, findings=(ADVICE,))
WRONG = replace(EQUAL, ok=False, problem="DIFFERS in 1 of 6 elements", findings=(UNWRITTEN,))


class Given:
    results: tuple[Result, ...] = ()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Given:
    """The results of the only layer's only case, as if they had been run."""
    made = Given()
    (tmp_path / "tpulayer.workspace").touch()

    def results(*_: Any) -> Iterator[Result]:
        yield from made.results

    class Test:
        name = "thing"
        cases = (None,)
        golden = None

    monkeypatch.setattr(running, "run_cases", results)
    monkeypatch.setattr(running, "built_firmware", lambda *_: {})
    monkeypatch.setattr(running, "open_toolkits", lambda *_: nullcontext({"native": None, "arm": None}))
    monkeypatch.setattr(running, "check_built", lambda _: None)
    monkeypatch.setattr(collect, "find_tests", lambda *_: [Path("test_thing.py")])
    monkeypatch.setattr(collect, "load_test", lambda _: Test())
    monkeypatch.setattr("user_layers.workspace.Workspace.find", lambda *_: None)
    return made


@pytest.mark.parametrize(
    ("results", "code", "end"),
    [
        ((EQUAL, EQUAL), 0, "test: all 2 are equal to golden"),
        ((EQUAL, ADVISED), 0, "test: all 2 are equal to golden"),
        ((EQUAL, FOUND), 5, "test: all 2 are equal to golden; checks found something in 1 of them"),
        ((FOUND, WRONG), 1, "test: 1 of 2 are not equal to golden"),
    ],
)
def test_the_command(
    results: tuple[Result, ...],
    code: int,
    end: str,
    given: Given,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    given.results = results
    sarif = tmp_path / "found.sarif"
    assert run(["test", "--sarif", str(sarif)]) == code
    out, err = capfd.readouterr()
    assert out.splitlines()[-1] == end
    rules = {finding.rule for result in results for finding in result.findings}
    assert all(f"{rule}: " in err for rule in rules)
    assert {one["ruleId"] for one in json.loads(sarif.read_text())["runs"][0]["results"]} == rules
    assert run(["test", "--json"]) == code
    answer = json.loads(capfd.readouterr().out)
    assert answer["ok"] == (code == 0)
    told = [{one["rule"] for one in test["findings"]} for test in answer["tests"]["thing"]]
    assert told == [{one.rule for one in result.findings} for result in results]


def test_a_line_of_one() -> None:
    assert str(FOUND) == (
        "[2, 3]: opt 0, native: 6 elements equal, but 2 findings: 1 hazard, 1 advice (global (opt=0))"
    )
    assert str(EQUAL) == "[2, 3]: opt 0, native: 6 elements equal (global (opt=0))"


def test_inside_pytest(given: Given) -> None:
    given.results = (EQUAL, ADVISED)
    check_layer("thing", lambda *_: [], [])
    given.results = (EQUAL, FOUND, FOUND)
    with pytest.raises(AssertionError) as caught:
        check_layer("thing", lambda *_: [], [])
    text = str(caught.value)
    assert text.startswith("thing: 2 of 3 are not equal\n") and text.count("hazard.raw: ") == 1
    assert f"({2 * RACE.count} times)" in text and text.endswith("2 findings: 1 hazard, 1 advice")
