"""Transposed convolutions: each pixel of the input makes a square of the result, whose pixels are channels of
a plain convolution first.

Of the zeros that an instruction would insert nothing is computed; taps that only some pixels of a square have
are zeros for the others.
"""

from __future__ import annotations

import numpy as np

from user_layers.net.phases import Axis, phases
from user_layers.quantize.rewrite import Rewriting, rule
from user_layers.quantize.rules_linear import COMPUTED, POINT, constants, conv_of, in_integers, tell
from user_layers.quantize.scales import Step
from user_layers.quantize.sites import Site


@rule("TPU_DECONV")
def transposed(state: Rewriting, site: Site) -> str | None:
    """Without groups and dilation, with one stride."""
    values, node = site.values, site.node
    if values["groups"] != 1 or max(values["dilation_h"], values["dilation_w"]) > 1:
        return "a transposed convolution with groups or dilation"
    if values["stride_h"] != values["stride_w"]:
        return "a transposed convolution with two strides"
    shape, out = state.info(node.inputs[0]).shape, state.info(site.output).shape
    stride = values["stride_h"]
    h, w = (
        Axis(shape[d], out[d], values[f"kernel_{name}"], stride, values[f"pad_{before}"])
        for d, name, before in ((2, "h", "top"), (3, "w", "left"))
    )
    if h.first > 0 or w.first > 0:
        return "pads beyond the kernel"
    given = constants(state, site)
    if given is None:
        return COMPUTED
    weights, bias = given
    bias = None if bias is None else np.tile(bias.reshape(-1), stride**2)
    found = in_integers(state, site, phases(weights, h, w), bias, shape)
    if isinstance(found, str):
        return found
    source, own = state.as_bytes(node, node.inputs[0])
    after = [max(one.pads[1], 0) for one in (h, w)]
    window = {**POINT, "groups": 1, "kernel_h": h.taps, "kernel_w": w.taps}
    window |= {"pad_top": -h.first, "pad_bottom": after[0], "pad_left": -w.first, "pad_right": after[1]}
    inputs, conv = conv_of(state, site, source, found, window)
    made = state.layer(site, "TPU_CONV_INT8", inputs, conv, state.between(site, "squares"))
    cut = any(one.pads[1] < 0 or one.out % stride for one in (h, w))
    name = state.result(site, Step(found.scale, not site.relu))
    whole = state.between(site, "whole") if cut else name
    blocks = {"block_h": stride, "block_w": stride, "crd": 0}
    state.layer(site, "TPU_DEPTH_TO_SPACE", [made], blocks, whole, beside=True)
    if cut:
        ends = {"count": 2, "axes": (2, 3), "starts": (0, 0), "ends": tuple(out[2:]), "steps": (1, 1)}
        state.layer(site, "TPU_SLICE", [whole], ends, name, beside=True)
    tell(state, site, own, found)
    return None
