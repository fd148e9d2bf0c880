"""Hard sigmoid and hard swish of integers without a table: what is beyond 0 and 1 is cut where integers end.

A table costs 27 cycles for the sixteen pixels of a lane and batch, a depthwise convolution with one tap and a
product together a fifth of that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from user_layers.graph import BINARY_MUL
from user_layers.net.functions import UNARY
from user_layers.quantize.rewrite import Rewriting
from user_layers.quantize.rules_linear import POINT, conv_of
from user_layers.quantize.scales import Step, product_step, quantised_weights
from user_layers.quantize.sites import Site

_COARSER = 2**0.25  # than its threshold asks for a result may be: 1.5 dB of its rounding
_ONE = Step.for_threshold(1.0, False)  # its largest integer, 255, stands for 1


def gated(state: Rewriting, site: Site) -> bool:
    """Write a hard sigmoid or a hard swish of integers, if its scales bear it."""
    function = site.values["unary_op"]
    source = site.node.inputs[0]
    shape = state.shape_given(source)
    name, given = state.given(source)
    if len(shape) not in (3, 4) or shape[1] == 1:
        return False
    if function == UNARY["HARD_SIGMOID"]:
        slope, summand = float(site.values["a"]), float(site.values["b"])
        if slope <= 0 or not state.is_free(site.output):
            return False
        return _gate(state, site, slope, summand, last=True) is not None
    signed = given.signed
    wanted, _ = state.wanted(site.output, signed)
    step, rshift = product_step(given, _ONE, state.threshold(site.output), signed)
    if step.scale > _COARSER * wanted.scale or not state.is_free(site.output):
        return False
    gate = _gate(state, site, 1 / 6, 0.5, last=False)
    if gate is None:
        return False
    values: dict[str, float] = {
        "binary_op": BINARY_MUL,
        "multiplier_a": 1,
        "multiplier_b": 1,
        "rshift": rshift,
        "relu": 0,
    }
    values |= {"dtype": int(step.dtype), "scale": step.scale}
    made = state.result(site, step, like=source)
    state.layer(site, "TPU_ELTWISE_INT8", [name, gate], values, made)
    return True


def _gate(state: Rewriting, site: Site, slope: float, summand: float, *, last: bool) -> str | None:
    """clip(slope x + summand, 0, 1), whose name is returned. last: it is the site's result."""
    source = site.node.inputs[0]
    channels = state.shape_given(source)[1]
    name, given = state.given(source)
    found = quantised_weights(
        np.full((channels, 1, 1, 1), slope),
        np.full(channels, summand),
        given,
        _ONE,
        free=False,
        power=state.power(source),
    )
    if found is None:
        return None
    window = {"groups": channels, **POINT}
    inputs, values = conv_of(state, replace(site, relu=True), name, found, window)
    output = state.result(site, _ONE, like=source) if last else state.between(site, "gate")
    return state.layer(site, "TPU_CONV_INT8", inputs, values, output, beside=not last)
