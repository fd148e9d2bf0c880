"""Rows, or channels of each position, of length one: x / max(|x|, epsilon), as torch writes its `normalize`
over the last dimension or over channels."""

from __future__ import annotations

from user_layers.onnx.channels import CHANNEL_NORM, is_picture
from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher

UNIT_ROWS = "UnitRows"  # an operation of this compiler alone
_LEAST = 1e-18  # an epsilon whose square is no number of single precision is left as it is written


def unit_rows(at: Matcher, last: Node) -> Found | None:
    """A quotient of vectors and their lengths, which are limited and may be expanded."""
    if last.op != "Div" or len(last.inputs) != 2:
        return None
    limited = last.inputs[1]
    expanded = at.node(limited, "Expand")
    if expanded is not None:
        limited = expanded.inputs[0]
    clip = at.node(limited, "Clip")
    if clip is None or (len(clip.inputs) > 2 and clip.inputs[2]) or "max" in clip.attributes:
        return None
    least = at.number(clip.inputs[1]) if len(clip.inputs) > 1 else clip.attributes.get("min")
    if least is None or not _LEAST <= least < 1:
        return None
    source, epsilon = last.inputs[0], float(least)
    if at.length_along(clip.inputs[0], -1) == source:
        return Found(UNIT_ROWS, source, {"axis": -1, "epsilon": epsilon})
    if is_picture(at.shape(source)) and at.length_along(clip.inputs[0], 1) == source:
        return Found(CHANNEL_NORM, source, {"rms": 2, "epsilon": epsilon})
    return None
