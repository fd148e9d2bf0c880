"""Mutants: the list fits the sources, what is wrong in it is said, and killed is told from survived."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.mutate import run
from tests.mutate.mutants import ListError, Mutant, all_mutants, parse, room_names
from tests.mutate.propose import c_changes, hunk, propose, python_changes
from tests.paths import ROOT

MUTANTS = all_mutants()


@pytest.mark.parametrize("room", room_names())
def test_every_snippet_is_in_its_file_once(room: str) -> None:
    for mutant in MUTANTS:
        if mutant.room == room:
            text = mutant.mutated()
            if mutant.file.endswith(".py"):
                ast.parse(text)


def test_the_sample_is_large_and_not_of_our_choice_alone() -> None:
    seeded = sum(mutant.origin == "seeded" for mutant in MUTANTS)
    assert len(MUTANTS) >= 150
    assert 2 * seeded >= len(MUTANTS)


HEAD = "--- firmware_sim/memory.py\ntests: unit/test_tpu.py\n"
CHANGE = "@@ limit chosen\n-        if end <= limit:\n+        if end < limit:\n"


def test_a_mutant() -> None:
    (mutant,) = parse("memory", f"# a remark\n{HEAD}{CHANGE}tests: unit/test_wire.py\nwhy: one\nwhy: two\n")
    assert (mutant.id, mutant.tests) == ("memory/limit", ["unit/test_tpu.py", "unit/test_wire.py"])
    assert mutant.why == "one two"
    line = mutant.line()
    rows = (ROOT / mutant.file).read_text().split("\n")
    assert rows[line - 1] == "        if end <= limit:"
    rows[line - 1] = "        if end < limit:"
    assert mutant.mutated() == "\n".join(rows)
    assert mutant.shown() == f"firmware_sim/memory.py:{line}: if end <= limit: -> if end < limit:"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{HEAD}{CHANGE}{CHANGE}", "two of this name"),
        (f"{HEAD}{CHANGE}".replace("chosen", "found"), "memory.diff:3: expected '@@ NAME seeded|chosen'"),
        (CHANGE, "memory.diff:1: expected"),
        (f"{HEAD}what\n{CHANGE}", "memory.diff:3: not understood: what"),
        (f"{HEAD}@@ none chosen\n", "memory/none: it changes nothing"),
        (f"--- firmware_sim/memory.py\n{CHANGE}", "memory/limit: no tests"),
        (f"{HEAD}tests: unit/test_x.py\n{CHANGE}", "memory/limit: there is no tests/unit/test_x.py"),
    ],
)
def test_lists_that_are_wrong(text: str, why: str) -> None:
    with pytest.raises(ListError, match=re.escape(why)):
        parse("memory", text)


def test_lines_that_are_not_there_once(tmp_path: Path) -> None:
    (mutant,) = parse("memory", HEAD + CHANGE)
    with pytest.raises(ListError, match="memory/limit: there is no file"):
        mutant.line(tmp_path)
    (tmp_path / "firmware_sim").mkdir()
    for count in (0, 2):
        (tmp_path / mutant.file).write_text("        if end <= limit:\n" * count)
        with pytest.raises(ListError, match=f"memory/limit: its lines are {count} times in"):
            mutant.line(tmp_path)


PYTHON = """def f(a: int | None, b):
    if a < 3 and not b:
        return -1
    print(min(a, b) + 2)
    return path / "x"
"""
C = """#define LIMIT 4 /* 5 */
int f(int a, int b) {
    if (a <= b) return 1; // a < b
    call(min(a, b), "a + b");
    return a - b;
}
"""


def test_changes_of_python() -> None:
    rows = PYTHON.split("\n")
    found = {change.applied(rows[change.line - 1]).strip() for change in python_changes(PYTHON)}
    assert found == {
        *(
            "if a <= 3 and not b:",
            "if a < 4 and not b:",
            "if a < 3 or not b:",
            "if a < 3 and b:",
            "if False:",
        ),
        *("return 1", "return -2"),
        *("pass", "print(max(a, b) + 2)", "print(min(a, b) - 2)", "print(min(a, b) + 3)"),
    }


def test_changes_of_c() -> None:
    rows = C.split("\n")
    found = {change.applied(rows[change.line - 1]).strip() for change in c_changes(C)}
    assert found == {
        *("if (a < b) return 1; // a < b", "if (0) return 1; // a < b", "if (a <= b) return 2; // a < b"),
        *(";", 'call(max(a, b), "a + b");', "return a + b;"),
    }


def test_numbers_stay_as_they_are_written() -> None:
    row = "    f(0x1f, 0777, 0, 9);"
    assert {change.new for change in c_changes(row)} == {"0x20", "01000", "1", "10", ""}


def test_a_line_that_is_there_twice_brings_those_before_it() -> None:
    text = "a\nx = 1\nb\nx = 1\n"
    second = list(python_changes(text))[1]
    assert hunk(text, second) == " b\n-x = 1\n+x = 2"


def test_proposals_are_the_same_each_time_and_on_lines_of_their_own() -> None:
    paths = [ROOT / "firmware_sim" / "memory.py", ROOT / "firmware_sim" / "tpu.py"]
    found = list(propose(paths, 20, 1))
    assert found == list(propose(paths, 20, 1)) != list(propose(paths, 20, 2))
    assert len({(path, change.line) for path, change in found}) == 20


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run.Copy:
    """A copy of a project of one module with its tests."""
    files = {
        "limits.py": "import time\nMODULE = 'time'\n__import__(MODULE)\nLIMIT = 3\nUNUSED = 4\nWAIT = 0\n",
        "tests/conftest.py": "from hypothesis import settings\nsettings.register_profile('suite-unshrunk')\n",
        "tests/test_limits.py": "import limits\n\ndef test_it():\n    limits.time.sleep(limits.WAIT)\n"
        "    assert limits.LIMIT == 3, 'a - b'\n",
        "tests/test_broken.py": "import limits\n\ndef test_it():\n    assert limits.LIMIT == 7\n",
    }
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    for name, text in files.items():
        (project / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    monkeypatch.setattr(run, "ROOT", project)
    monkeypatch.setenv("PYTHONPATH", "nowhere")
    return run.Copy(tmp_path / "copy")


@pytest.mark.parametrize(
    ("test", "old", "new", "word", "by"),
    [
        ("limits", "LIMIT = 3", "LIMIT = 4", "killed", "tests/test_limits.py::test_it"),
        ("limits", "UNUSED = 4", "UNUSED = 5", "SURVIVED", ""),
        ("limits", "MODULE = 'time'", "MODULE = 'emit'", "killed", "tests/test_limits.py"),
        ("limits", "WAIT = 0", "WAIT = 99", "killed", "time: not done after 4 s"),
        ("broken", "UNUSED = 4", "UNUSED = 5", "UNCLEAR", "fails without the mutant, too: tests/test_broken"),
    ],
)
def test_what_becomes_of_a_mutant(copy: run.Copy, test: str, old: str, new: str, word: str, by: str) -> None:
    before = (copy.root / "limits.py").read_bytes()
    mutant = Mutant("room/name", "limits.py", "chosen", [f"test_{test}.py"], old, new, "", [f"-{old}"])
    result = copy.run(mutant, limit=4 if "WAIT" in old else run.LIMIT)
    run.check([result], copy)
    assert (result.word, result.by[: len(by)], bool(result.by)) == (word, by, bool(by))
    assert result.accepted == (word == "killed")
    assert (copy.root / "limits.py").read_bytes() == before
    mutant.why = "nobody uses it"
    assert result.accepted == (word != "UNCLEAR")
