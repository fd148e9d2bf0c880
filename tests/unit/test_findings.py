"""Findings of checks as users meet them: text, JSON, SARIF, merged and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.checks.error import CheckError
from firmware_sim.checks.export import as_json, as_sarif
from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.merged import merged
from firmware_sim.checks.rules import RULES
from firmware_sim.checks.text import MOST_RANGES, ranges, report, summary, told
from tests.support.examples import examples
from tests.support.findings_sample import ADVICE, BARE, EACH, RACE, UNWRITTEN

Golden = Callable[[str, str], None]


def test_the_text(golden: Golden, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    golden("checks/report.txt", report(EACH, 10) + "\n")


def test_over_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = report(EACH, 2, {"sync.no_poll": 3})
    assert text.startswith(told(RACE) + "\n\n" + told(UNWRITTEN) + "\n\n")
    assert text.endswith(
        "\n\nand 6 more: 2 memory, 1 advice, 3 sync\n\n" + summary(EACH, {"sync.no_poll": 3})
    )
    assert summary(EACH, {"sync.no_poll": 3}) == "8 findings: 1 hazard, 1 init, 2 memory, 1 advice, 3 sync"
    assert "more:" not in report(EACH, len(EACH))
    assert summary([RACE]) == "1 finding: 1 hazard"


def test_files_below_the_folder_are_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    here = replace(RACE, by=Issued("BD", 1, "f", (Frame(str(tmp_path / "a" / "b.c"), 3, "g"),)))
    assert told(here).startswith("a/b.c:3 in g: hazard.raw: ")
    other = replace(RACE, by=Issued("BD", 1, "f", (Frame("/elsewhere/b.c", 0, ""),)))
    assert told(other).startswith("/elsewhere/b.c: hazard.raw: ")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((5,), "5"),
        ((3, 1, 2, 2), "1..3"),
        ((0, 2, 3, 63), "0, 2..3, 63"),
        (tuple(range(0, 64, 2)), "0, 2, 4, 6, 8, 10 and 26 more"),
    ],
)
def test_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text


@examples(100)
@given(st.sets(st.integers(0, 63)))
def test_ranges_say_each_number_once(numbers: set[int]) -> None:
    said, _, more = ranges(numbers).partition(" and ")
    found: list[int] = []
    for word in filter(None, said.split(", ")):
        low, _, high = word.partition("..")
        found += range(int(low), int(high or low) + 1)
    assert found == sorted(numbers)[: len(found)]
    assert len(found) + int(more.removesuffix(" more") or 0) == len(numbers)
    assert len(said.split(", ")) <= MOST_RANGES


frames = st.tuples(st.builds(Frame, st.sampled_from(["a.c", "b.c"]), st.integers(0, 3), st.just("f")))
issued = st.none() | st.builds(
    Issued, st.sampled_from(["BD", "GDMA"]), st.integers(0, 9), st.just("x"), st.just(()) | frames
)
some = st.builds(
    Finding,
    st.sampled_from(sorted(RULES)),
    st.just("is wrong"),
    issued,
    tensor=st.sampled_from(["", "x"]),
    lanes=st.lists(st.integers(0, 63), max_size=3).map(tuple),
    other=issued,
    count=st.integers(1, 5),
)


@examples(100)
@given(st.lists(some, max_size=12))
def test_merging(findings: list[Finding]) -> None:
    found = merged(findings)
    assert sum(one.count for one in found) == sum(one.count for one in findings)
    assert len({one.key for one in found}) == len(found) == len({one.key for one in findings})
    assert [one.about.advice for one in found] == sorted(one.about.advice for one in found)
    wrong = [one.key for one in found if not one.about.advice]
    assert wrong == list(dict.fromkeys(one.key for one in findings if not one.about.advice))


@examples(100)
@given(some)
def test_json_there_and_back(finding: Finding) -> None:
    assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding


def test_at_a_prompt() -> None:
    assert repr(RACE) == f"<Finding hazard.raw at /w/device/pipe line.c:20: {RACE.what}>"
    assert repr(BARE) == f"<Finding memory.not_written: {BARE.what}>"


def test_the_error() -> None:
    error = CheckError("kernel pipeline", EACH, 10, {"init.unwritten": 2})
    assert error.exit_code == 5 and error.findings == tuple(EACH)
    assert error.message == f"kernel pipeline: checks found\n\n{report(EACH, 10, {'init.unwritten': 2})}"


# ---- for other programs ----


def test_json_and_sarif(golden: Golden) -> None:
    golden("checks/findings.json", json.dumps(as_json(EACH), indent=1) + "\n")
    log = as_sarif(EACH, version="1.2.3", folder=Path("/w"))
    del log["runs"][0]["tool"]["driver"]["rules"]
    for result in log["runs"][0]["results"]:
        assert list(RULES)[result.pop("ruleIndex")] == result["ruleId"]
    golden("checks/findings.sarif", json.dumps(log, indent=1) + "\n")


@examples(50)
@given(st.lists(some, max_size=4))
def test_sarif_is_as_the_standard_wants_it(findings: list[Finding]) -> None:
    """What its JSON schema requires of the objects that are written here."""
    log = json.loads(json.dumps(as_sarif(findings, version="1.0.0", folder=Path("/w"))))
    assert set(log) == {"$schema", "version", "runs"} and log["version"] == "2.1.0"
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and [rule["id"] for rule in driver["rules"]] == list(RULES)
    for rule in driver["rules"]:
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert all(rule[text]["text"] for text in ("shortDescription", "fullDescription", "help"))
    base = run["originalUriBaseIds"]
    assert all(place["uri"].endswith("/") for place in base.values())
    assert len(run["results"]) == len(findings)
    for result, finding in zip(run["results"], findings, strict=True):
        assert result["message"]["text"]
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == finding.rule
        assert result["occurrenceCount"] >= 1
        places = [*result.get("locations", ()), *result.get("relatedLocations", ())]
        for stack in result.get("stacks", ()):
            assert stack["frames"]
            places += [frame["location"] for frame in stack["frames"]]
        for place in places:
            physical = place["physicalLocation"]
            artifact = physical["artifactLocation"]
            assert " " not in artifact["uri"] and artifact.get("uriBaseId", next(iter(base))) in base
            assert physical.get("region", {"startLine": 1})["startLine"] >= 1
        ids = [place["id"] for place in result.get("relatedLocations", ())]
        assert len(set(ids)) == len(ids)


def test_sarif_is_in_the_order_of_the_findings() -> None:
    log = as_sarif([ADVICE, BARE], version="1.0.0", folder=Path("/w"))
    assert [one["level"] for one in log["runs"][0]["results"]] == ["note", "error"]
    assert "locations" not in log["runs"][0]["results"][1]
