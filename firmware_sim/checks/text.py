"""Findings as people read them: where, which rule, what, by which command, beside which other, what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.rules import RULES
from firmware_sim.firmware.source_lines import Line

MOST_RANGES = 6  # of lanes in one line
Paint = Callable[[str, str], str]
"""Makes a text stand out; the first argument says as what: "place", "rule", "hint"."""


def plain(_: str, text: str) -> str:
    """The text as it is, for files and what is no terminal."""
    return text


def place(frame: Frame) -> str:
    """`FILE:LINE in FUNCTION`, relative to the working directory where that is shorter."""
    return str(Line(frame.file, frame.line, frame.function))


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as ranges: `0, 3, 8..11`; those behind MOST_RANGES ranges are counted."""
    found: list[list[int]] = []
    for n in sorted(set(numbers)):
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    words = [str(a) if a == b else f"{a}..{b}" for a, b in found[:MOST_RANGES]]
    rest = sum(b - a + 1 for a, b in found[MOST_RANGES:])
    return ", ".join(words) + (f" and {rest} more" if rest else "")


def command(issued: Issued) -> str:
    """`BD 12 (okk_bdc_add); layer TPU_ADD, node 'a', tile 2, command group 1`."""
    number = f" {issued.id}" if issued.id else ""
    head = f"{issued.engine}{number}" + (f" ({issued.name})" if issued.name else "")
    where = ", ".join(_of_net(issued))
    return f"{head}; {where}" if where else head


def _of_net(issued: Issued) -> list[str]:
    words = (
        ("layer ", issued.layer),
        ("node ", issued.node),
        ("tile ", issued.tile),
        ("command group ", str(issued.group or "")),
    )
    return [f"{word}{value}" for word, value in words if value]


def _where(issued: Issued | None) -> str:
    if issued is None:
        return ""
    if issued.frames:
        return place(issued.frames[0])
    return ", ".join(_of_net(issued)) or command(issued)


def concerns(finding: Finding) -> str:
    """Operand, tensor, address, lanes and bytes: `operand A, in x, ddr +0x200, lanes 0..31, 64 bytes`."""
    lanes = ranges(finding.lanes)
    words = (
        finding.operand and f"operand {finding.operand}",
        finding.tensor and f"in {finding.tensor}",
        finding.address,
        lanes and f"lane{'s' if len(set(finding.lanes)) > 1 else ''} {lanes}",
        finding.nbytes and f"{finding.nbytes} byte{'s' if finding.nbytes > 1 else ''}",
    )
    return ", ".join(str(word) for word in words if word)


def told(finding: Finding, paint: Paint = plain) -> str:
    """One finding: a line that editors and terminals can follow to the source, and what is known beside it,
    a line each."""
    where, by, other = _where(finding.by), finding.by, finding.other
    head = f"{paint('place', where)}: " if where else ""
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    lines = [f"{head}{paint('rule', finding.rule)}: {finding.what}{times}"]
    if by is not None:
        lines += [f"  called from {place(frame)}" for frame in by.frames[1:]]
        lines.append(f"  command: {command(by)}")
    if memory := concerns(finding):
        lines.append(f"  memory: {memory}")
    if other is not None:
        at = [place(frame) for frame in other.frames[:1]]
        lines.append(f"  other: {', '.join([command(other), *at])}")
        lines += [f"    called from {place(frame)}" for frame in other.frames[1:]]
    if finding.proof:
        lines.append(f"  proof: {finding.proof}")
    lines += [f"  {name}: {text}" for name, text in finding.more.items()]
    lines.append(f"  {paint('hint', 'hint')}: {finding.about.hint}")
    return "\n".join(lines)


def _counted(rules: Iterable[str]) -> str:
    counts = Counter("advice" if RULES[rule].advice else RULES[rule].kind.value for rule in rules)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def summary(findings: Sequence[Finding], untold: Mapping[str, int] | None = None) -> str:
    """`3 findings: 1 init, 2 hazard`; untold: how many more there were of each rule."""
    rules = [*(finding.rule for finding in findings), *Counter(untold).elements()]
    return f"{len(rules)} finding{'s' if len(rules) != 1 else ''}: {_counted(rules)}"


def report(
    findings: Sequence[Finding],
    limit: int,
    untold: Mapping[str, int] | None = None,
    paint: Paint = plain,
) -> str:
    """All findings, the first `limit` in full and the kinds of the others, with their sum as the last line.

    untold: how many more there were of each rule.
    """
    parts = [told(finding, paint) for finding in findings[:limit]]
    rest = [*(finding.rule for finding in findings[limit:]), *Counter(untold).elements()]
    if rest:
        parts.append(f"and {len(rest)} more: {_counted(rest)}")
    return "\n\n".join([*parts, summary(findings, untold)])
