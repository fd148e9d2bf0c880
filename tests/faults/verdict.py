"""What the checks told of a case, compared with what its source says."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firmware_sim.checks.finding import Finding
from tests.faults.marks import Marks

CORRECT = "correct"  # the kind of cases without a mistake
_PLACE = re.compile(r"([\w./-]+\.[ch]):(\d+)")


@dataclass(frozen=True)
class Outcome:
    """findings: of all requests of a case; error: what was raised, without hint; differs: how results differ
    from numpy's, "" for not at all or unknown."""

    findings: Sequence[Finding] = ()
    error: str = ""
    differs: str = ""


class Word(enum.Enum):
    """The result of a case; the first two are what is wanted."""

    LINE = "found with line"
    SILENT = "nothing told"
    FOUND = "found"
    MISSED = "missed"
    FALSE = "false alarm"
    WRONG = "wrong results"


@dataclass(frozen=True)
class Verdict:
    """kind: of the mistake ("memory"), or CORRECT; beside: findings that name other lines than those."""

    name: str
    kind: str
    word: Word
    told: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def good(self) -> bool:
        """Found with its line, or rightly silent."""
        return self.word in (Word.LINE, Word.SILENT)


def _lines(finding: Finding, file: Path) -> Iterator[int]:
    """Lines of a file that a finding names, of both commands, whatever function they are in."""
    for issued in (finding.by, finding.other):
        for frame in issued.frames if issued is not None else ():
            if Path(frame.file).name == file.name:
                yield frame.line


def short(finding: Finding) -> str:
    """A finding in a line: rule, places, sentence."""
    places = [
        f"{Path(issued.frames[0].file).name}:{issued.frames[0].line}"
        for issued in (finding.by, finding.other)
        if issued is not None and issued.frames
    ]
    return f"{finding.rule} {' and '.join(places) or 'nowhere'}: {finding.what}"


def judge_faulty(name: str, kind: str, marks: Marks, outcome: Outcome) -> Verdict:
    """With line: a finding with a rule of a marked line names that line, or, where the API refuses the call,
    the error does. Found: such a rule is told, or the run fails."""
    word = Word.MISSED
    beside = []
    for finding in outcome.findings:
        lines = set(_lines(finding, marks.file))
        if any(finding.rule in marks.faults.get(line, ()) for line in lines):
            word = Word.LINE
            continue
        if finding.rule in marks.rules and word is Word.MISSED:
            word = Word.FOUND
        if lines and not lines & (marks.faults.keys() | marks.other):
            beside.append(short(finding))
    if outcome.error and word is not Word.LINE:
        named = {
            int(line) for file, line in _PLACE.findall(outcome.error) if Path(file).name == marks.file.name
        }
        word = Word.LINE if named & marks.faults.keys() else Word.FOUND
    return Verdict(name, kind, word, tuple(map(short, outcome.findings)), tuple(beside), outcome)


def judge_correct(name: str, outcome: Outcome) -> Verdict:
    """Any finding and any error is a false alarm, advice too, but not where waits are superfluous: those that
    the kernel API adds by itself are."""
    told = [finding for finding in outcome.findings if finding.rule != "sync.superfluous"]
    word = Word.FALSE if told or outcome.error else Word.WRONG if outcome.differs else Word.SILENT
    return Verdict(name, CORRECT, word, tuple(map(short, told)), (), outcome)


def report(verdict: Verdict) -> str:
    """What became of a case, in a few lines."""
    said = [*verdict.told, verdict.outcome.error, verdict.outcome.differs]
    return "\n    ".join((f"{verdict.kind} {verdict.name}: {verdict.word.value}", *filter(None, said)))


def as_json(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """Plain dictionaries, lists and texts, by the names of the cases."""
    return {
        verdict.name: {
            "kind": verdict.kind,
            "result": verdict.word.value,
            "told": list(verdict.told),
            "beside": list(verdict.beside),
            "error": verdict.outcome.error,
            "differs": verdict.outcome.differs,
        }
        for verdict in verdicts
    }


def table(verdicts: Iterable[Verdict]) -> str:
    """One row per kind, as Markdown; what is correct comes last."""
    rows: dict[str, list[Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.kind == CORRECT):
        rows.setdefault(verdict.kind, []).append(verdict)
    lines = [
        "| cases | tried | found with line | found | missed | false alarms |",
        "|---|---|---|---|---|---|",
    ]
    for kind, cases in rows.items():
        words = [verdict.word for verdict in cases]
        if kind == CORRECT:
            counts = ["", "", "", str(words.count(Word.FALSE))]
        else:
            found = [words.count(Word.LINE), words.count(Word.LINE) + words.count(Word.FOUND)]
            counts = [*map(str, (*found, words.count(Word.MISSED))), ""]
        lines.append(f"| {kind} | {len(cases)} | {' | '.join(counts)} |")
    return "\n".join(lines)
