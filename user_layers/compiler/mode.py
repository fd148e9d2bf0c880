"""Pass 3: static or dynamic."""

from __future__ import annotations

from dataclasses import dataclass

from user_layers.compiler.facts import DescribedNet


@dataclass(frozen=True)
class Mode:
    """reasons: why a net that was to be static is dynamic, a sentence each."""

    dynamic: bool
    reasons: tuple[str, ...] = ()


def choose_mode(described: DescribedNet, wants_dynamic: bool) -> Mode:
    """DescribedNet -> Mode: one layer that cannot be recorded makes the whole net dynamic."""
    if wants_dynamic:
        return Mode(True)
    reasons = []
    for facts in described.facts:
        for method, answer in (
            ("must_dynamic_run", facts.must_dynamic_run),
            ("output_shape_is_dynamic", facts.output_shape_is_dynamic),
        ):
            if answer:
                reasons.append(f"compiled dynamically: {method} of {facts.label} ({facts.node.name}) is true")
    return Mode(bool(reasons), tuple(reasons))
