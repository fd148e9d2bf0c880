"""What becomes of the findings of a device's checks: an error once all is done, or a call of the user's."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from firmware_sim.checks import rules
from firmware_sim.checks.error import CheckError
from firmware_sim.checks.finding import Attribute, Finding, attributed
from firmware_sim.checks.merged import merged
from firmware_sim.checks.text import report, told
from firmware_sim.variables import CHECK, CHECK_LIMIT

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

    def header(self, *, checked: bool = True) -> dict[str, object]:
        """What the device process has to know for a request. checked: False for a program that is recorded to
        be measured only: nobody looks at its layers' calls."""
        kinds = [kind.value for kind in rules.Kind if self.looks_for(kind)]
        return {"checks": kinds, "check_limit": self.limit, "checked": checked}

    def looks_for(self, kind: rules.Kind) -> bool:
        """Whether a request that is made now has this check."""
        gathering = _GATHERING.get()
        return kind in (self.kinds if gathering is None or gathering.kinds is None else gathering.kinds)

    def take(
        self,
        activity: str,
        answer: Mapping[str, Any],
        attribute: Attribute | None = None,
        *,
        failed: bool = False,
    ) -> None:
        """The findings in the header of a reply; delivered now, or at the end of `together`.

        "findings": Finding.to_json() of each; "findings_untold": how many more there were, by rule.
        attribute: says more of who issued commands. failed: the request ends with another error, which
        counts more: they are told, not raised.
        """
        found = [attributed(Finding.from_json(one), attribute) for one in answer.get("findings", ())]
        untold = Counter({str(rule): int(n) for rule, n in answer.get("findings_untold", {}).items()})
        if found or untold:
            self.add(activity, found, untold, failed=failed)

    def add(
        self,
        activity: str,
        found: list[Finding],
        untold: Mapping[str, int] = MappingProxyType({}),
        *,
        failed: bool = False,
    ) -> None:
        """Findings that came otherwise; delivered in the same way."""
        gathering = _GATHERING.get()
        if gathering is not None:
            gathering.add(self, activity, found, untold)
        else:
            self.deliver(activity, found, untold, None, failed=failed)

    def deliver(
        self,
        activity: str,
        findings: Sequence[Finding],
        untold: Mapping[str, int],
        instead: OnFindings | None,
        *,
        failed: bool,
    ) -> None:
        """Raises CheckError where nobody is to get them and one is more than advice. instead: who gets them
        in place of the device's."""
        found, tell = merged(findings), instead or self._tell
        if tell is not None:
            tell(found)
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


@dataclass
class _Gathered:
    """What the requests of one device found. activity: the first of them."""

    activity: str
    findings: list[Finding] = field(default_factory=list)
    untold: Counter[str] = field(default_factory=Counter)


@dataclass
class _Gathering:
    """What `together` was given, and what has come since."""

    kinds: frozenset[rules.Kind] | None
    activity: str
    of: dict[Delivery, _Gathered] = field(default_factory=dict)

    def add(
        self, of: Delivery, activity: str, findings: Sequence[Finding], untold: Mapping[str, int]
    ) -> None:
        """What one request found, or several that were together."""
        one = self.of.setdefault(of, _Gathered(self.activity or activity))
        one.findings += findings
        one.untold.update(untold)


_GATHERING: ContextVar[_Gathering | None] = ContextVar("gathering", default=None)


@contextmanager
def together(
    activity: str = "", *, check: str | None = None, on_findings: OnFindings | None = None
) -> Iterator[None]:
    """The requests of this thread inside are one: what their checks find is delivered at the end, each thing
    once. Inside another one that end counts, unless something of its own is asked for.

    activity: what they are called, by default what the first of them with findings is. check, on_findings:
    instead of those of the devices. Where the block raises something else, findings are told on stderr.
    Raises UsageError for words that name no check, and CheckError.
    """
    outer = _GATHERING.get()
    if outer is not None and check is None and on_findings is None:
        before, outer.activity = outer.activity, outer.activity or activity
        try:
            yield
        finally:
            outer.activity = before
        return
    kinds = outer.kinds if outer is not None else None
    if check is not None:
        kinds = rules.chosen(check)
    gathering = _Gathering(kinds, activity)
    token = _GATHERING.set(gathering)
    failed = True
    try:
        yield
        failed = False
    finally:
        _GATHERING.reset(token)
        raised: CheckError | None = None
        for delivery, one in gathering.of.items():
            if outer is not None and on_findings is None:
                outer.add(delivery, one.activity, one.findings, one.untold)
                continue
            try:
                delivery.deliver(one.activity, one.findings, one.untold, on_findings, failed=failed)
            except CheckError as error:  # of one device; those of others are told
                raised, failed = error, True
        if raised is not None:
            raise raised


def choose(check: str | None, limit: int | None, *, schedule: bool = False) -> None:
    """Make them those of this process and of those that it starts; None leaves what the environment says.
    schedule: other legal orders of commands besides. UsageError for words that name no check, and for no
    count."""
    if check is not None or schedule:
        more = {rules.Kind.SCHEDULE} if schedule else set[rules.Kind]()
        os.environ[CHECK.name] = words(rules.chosen(check) | more)
    if limit is not None:
        os.environ[CHECK_LIMIT.name] = str(CHECK_LIMIT.value(str(limit), "--check-limit"))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
