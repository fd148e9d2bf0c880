"""Layers that move, join or choose elements: on integers they are the same layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from firmware_sim.chip import WINDOW_SIDE_MAX
from firmware_sim.isa.layout import WINDOW_STEP_MAX
from user_layers.net.functions import WHOLE_COLUMN, WHOLE_ROW
from user_layers.net.nodes import LayerNode
from user_layers.quantize.rewrite import Rewriting, rule, second_shape
from user_layers.quantize.rules_linear import too_wide
from user_layers.quantize.scales import Step
from user_layers.quantize.sites import Site
from user_layers.quantize.ties import MOVING


@rule(*MOVING)
def moved(state: Rewriting, site: Site) -> str | None:
    """Where the elements are integers already and batches stay what they are."""
    node = site.node
    source = node.inputs[0]
    if not state.is_bytes(source):
        return "its input is not in 8 bits"
    if site.op == "TPU_RESHAPE" and _same_tokens(state, source, site.output):
        state.note(site.output, *state.second[source], second=True)
        return None
    if reason := _batches(state, site):
        return reason
    name, step = state.as_bytes(node, source)
    values: Mapping[str, Any] = site.values
    if site.op == "TPU_PAD" and values["mode"] == 0:
        filled = round(values["value"] / step.scale)
        if not -128 * step.signed <= filled <= step.largest and state.range_of(site.output) is not None:
            wider, _ = state.wanted(site.output, step.signed or filled < 0)
            name, step = state.rescaled(site, name, step, wider, "wider"), wider
            filled = round(values["value"] / step.scale)
        if not -128 * step.signed <= filled <= step.largest:
            return f"it fills with {values['value']:g}, which the scale {step.scale:.4g} does not reach"
        values = {**values, "bits": filled & 255}
    state.move(site, [name, *node.inputs[1:]], values, step)
    return None


def _same_tokens(state: Rewriting, source: str, output: str) -> bool:
    """Whether another shape of tokens whose channels are second is the same there."""
    before, after = state.info(source).shape, state.info(output).shape
    same = before[-1] == after[-1] and second_shape(before) == second_shape(after)
    return source in state.second and source not in state.bytes and same


@rule("TPU_UNFOLD")
def unfolded(state: Rewriting, site: Site) -> str | None:
    """Of several batches: four of them are loaded as one then. One alone is loaded once more for it."""
    node = site.node
    source = node.inputs[0]
    one = state.info(source).shape[0] == state.info(site.output).shape[0]  # pads make planes of one, too
    if site.values["planes"] != 1 or not one:
        return "planes of volumes are batches"
    if not state.is_bytes(source) and state.info(source).shape[0] == 1:
        return "quantised behind it, for one batch"
    readers = state.net.consumers[site.output]
    if all(in_fp32(state, state.net.nodes[reader]) for reader in readers):
        return "what reads it stays in fp32"
    if missing := state.missing(source):
        return missing
    name, step = state.as_bytes(node, source)
    state.move(site, [name], site.values, step)
    return None


def in_fp32(state: Rewriting, node: LayerNode) -> bool:
    """Whether a layer stays in fp32, as far as it is known before it is tried."""
    values = state.graph.toolkit.param_values(node.op, node.param) if node.op.op == "TPU_CONV" else None
    return state.stays(node) is not None or (values is not None and too_wide(values) is not None)


def _batches(state: Rewriting, site: Site) -> str | None:
    """Why a layer that moves elements between batches is none on words of four batches."""
    before, values = state.info(site.node.inputs[0]).shape, site.values
    after = [state.info(name).shape for name in site.node.outputs]
    axis = values.get("axis")
    if axis is not None and axis % (len(before) + (site.op == "TPU_EXPAND_DIMS")) == 0:
        return "it works along the batches"
    if site.op == "TPU_TRANSPOSE" and values["order"][0] != 0:
        return "it works along the batches"
    if any(shape[0] != before[0] for shape in after):
        return "it works along the batches"
    return None


@rule("TPU_CONCAT")
def joined(state: Rewriting, site: Site) -> str | None:
    """Inputs with another scale than the result's are brought to it."""
    node = site.node
    if not any(state.is_bytes(name) for name in node.inputs):
        return "its inputs are not in 8 bits"
    if site.values["axis"] % len(state.info(site.output).shape) == 0:
        return "it works along the batches"
    if missing := state.missing(*node.inputs):
        return missing
    given = {name: state.as_bytes(node, name) for name in node.inputs}
    steps = {step for _, step in given.values()}
    step = next(iter(steps))
    if len(steps) > 1:
        signed = any(one.signed for one in steps)
        step = Step.for_threshold(state.threshold(site.output), signed)
        fitting = [one for one in steps if one.signed == signed and one.scale >= step.scale * 0.999]
        step = min(fitting, key=lambda one: one.scale) if fitting else step
    names = []
    for i, name in enumerate(node.inputs):
        names.append(state.rescaled(site, *given[name], step, f"part {i}"))
    state.move(site, names, site.values, step)
    return None


_TAPS_MAX = 16_384  # of a mean: TAPS_MAX of bm_device_pool_int8.c


@rule("TPU_POOL")
def pooled(state: Rewriting, site: Site) -> str | None:
    """Maxima keep the scale; means are sums of products with one number and a shift."""
    node, values = site.node, site.values
    source = node.inputs[0]
    if not state.is_bytes(source):
        return "its input is not in 8 bits"
    name, step = state.as_bytes(node, source)
    shape = state.info(source).shape
    if len(shape) not in (3, 4):
        return "not two-dimensional"
    if not values["whole"] and max(values["stride_h"], values["stride_w"]) > WINDOW_STEP_MAX:
        return f"a stride above {WINDOW_STEP_MAX}"
    if not values["whole"] and max(values["dilation_h"], values["dilation_w"]) > 1:
        return "a dilation"
    window = {key: value for key, value in values.items() if key != "mode"}
    window["dtype"] = int(step.dtype)
    if values["mode"] == 0:
        own = state.result(site, step)
        state.layer(site, "TPU_POOL_INT8", [name], {**window, "mode": 0, "scale": step.scale}, own)
        return None
    if missing := state.missing(site.output):
        return missing
    pads = [values[key] for key in ("pad_top", "pad_bottom", "pad_left", "pad_right")]
    extra = values["extra_bottom"] or values["extra_right"]
    if not values["whole"] and (extra or (any(pads) and not values["count_include_pad"])):
        return "means that leave pads out"
    kernel = _kernel(values, shape)
    count = math.prod(kernel)
    if max(kernel) > WINDOW_SIDE_MAX or count > _TAPS_MAX:
        return "means of so many numbers"
    result, free = state.wanted(site.output, step.signed)
    found = _mean_weight(step, result, int(count), free)
    if found is None:
        return "a mean of so many numbers has no weight of 8 bits"
    weight, rshift, scale = found
    made = {**window, "mode": 1, "multiplier": weight, "rshift": rshift, "scale": scale}
    own = state.result(site, Step(scale, step.signed))
    state.layer(site, "TPU_POOL_INT8", [name], made, own)
    state.details[node.name] = f"weight {weight} >> {rshift}"
    return None


def _kernel(values: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Rows and columns of a window of [N, C, H, W] or [N, C, H]."""
    whole, width = values["whole"], (*shape, 1)[3]
    if not whole:
        return values["kernel_h"], values["kernel_w"]
    return 1 if whole == WHOLE_ROW else shape[2], 1 if whole == WHOLE_COLUMN else width


def _mean_weight(given: Step, result: Step, count: int, free: bool) -> tuple[int, int, float] | None:
    """A weight, a shift and the scale for which they are exact, or as near as a fixed scale lets them be."""
    best: tuple[float, int, int, float] | None = None
    for rshift in range(32):
        exact = given.scale / count / result.scale * 2**rshift
        if exact > 127.5:
            break
        for weight in {int(np.floor(exact)), int(np.rint(exact))}:
            if not 1 <= weight <= 127:
                continue
            scale = float(np.float32(given.scale / count * 2**rshift / weight)) if free else result.scale
            wrong = abs(scale / result.scale - 1) if free else abs(weight / exact - 1)
            if best is None or wrong < best[0]:
                best = wrong, weight, rshift, scale
    return None if best is None else best[1:]
