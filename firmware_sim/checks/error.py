"""The error of a run that ended, and whose checks found something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firmware_sim.checks.finding import Finding
from firmware_sim.checks.text import report
from firmware_sim.errors import TpulayerError


class CheckError(TpulayerError):
    """Checks found what is wrong. What ran has come to its end, and its results are where they belong: the
    device has neither refused nor failed, which is what a DeviceError says.

    findings: each once, those that are wrong first, then advice; untold: how many more there were of each
    rule. activity: what ran; limit: how many are told in full by the message.
    """

    exit_code = 5

    def __init__(
        self,
        activity: str,
        findings: Sequence[Finding],
        limit: int,
        untold: Mapping[str, int] | None = None,
    ) -> None:
        self.activity = activity
        self.findings = tuple(findings)
        self.untold = dict(untold or {})
        super().__init__(f"{activity}: checks found\n\n{report(self.findings, limit, self.untold)}")
