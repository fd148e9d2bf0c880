"""Attention: both of its products in 8 bits, and what is between them as good as in fp32.

Queries, keys and values become whole numbers, which the layer fetches as bytes; so they come as fp32, as
does the result. Scores have 16 bits, which no range is needed for.
"""

from __future__ import annotations

from user_layers.net.functions import BINARY
from user_layers.quantize.rewrite import Rewriting, rule
from user_layers.quantize.scales import Step
from user_layers.quantize.sites import Site

_WORD = 4  # bytes


@rule("TPU_ATTENTION")
def attention(state: Rewriting, site: Site) -> str | None:
    """Of heads whose sizes are whole words of bytes."""
    values = site.values
    if values["mixed"]:
        return "heads that are mixed"
    if values["size"] % _WORD or values["value_size"] % _WORD:
        return f"heads of {values['size']} and {values['value_size']} channels, no multiples of {_WORD}"
    operands, rest = site.node.inputs[:3], site.node.inputs[3:]
    if missing := state.missing(*operands):
        return missing
    whole: dict[str, tuple[str, Step]] = {}
    for name in operands:
        if name not in whole:
            whole[name] = _whole(state, site, name, f"whole{len(whole)}")
    query, key, value = (whole[name][1].scale for name in operands)
    scaled = {**values, "scale": values["scale"] * query * key, "unit": value}
    inputs = [*(whole[name][0] for name in operands), *(state.as_plain(site.node, name) for name in rest)]
    state.layer(site, "TPU_ATTENTION", inputs, scaled, site.output)
    state.plain[site.output] = site.output
    state.details[site.node.name] = f"scales {query:.6g}, {key:.6g}, {value:.6g}"
    return None


def _whole(state: Rewriting, site: Site, name: str, what: str) -> tuple[str, Step]:
    """A tensor in fp32, divided by its step, which the layer rounds."""
    step = state.step_of(name, signed=True)
    if not step.signed:
        step = Step(step.scale * step.largest / Step(1.0, True).largest, True)
    divided = {"value": 1.0 / step.scale, "binary_op": BINARY["MUL"], "inversed": 0}
    source = state.as_plain(site.node, name)
    return state.layer(site, "TPU_CONST_BINARY", [source], divided, state.between(site, what)), step
