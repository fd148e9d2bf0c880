"""Findings of one request, or of several, as users get them: each once, the errors first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from firmware_sim.checks.finding import Finding


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Those with the same key as one with a count, in the order in which they came; advice behind what is
    wrong."""
    found: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        before = found.get(finding.key)
        found[finding.key] = (
            finding if before is None else replace(before, count=before.count + finding.count)
        )
    return sorted(found.values(), key=lambda finding: finding.about.advice)
