"""The name in a marker's parentheses."""

from __future__ import annotations

from firmware_sim.suggest import did_you_mean
from firmware_sim.wire import NAME_BYTES
from user_layers.scan.model import KINDS
from user_layers.scan.names import is_identifier, keyword_of


def unknown_marker(kind: str) -> tuple[str, str] | None:
    """What is wrong with __BM_<kind>__, as (message, hint); None when it is a marker."""
    if kind in KINDS:
        return None
    names = [f"__BM_{known}__" for known in KINDS]
    return (
        f"unknown marker __BM_{kind}__{did_you_mean(f'__BM_{kind}__', names)}",
        f"the markers are {', '.join(names)}",
    )


def op_problem(kind: str, op: str) -> tuple[str, str] | None:
    """What is wrong with a marker's op name, as (message, hint); None when nothing is."""
    if not op:
        return (
            f"__BM_{kind}__ without the layer's name",
            f"write the name in parentheses: __BM_{kind}__(TPU_NAME)",
        )
    if not is_identifier(op):
        return (
            f"`{op}` in __BM_{kind}__ is not a C identifier",
            "use letters, digits and underscores, not starting with a digit: it becomes an enum constant",
        )
    if keyword_of(op):
        return (
            f"`{op}` in __BM_{kind}__ is a {keyword_of(op)} keyword",
            "choose another name, for example with the prefix TPU_",
        )
    if len(op) > NAME_BYTES:
        return (
            f"`{op}` in __BM_{kind}__ has {len(op)} characters",
            f"op names have at most {NAME_BYTES}: that is what the firmware's records hold",
        )
    return None
