"""What becomes of the findings of a device's checks: an error once all is done, or a call of the user's."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from firmware_sim.checks import rules
from firmware_sim.checks.error import CheckError
from firmware_sim.checks.finding import Finding
from firmware_sim.checks.merged import merged
from firmware_sim.checks.text import report, told

OnFindings = Callable[[list[Finding]], object]


def words(kinds: frozenset[rules.Kind]) -> str:
    """What `--check` takes for these kinds."""
    return ",".join(kind.value for kind in rules.Kind if kind in kinds) or "off"


class Delivery:
    """Takes the findings of one device's requests, and hands them on.

    check, limit: as `Device` takes them. tell: gets the findings of each request that has some, instead of
    the error and of advice on stderr. Raises UsageError for words that name no check.
    """

    def __init__(self, check: str | None, limit: int | None, tell: OnFindings | None) -> None:
        self.kinds = rules.chosen(check)
        self.limit = rules.limit(limit)
        self._tell = tell
        self._advised: set[tuple[object, ...]] = set()

    def header(self) -> dict[str, object]:
        """What the device process has to know for a request."""
        return {
            "checks": [kind.value for kind in rules.Kind if kind in self.kinds],
            "check_limit": self.limit,
        }

    def take(self, activity: str, answer: Mapping[str, Any], *, failed: bool = False) -> None:
        """The findings in the header of a reply; delivered now, or at the end of `together`.

        "findings": Finding.to_json() of each; "findings_untold": how many more there were, by rule.
        failed: the request ends with another error, which counts more: they are told, not raised.
        """
        found = [Finding.from_json(one) for one in answer.get("findings", ())]
        untold = Counter({str(rule): int(n) for rule, n in answer.get("findings_untold", {}).items()})
        if not found and not untold:
            return
        gathering = _GATHERING.get()
        if gathering is not None and not failed:
            gathering.setdefault(self, _Gathered(activity)).add(found, untold)
        else:
            self.deliver(activity, found, untold, failed=failed)

    def deliver(
        self, activity: str, findings: Sequence[Finding], untold: Mapping[str, int], *, failed: bool
    ) -> None:
        """Raises CheckError where nobody else is to get them and one is more than advice."""
        found = merged(findings)
        if self._tell is not None:
            self._tell(found)
            return
        wrong = any(not finding.about.advice for finding in found)
        wrong = wrong or any(not rules.RULES[rule].advice for rule in untold)
        if wrong and not failed:
            raise CheckError(activity, found, self.limit, untold)
        if wrong:
            _say(f"{activity}: checks found\n\n{report(found, self.limit, untold)}\n")
            return
        for finding in found:
            if finding.key not in self._advised:
                self._advised.add(finding.key)
                _say(f"advice: {told(finding)}")


class _Gathered:
    def __init__(self, activity: str) -> None:
        self.activity = activity
        self.findings: list[Finding] = []
        self.untold: Counter[str] = Counter()

    def add(self, found: Sequence[Finding], untold: Mapping[str, int]) -> None:
        self.findings += found
        self.untold.update(untold)


_GATHERING: ContextVar[dict[Delivery, _Gathered] | None] = ContextVar("gathering", default=None)


@contextmanager
def together(activity: str = "") -> Iterator[None]:
    """The requests of this thread inside are one: what their checks find is delivered at the end, each thing
    once. Inside another one, at that one's end. activity: what they are called, by default what the first
    of them is. Where the block raises something else, findings are told on stderr."""
    if _GATHERING.get() is not None:
        yield
        return
    gathered: dict[Delivery, _Gathered] = {}
    before = _GATHERING.set(gathered)
    failed = True
    try:
        yield
        failed = False
    finally:
        _GATHERING.reset(before)
        for delivery, one in gathered.items():
            delivery.deliver(activity or one.activity, one.findings, one.untold, failed=failed)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
