"""How many examples a property test tries: its own number under the suite's profile, more under `long`."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings

_USUAL = 100  # examples of the profile "suite"
_LONG = 20  # times as many

# The same examples in every run. Busy machines are not failure: times are measured in benchmarks/.
settings.register_profile("suite", derandomize=True, database=None, deadline=None, max_examples=_USUAL)
# What tests.mutate takes: that a case fails is enough, which one does not matter.
settings.register_profile(
    "suite-unshrunk", settings.get_profile("suite"), phases=[Phase.explicit, Phase.generate]
)
settings.register_profile("long", deadline=None, max_examples=_USUAL * _LONG)


def examples(count: int, **more: Any) -> settings:
    """Goes above @given: `count` examples, times the profile's factor. more: other settings of hypothesis."""
    return settings(max_examples=count * settings().max_examples // _USUAL, **more)
