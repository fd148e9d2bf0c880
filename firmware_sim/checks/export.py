"""Findings for other programs: a list for JSON, and SARIF 2.1.0, which editors and code hosts show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.rules import RULES, Rule
from firmware_sim.checks.text import command, concerns

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "WORKSPACE"
Object = dict[str, Any]


def as_json(findings: Sequence[Finding]) -> list[Object]:
    """Each finding as `Finding.to_json` has it, with kind, title, hint and advice of its rule."""
    return [
        {**one.to_json(), **{name: value for name, value in _rule(one.about).items() if name != "name"}}
        for one in findings
    ]


def _rule(rule: Rule) -> Object:
    return {
        "name": rule.name,
        "kind": rule.kind.value,
        "title": rule.title,
        "hint": rule.hint,
        "advice": rule.advice,
    }


def as_sarif(findings: Sequence[Finding], *, version: str, folder: Path) -> Object:
    """A SARIF log with one run. version: of the tool. folder: files below it are told relative to it, as
    code hosts want them; others with their whole path."""
    ids = list(RULES)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "tpulayer",
                        "semanticVersion": version,
                        "rules": [_descriptor(rule) for rule in RULES.values()],
                    }
                },
                "originalUriBaseIds": {_ROOT: {"uri": f"{folder.resolve().as_uri()}/"}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, ids.index(one.rule), folder.resolve()) for one in findings],
            }
        ],
    }


def _level(rule: Rule) -> str:
    return "note" if rule.advice else "error"


def _descriptor(rule: Rule) -> Object:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title}: {rule.hint}"},
        "help": {"text": rule.hint},
        "defaultConfiguration": {"level": _level(rule)},
        "properties": {"tags": [rule.kind.value]},
    }


def _result(finding: Finding, index: int, folder: Path) -> Object:
    by, other = finding.by, finding.other
    result: Object = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _level(finding.about),
        "message": {"text": _message(finding)},
        "occurrenceCount": finding.count,
        "properties": {
            name: value
            for name, value in finding.to_json().items()
            if name not in ("rule", "count") and value not in (None, "", 0, (), {})
        },
    }
    if by is not None and by.frames:
        result["locations"] = [_location(by.frames[0], folder)]
        result["stacks"] = [_stack(by, folder)]
    related = [(frame, "called from here") for frame in (by.frames[1:] if by is not None else ())]
    if other is not None:
        related += [(frame, command(other)) for frame in other.frames[:1]]
        related += [(frame, "which is called from here") for frame in other.frames[1:]]
    if related:
        result["relatedLocations"] = [
            {"id": i, **_location(frame, folder), "message": {"text": text}}
            for i, (frame, text) in enumerate(related, 1)
        ]
    return result


def _message(finding: Finding) -> str:
    lines = [finding.what, concerns(finding), finding.proof, f"hint: {finding.about.hint}"]
    return "\n".join(filter(None, lines))


def _stack(issued: Issued, folder: Path) -> Object:
    frames = [{"location": _location(frame, folder)} for frame in issued.frames]
    return {"message": {"text": command(issued)}, "frames": frames}


def _location(frame: Frame, folder: Path) -> Object:
    place: Object = {"artifactLocation": _artifact(frame.file, folder)}
    if frame.line:
        place["region"] = {"startLine": frame.line}
    location: Object = {"physicalLocation": place}
    if frame.function:
        location["logicalLocations"] = [{"name": frame.function, "kind": "function"}]
    return location


def _artifact(file: str, folder: Path) -> Object:
    path = PurePath(file)
    if not path.is_absolute():
        path = folder / path
    if path.is_relative_to(folder):
        # a path that begins at the root can write what has to be %20 and the like
        return {
            "uri": PurePath("/", path.relative_to(folder)).as_uri()[len("file:///") :],
            "uriBaseId": _ROOT,
        }
    return {"uri": path.as_uri()}
