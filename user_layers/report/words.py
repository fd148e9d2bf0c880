"""Reasons in words that say something to who did not write the toolkit; names that many layers share."""

from __future__ import annotations

import re

_PHRASES = {
    "no local function": "it has no version for local memory",
    "force_use_global_layer": "with these shapes and parameters it works on whole tensors only",
    "opt=0": "opt 0 makes no groups",
}
_REFUSED = re.compile(
    r"(?:its shape function failed: )?(?:layer )?(\w+): shape function returned -?\d+ \(BM_LAYER_(\w+)\)"
)
_REFUSALS = {
    "NOT_SUPPORTED": "the layer {} does not do these shapes, types or parameters",
    "PARAM_INVALID": "the layer {} does not take these inputs or parameters",
}
_NUMBER = re.compile(r"\d+")


def plain(reason: str) -> str:
    """A reason of the compiler without names of functions and codes; others stay as they are."""

    def refusal(found: re.Match[str]) -> str:
        return _REFUSALS.get(found[2], "the layer {} refuses it").format(found[1])

    return _PHRASES.get(reason, _REFUSED.sub(refusal, reason))


def pattern(name: str) -> str:
    """What names of repeated layers have in common: `layers.*.attn` of `layers.11.attn`."""
    return _NUMBER.sub("*", name)
