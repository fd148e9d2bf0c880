"""What came of a sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from firmware_sim.checks.finding import Finding

PROPERTIES = {
    "golden": "alone it gives what its reference does",
    "local": "tiles in local memory, cut wherever the descriptor allows it, give the same",
    "window": "the shape function of a tile says the tile that the descriptor's windows promise",
    "dynamic": "a dynamic net gives the same, for the shapes it was compiled for and for smaller ones",
    "arm": "the controller's firmware issues the same commands and gives the same",
    "checks": "no check finds anything",
    "schedule": "the result does not depend on the order of the engines",
}
"""What is verified, in this order."""


@dataclass(frozen=True)
class Failure:
    """A property that does not hold.

    during: which of PROPERTIES was tried when it showed. kind: "differs", "failed", or the rule of a check.
    problem: in words. firmware: "native" or "arm". where: what the compiler did with the layer.
    at: output and index of the first element that differs. shapes: of the inputs of a dynamic net's run.
    """

    property: str
    during: str
    kind: str
    problem: str
    firmware: str = "native"
    where: str = ""
    at: tuple[int, tuple[int, ...]] | None = None
    shapes: tuple[tuple[int, ...], ...] | None = None
    findings: tuple[Finding, ...] = ()

    def same(self, other: Failure) -> bool:
        """Whether another case shows the same thing."""
        return (self.property, self.during, self.kind, self.firmware) == (
            other.property,
            other.during,
            other.kind,
            other.firmware,
        )


@dataclass
class Verdict:
    """refused: who does not take the case, and why, "" where all do; held: properties that hold; skipped:
    those that were not tried, and why; elements: how many were compared."""

    refused: str = ""
    held: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    elements: int = 0


_ORDER = "hazard.order"  # what executing in other orders finds


def by_property(findings: Sequence[Finding]) -> Iterator[tuple[str, Finding]]:
    """The first finding of each rule that is no advice, and which property it breaks."""
    first: dict[str, Finding] = {}
    for finding in findings:
        if not finding.about.advice:
            first.setdefault(finding.rule, finding)
    for rule, finding in first.items():
        yield "schedule" if rule == _ORDER else "checks", finding
