"""Convolutions, matrix products and what is one: sums of products with constant weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.chip import NPU_NUM
from firmware_sim.isa.layout import CHANNELS_MAX, WINDOW_STEP_MAX
from user_layers.quantize.rewrite import RULES, Rewriting, rule
from user_layers.quantize.scales import F64, Step, Weights, quantised_weights
from user_layers.quantize.sites import Site, constant

CHANNELS = CHANNELS_MAX // NPU_NUM * NPU_NUM
"""The most inputs of a group of TPU_CONV_INT8."""
_MOVED = 6  # places by which a number times 64 is shifted back
_WINDOW = (
    *("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w"),
    *("pad_top", "pad_bottom", "pad_left", "pad_right"),
)
POINT = dict.fromkeys(_WINDOW[:6], 1) | dict.fromkeys(_WINDOW[6:], 0)
"""The window of a convolution with one tap."""
_PRODUCTS = ("TPU_CONV", "TPU_DECONV", "TPU_MATMUL")


@rule("TPU_CONV")
def convolution(state: Rewriting, site: Site) -> str | None:
    """With constant weights and steps that one command takes, or twice such a stride along one dimension."""
    window = {key: site.values[key] for key in _WINDOW}
    if reason := too_wide(window):
        return reason
    if state.info(site.node.inputs[1]).shape[1] > CHANNELS:
        return f"more than {CHANNELS:,} input channels"
    return linear(state, site, site.values["groups"], window, state.info(site.node.inputs[0]).shape)


@rule("TPU_SCALE_SHIFT")
def scale_shift(state: Rewriting, site: Site) -> str | None:
    """A factor and a summand for each channel: a depthwise convolution with one tap."""
    if not state.is_bytes(site.node.inputs[0]) and not _becomes_integers(state, site.output):
        return "its input is not in 8 bits"
    shape = state.info(site.node.inputs[0]).shape
    if len(shape) not in (3, 4) or site.values["axis"] % len(shape) != 1:
        return "channels are not the second dimension"
    factors = constant(state.net, site.node.inputs[1])
    if factors is None or shape[1] == 1:
        return "factors that are computed" if factors is None else "one channel"
    site = replace(site, relu=site.relu or bool(site.values["relu"]))
    return linear(state, site, shape[1], POINT, shape, factors.reshape(-1, 1, 1, 1))


def _becomes_integers(state: Rewriting, name: str) -> bool:
    """Whether products read a tensor, or what other 8-bit layers make of it, or the net gives it in integers:
    sooner is faster then."""
    seen, left = set[str](), [name]
    while left:
        one = left.pop()
        if state.options.quant_output and one in state.net.outputs:
            return True
        for node in (state.net.nodes[at] for at in state.net.consumers[one]):
            if node.cpu is not None or node.op.op not in RULES or state.stays(node):
                continue
            if node.op.op in _PRODUCTS:
                return True
            left += [made for made in node.outputs if made not in seen]
            seen.update(node.outputs)
    return False


def too_wide(values: Mapping[str, Any]) -> str | None:
    """Why no command makes a convolution with such strides and dilations."""
    strides = [values[key] for key in _WINDOW[2:4]]
    wide = [stride for stride in strides if stride > WINDOW_STEP_MAX]
    halves = len(wide) < 2 and all(one % 2 == 0 and one // 2 <= WINDOW_STEP_MAX for one in wide)
    if not halves or max(values[key] for key in _WINDOW[4:6]) > WINDOW_STEP_MAX:
        return f"a stride or dilation above {WINDOW_STEP_MAX}"
    return None


def linear(
    state: Rewriting,
    site: Site,
    groups: int,
    window: dict[str, int],
    shape: tuple[int, ...],
    weights: F64 | None = None,
) -> str | None:
    """TPU_CONV_INT8 for a site whose second input is the weights and whose third perhaps the bias. shape: as
    the convolution shall see its input; weights: where they are others than the constant."""
    known = constants(state, site)
    if known is None:
        return COMPUTED
    used = known[0] if weights is None else weights
    if known[1] is None and not site.relu and _chooses(used):
        return _chosen(state, site, groups, window, shape, used)
    found = in_integers(state, site, used, known[1], shape, groups)
    if isinstance(found, str):
        return found
    _write(state, site, groups, window, shape, found)
    return None


def _chooses(weights: F64) -> bool:
    """Whether each result is one of the numbers read."""
    flat = weights.reshape(len(weights), -1)
    return bool(np.all(np.count_nonzero(flat, axis=1) == 1) and np.all(flat[flat != 0] == 1))


def _chosen(
    state: Rewriting,
    site: Site,
    groups: int,
    window: dict[str, int],
    shape: tuple[int, ...],
    weights: F64,
) -> str | None:
    """A convolution that moves numbers, which keep their step: nothing is rounded again."""
    name = site.node.inputs[0]
    if missing := state.missing(name):
        return missing
    given = state.step_of(name)
    ones = (weights * 2**_MOVED).astype(np.int8)
    site = replace(site, relu=not given.signed)  # which makes the result one without signs
    _write(state, site, groups, window, shape, Weights(ones, None, _MOVED, given.scale))
    return None


COMPUTED = "weights or bias that are computed"


def constants(state: Rewriting, site: Site) -> tuple[F64, F64 | None] | None:
    """A site's second input, and its third if there is one; None where a layer makes one of them."""
    names = site.node.inputs
    weights = constant(state.net, names[1])
    bias = constant(state.net, names[2]) if len(names) > 2 else None
    return None if weights is None or (len(names) > 2 and bias is None) else (weights, bias)


def in_integers(
    state: Rewriting,
    site: Site,
    weights: F64,
    bias: F64 | None,
    shape: tuple[int, ...],
    groups: int = 1,
    tokens: bool = False,
) -> Weights | str:
    """A convolution of a site's first input, seen as `shape`, for the site's result; or why there is none.
    tokens: the input's last dimension is seen as channels."""
    name = site.node.inputs[0]
    if missing := state.missing(name, site.output):
        return missing
    result, free = state.wanted(site.output, not site.relu, site.limit)
    found = quantised_weights(
        weights,
        None if bias is None else bias.reshape(-1),
        state.step_of(name),
        result,
        free=free,
        power=state.power(name),
        mean=_means(state, name, shape) if tokens == (name in state.tokens) else None,
        groups=groups,
    )
    return found or "weights too large for the scales of input and result"


def _means(state: Rewriting, name: str, shape: tuple[int, ...]) -> Any:
    """Of each channel of the input, or of each of its elements, where the table has them for these."""
    one = state.ranges.get(name)
    if one is None or len(one.mean) not in (shape[1], math.prod(shape[1:])):
        return None
    return np.array(one.mean)


def _write(
    state: Rewriting,
    site: Site,
    groups: int,
    window: dict[str, int],
    shape: tuple[int, ...],
    found: Weights,
) -> None:
    source, given = state.as_bytes(site.node, site.node.inputs[0])
    own = state.info(site.node.inputs[0]).shape
    if own != shape:
        source = state.reshaped(site, source, shape, state.between(site, "pixels"), beside=True)
    step = Step(found.scale, not site.relu)
    name = state.result(site, step)
    wide = [key for key in _WINDOW[2:4] if window[key] > WINDOW_STEP_MAX]
    inputs, values = conv_of(
        state, site, source, found, {"groups": groups, **window, **{key: window[key] // 2 for key in wide}}
    )
    out = state.info(site.output).shape
    if own != shape:
        inner = state.layer(site, "TPU_CONV_INT8", inputs, values, state.between(site, "pixel"))
        state.reshaped(site, inner, out, name, beside=True)
    elif wide:  # every other one of its results
        inner = state.layer(site, "TPU_CONV_INT8", inputs, values, state.between(site, "all"))
        chosen = {**POINT, **dict.fromkeys(wide, 2), "dtype": int(step.dtype), "scale": step.scale}
        state.layer(site, "TPU_POOL_INT8", [inner], chosen, name, beside=True)
    else:
        state.layer(site, "TPU_CONV_INT8", inputs, values, name)
    tell(state, site, given, found)


def conv_of(
    state: Rewriting, site: Site, source: str, found: Weights, window: Mapping[str, int]
) -> tuple[list[str], dict[str, Any]]:
    """Inputs and parameters of TPU_CONV_INT8."""
    inputs = [source, state.constant(site, "weights", found.weights)]
    if found.bias is not None:
        inputs.append(state.constant(site, "bias", found.bias))
    return inputs, {**window, "rshift": found.rshift, "relu": int(site.relu), "scale": found.scale}


def tell(state: Rewriting, site: Site, given: Step, found: Weights) -> None:
    """For the report."""
    largest = int(np.abs(found.weights.astype(int)).max(initial=0))
    short = f", {found.short} bits of weights given up for the bias" if found.short else ""
    state.short[site.node.name] = found.short
    state.details[site.node.name] = (
        f"rshift {found.rshift}, weights to {largest}, scale {given.scale:.6g} -> {found.scale:.6g}{short}"
    )
