"""Attention: both of its products in 8 bits, and what is between them in fp32.

Queries, keys and values become whole numbers, which the layer fetches as bytes; so they come as fp32, as
does the result. Scores have 16 bits, which no range is needed for; e^x beside the largest one of a row has 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from firmware_sim.chip import NPU_NUM
from firmware_sim.isa.bursts import BURST_BYTES
from firmware_sim.isa.layout import CHANNELS_MAX
from firmware_sim.isa.timing import FITTED
from user_layers.net.functions import BINARY
from user_layers.net.heads import head_channels
from user_layers.quantize.attended import LEAST, SUMMED
from user_layers.quantize.rewrite import Rewriting, rule
from user_layers.quantize.rules_linear import CHANNELS
from user_layers.quantize.scales import F64, Step
from user_layers.quantize.sites import Site, constant

_WORD = 4  # bytes
_PIXELS = 16  # numbers of a lane that a command takes at once
_SOFTMAX, _SOFTMAX_BYTES = 24, 21  # cycles of so many scores
_WIDENED = 5  # and of results that come in 16 bits
_KEYS_LOCAL = 512  # with which a batch's attention surely fits into local memory
_BEGUN = 500  # cycles of the commands that divide an operand
_TURNED = 8  # numbers that are turned in a cycle


@rule("TPU_ATTENTION")
def attention(state: Rewriting, site: Site) -> str | None:
    """Of heads whose sizes are whole words of bytes, where that is faster than in fp32 and as good."""
    values = site.values
    if values["mixed"]:
        return "heads that are mixed"
    if values["size"] % _WORD or values["value_size"] % _WORD:
        return f"heads of {values['size']} and {values['value_size']} channels, no multiples of {_WORD}"
    if values["size"] > CHANNELS:
        return f"heads of more than {CHANNELS:,} channels"
    operands, rest = site.node.inputs[:3], site.node.inputs[3:]
    if missing := state.missing(*(name for name in operands if state.info(name).data is None)):
        return missing
    kept = state.range_of(site.output)
    if kept is not None and kept.attention < LEAST:
        return f"weights of 8 bits would keep {kept.attention:.0f} dB of its result"
    if not state.pays(site.node, lambda: _pays(state, site)):
        return "slower in 8 bits than in fp32"
    steps = {
        name: _steps(state, values, name, [i for i, one in enumerate(operands) if one == name])
        for name in operands
    }
    whole = {
        name: _whole(state, site, name, steps[name], f"whole{i}")
        for i, name in enumerate(dict.fromkeys(operands))
    }
    query, key, value = (steps[name].of[i] for i, name in enumerate(operands))
    scaled = {**values, "scale": values["scale"] * query * key, "unit": value}
    inputs = [*(whole[name] for name in operands), *(state.as_plain(site.node, name) for name in rest)]
    state.layer(site, "TPU_ATTENTION", inputs, scaled, site.output)
    state.plain[site.output] = site.output
    state.details[site.node.name] = f"scales {query:.6g}, {key:.6g}, {value:.6g}"
    return None


@dataclass(frozen=True)
class _Steps:
    """What an integer of a tensor stands for, as each of the operands that it is; channels: as each of its
    channels, where they are not alike."""

    of: Mapping[int, float]
    channels: F64 | None = None


def _steps(state: Rewriting, values: Mapping[str, Any], name: str, operands: list[int]) -> _Steps:
    """operands: which of query, key and value a tensor is. A tensor that is all of them has a step for each
    where it is in fp32 and its channels' peaks are known: what is integers already keeps its own."""
    array = constant(state.net, name)
    if array is not None:
        largest = float(np.abs(array).max(initial=0.0)) or 1.0
        return _Steps(dict.fromkeys(operands, Step.for_threshold(largest, True).scale))
    step = state.step_of(name, signed=True)
    scale = step.scale if step.signed else step.scale * step.largest / Step(1.0, True).largest
    one, shape = state.ranges.get(name), state.info(name).shape
    if one is None or state.is_bytes(name) or len(shape) != 3 or len(one.peaks) != shape[-1]:
        return _Steps(dict.fromkeys(operands, scale))
    peaks, all_ = np.array(one.peaks), max(one.peaks)
    channels, taken, of = np.full(shape[-1], scale), np.zeros(shape[-1], bool), {}
    for operand in operands:
        own = head_channels(values, operand).reshape(-1)
        top = float(peaks[own].max()) * min(one.threshold / all_, 1.0) if all_ > 0 else 0.0
        of[operand] = Step.for_threshold(top, True).scale if top > 0 else scale
        if taken[own].any():  # channels that are two of them
            return _Steps(dict.fromkeys(operands, scale))
        channels[own], taken[own] = of[operand], True
    return _Steps(of, channels if len(set(of.values())) > 1 else None)


def _whole(state: Rewriting, site: Site, name: str, steps: _Steps, what: str) -> str:
    """A tensor in fp32, divided by its steps, which the layer rounds."""
    array = constant(state.net, name)
    (scale, *_) = steps.of.values()
    if array is not None:
        return state.constant(site, what, (array / scale).astype(np.float32))
    source, made = state.as_plain(site.node, name), state.between(site, what)
    if steps.channels is None:
        divided = {"value": 1.0 / scale, "binary_op": BINARY["MUL"], "inversed": 0}
        return state.layer(site, "TPU_CONST_BINARY", [source], divided, made, beside=True)
    factors = state.constant(site, f"{what}:factors", (1.0 / steps.channels).astype(np.float32))
    product = {"binary_op": BINARY["MUL"]}
    return state.layer(site, "TPU_BINARY", [source, factors], product, made, beside=True)


def _pays(state: Rewriting, site: Site) -> bool:
    """Whether it takes fewer cycles than in fp32, with what it takes to divide operands that are no results
    of 8-bit layers, which are multiplied anyway."""
    values, names = site.values, site.node.inputs[:3]
    size, value = values["size"], values["value_size"]
    shapes = [state.info(name).shape for name in names]
    queries, keys = shapes[0][-2], shapes[1][-2]
    heads = shapes[0][0] * values["heads"]
    rows = math.ceil(queries / NPU_NUM)
    scores, results = math.ceil(keys / _PIXELS), math.ceil(value / _PIXELS)
    plain = scores * (size / 2 + _SOFTMAX) + results * keys / 2
    wide, made = math.ceil(keys / _PIXELS / _WORD), math.ceil(value / _PIXELS / _WORD)
    parts = math.ceil(keys / SUMMED)
    whole = wide * (size / 4 + 8) + scores * _SOFTMAX_BYTES + made * (keys / 4 + 8 * parts)
    whole += results * _WIDENED * parts
    apart = [
        name for name in dict.fromkeys(names) if not state.is_bytes(name) and not _multiplied(state, name)
    ]
    moved = sum(8 * math.prod(state.info(name).shape) for name in apart)
    alone = keys <= _KEYS_LOCAL and len(set(names)) == len(names) and not values["apart"]
    if shapes[0][0] > 1 and alone:
        # In fp32 each batch stays in local memory, where keys are a tensor by themselves, which is turned. In
        # 8 bits tokens of all batches are put in order before the first attention and behind the last one
        # (compiler/one_batch.py), which goes to DDR and back; or, where they are too many, everything does.
        plain += math.prod(shapes[1]) / (heads * rows * _TURNED)
        ordered = all(shape[0] * -(-shape[-2] // _WORD) * _WORD <= CHANNELS_MAX for shape in shapes)
        result = math.prod(state.info(site.output).shape)
        moved = 32 * result // _attended(state) if ordered else 8 * (result + sum(map(math.prod, shapes)))
    divided = _BEGUN * len(apart) + moved * FITTED.read_burst / BURST_BYTES
    return bool(heads * rows * whole + divided < heads * rows * plain)


def _attended(state: Rewriting) -> int:
    """How often tokens of several batches are attended to."""
    shapes = (
        state.net.tensors[node.inputs[0]].shape
        for node in state.net.nodes
        if node.cpu is None and node.op.op == "TPU_ATTENTION"
    )
    return sum(shape[0] > 1 for shape in shapes)


def _multiplied(state: Rewriting, name: str) -> bool:
    """Whether a tensor is a constant, or is made by a layer of fp32 that can divide it on the way."""
    maker = state.net.producer.get(name)
    return state.info(name).data is not None or (
        maker is not None and state.net.nodes[maker].op.op in ("TPU_BINARY", "TPU_NORM", "TPU_UNARY")
    )
