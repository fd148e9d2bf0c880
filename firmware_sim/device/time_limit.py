"""How long a launch may take: one setting for whatever it does, in seconds of this machine and on the chip.

`Device(time_limit=...)` or --time-limit, else TPULAYER_TIME_LIMIT, else 60 s; 0 is for any time. It is the
time of one free kernel, of one layer of a dynamic net and of one that is compiled, and of all of a static
net, which gets more where its modelled time says so and nobody chose a limit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from firmware_sim.variables import MOST, TIME_LIMIT

VARIABLE = TIME_LIMIT.name
USUAL = 60.0  # s
SLOWEST = 10_000.0  # how many times longer than on the chip a net takes where numpy's references run it
MORE = f"give it more time with --time-limit, {VARIABLE} or Device(time_limit=...), 0 for any"


@dataclass(frozen=True)
class TimeLimit:
    """seconds: 0 for any time. chosen: by the user."""

    seconds: float
    chosen: bool

    def of_net(self, modelled: float) -> float:
        """The seconds of a static net that takes so many seconds on the chip."""
        return self.seconds if self.chosen else max(self.seconds, SLOWEST * modelled)


def time_limit(given: float | None = None) -> TimeLimit:
    """The limit of launches; given: by the caller, before the environment. UsageError when it is none."""
    if given is not None and not 0 <= given < MOST:
        raise TIME_LIMIT.wrong(f"{given:g}", "time_limit")
    value = TIME_LIMIT.get() if given is None else given
    return TimeLimit(USUAL, False) if value is None else TimeLimit(value, True)


def choose(seconds: float | None) -> None:
    """Make it the limit of this process and those that it starts; None leaves what the environment says."""
    if seconds is not None:
        os.environ[VARIABLE] = f"{time_limit(seconds).seconds:g}"
