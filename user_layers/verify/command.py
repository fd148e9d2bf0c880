"""Layers verified: samples handed out until the budget is spent, then the smallest of what fails."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from firmware_sim.errors import UsageError
from firmware_sim.shown import count
from user_layers.cases.hand_out import Where, hand_out
from user_layers.verify.verdict import PROPERTIES
from user_layers.verify.work import Counterexample, Job, Outcome, Packed, Ticket, worker, worker_anywhere

ONLY_CHECKS = ("checks", "schedule")
"""Properties that a command ends with code 5 for, where nothing else failed."""

_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Budget:
    """How much is tried: so many cases of each layer, or for so many seconds in all; 0: no such limit."""

    cases: int = 0
    seconds: float = 60.0

    @staticmethod
    def of(text: str) -> Budget:
        """`200`, `60s`, `5m`, `8h`. Errors: UsageError for another text."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
        if match is None or float(match[1]) <= 0 or (not match[2] and "." in match[1]):
            raise UsageError(f"--budget {text}", hint="a number of cases, or a time: 200, 60s, 5m, 8h")
        if not match[2]:
            return Budget(int(match[1]), 0.0)
        return Budget(0, float(match[1]) * _SECONDS[match[2]])


@dataclass
class LayerReport:
    """What came of a layer. cases: that were tried, seconds: that they took of all workers."""

    name: str
    cases: int = 0
    elements: int = 0
    seconds: float = 0.0
    held: Counter[str] = field(default_factory=Counter)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Outcome | None = None
    found: list[Counterexample] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more."""
        self.cases += outcome.sample is not None
        self.elements += outcome.elements
        self.seconds += outcome.seconds
        self.held += outcome.held
        self.skipped += outcome.skipped
        self.refused += outcome.refused
        if outcome.failures and self.failed is None:
            self.failed = outcome

    @property
    def code(self) -> int:
        """The exit code of a command that verified only this."""
        kinds = {one.failure.property for one in self.found}
        return 0 if not kinds else 5 if kinds.issubset(ONLY_CHECKS) else 1


@dataclass
class Report:
    """What came of all. seconds: from begin to end."""

    seed: int
    layers: dict[str, LayerReport]
    seconds: float = 0.0

    @property
    def code(self) -> int:
        """The exit code: 1 where anything differs, 5 where only checks found something."""
        codes = {layer.code for layer in self.layers.values()}
        return 1 if 1 in codes else max(codes, default=0)


def verify_all(
    job: Job,
    budget: Budget,
    where: Where | None = None,
    step: Callable[[str], None] = lambda _: None,
    sample: Ticket | None = None,
) -> Report:
    """Try samples of all layers in turn; a layer's end where one fails. sample: only this one.

    Errors: those of the workers' opening, and of handing out.
    """
    where = where or Where()
    report = Report(job.seed, {name: LayerReport(name) for name in job.names})
    begin = time.monotonic()
    given = iter([sample]) if sample is not None else _tickets(report, budget, begin)
    for outcome in _handed_out(job, given, where):
        report.layers[outcome.layer].add(outcome)
        tried = sum(layer.cases for layer in report.layers.values())
        rate = tried / (time.monotonic() - begin)
        step(f"verifying, {count(tried, 'case')}, {rate:.1f} a second")
    wrong = [
        Ticket(layer.name, layer.failed.number, layer.failed.sample, failure)
        for layer in report.layers.values()
        if layer.failed is not None
        for i, failure in enumerate(layer.failed.failures)
        if failure.property not in [other.property for other in layer.failed.failures[:i]]
    ]
    for k, outcome in enumerate(_handed_out(job, wrong, where) if wrong else ()):
        assert outcome.found is not None
        found = report.layers[outcome.layer].found
        if outcome.found.failure.property not in [one.failure.property for one in found]:
            found.append(outcome.found)
        step(f"making counterexamples smaller, {k + 1} of {len(wrong)}")
    report.seconds = time.monotonic() - begin
    return report


def _handed_out(job: Job, tickets: Iterator[Ticket] | list[Ticket], where: Where) -> Iterator[Outcome]:
    if where.dask:
        return hand_out(worker_anywhere, (Packed.of(job),), tickets, where)
    return hand_out(worker, (job,), tickets, where)


def _tickets(report: Report, budget: Budget, begin: float) -> Iterator[Ticket]:
    """Number after number, of all layers that have not failed."""
    number = 0
    while not budget.cases or number < budget.cases:
        left = [layer for layer in report.layers.values() if layer.failed is None]
        if not left:
            return
        for layer in left:
            if budget.seconds and time.monotonic() - begin > budget.seconds:
                return
            yield Ticket(layer.name, number)
        number += 1


def lines(report: Report) -> Iterator[str]:
    """What people read."""
    for layer in report.layers.values():
        held = ", ".join(f"{name} {layer.held[name]}" for name in PROPERTIES if layer.held[name])
        refused = sum(layer.refused.values())
        yield (
            f"{layer.name}: {count(layer.cases, 'case')}, {refused} refused"
            f"{f'; held: {held}' if held else ''}"
        )
        for why, times in _alike(layer.refused).most_common(3):
            yield f"  refused {times} times by {why}"
        reasons: dict[str, str] = {}
        for (name, why), _ in layer.skipped.most_common():
            if not layer.held[name]:
                reasons.setdefault(name, why)
        for name, why in reasons.items():
            yield f"  {name} never tried: {why}"
        for one in layer.found:
            yield from told(one, report.seed)
    wrong = [layer.name for layer in report.layers.values() if layer.found]
    cases = sum(layer.cases for layer in report.layers.values())
    rate = cases / report.seconds if report.seconds else 0.0
    what = f"{', '.join(wrong)} failed" if wrong else "everything holds"
    yield f"verify: {what}; {count(cases, 'case')}, {rate:.1f} a second, seed {report.seed}"


def _alike(reasons: Counter[str]) -> Counter[str]:
    """Reasons that differ in numbers only, as one, in the words of the first."""
    first: dict[str, str] = {}
    found: Counter[str] = Counter()
    for why, times in reasons.items():
        found[first.setdefault(re.sub(r"[\d, ]+", "", why), why)] += times
    return found


def told(one: Counterexample, seed: int) -> Iterator[str]:
    """A counterexample."""
    failure = one.failure
    how = "smallest" if one.smallest else "smallest so far"
    yield (
        f"{one.layer}: {failure.property} FAILED ({PROPERTIES[failure.property]}); case {one.number} of seed "
        f"{seed}, the {how} of {one.runs} tried:"
    )
    yield f"  {one.case}"
    if failure.where or failure.shapes:
        words = [failure.firmware if failure.firmware != "native" else "", failure.where]
        words += [f"run with {list(shape)}" for shape in failure.shapes or ()]
        yield f"  {', '.join(filter(None, words))}"
    yield f"  {failure.problem}"
    yield from (f"  {line}" for line in one.lines)
