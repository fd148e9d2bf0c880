"""Layers of the user's own: in integers where their descriptors take such."""

from __future__ import annotations

from dataclasses import replace

from firmware_sim.wire import DType, StoreMode
from user_layers.net.net import NetTensorInfo
from user_layers.quantize.rewrite import Rewriting
from user_layers.quantize.scales import Step
from user_layers.quantize.sites import Site


def custom(state: Rewriting, site: Site) -> str | None:
    """Inputs are given as input_dtype says; the scales of results are offered to the shape function, which
    says what they become."""
    node = site.node
    given = [_at_hand(state, name) for name in node.inputs]
    unknown = [NetTensorInfo(name, (1,), DType.FP32) for name in node.outputs]
    handle = state.graph.toolkit.describe(node, given, unknown)
    takes = {i: handle.takes(i) for i, tensor in enumerate(given) if tensor.data is None}
    bytes_ = {i: one for i, one in takes.items() if one.dtype in (DType.INT8, DType.UINT8)}
    if not bytes_:
        known = ", ".join(dict.fromkeys(one.text for one in takes.values() if one.dtype is not DType.FP32))
        return f"it takes {known or 'fp32'}"
    if missing := state.missing(*(node.inputs[i] for i in bytes_)):
        return missing
    names = []
    for i, name in enumerate(node.inputs):
        if i in bytes_:
            step = Step.for_threshold(state.threshold(name), bytes_[i].dtype is DType.INT8)
            source, own = state.as_bytes(node, name, step.signed)
            names.append(
                state.rescaled(site, source, own, own if own.signed == step.signed else step, f"input {i}")
            )
        else:
            names.append(state.as_plain(node, name))
    outputs = [state.between(site, name) if name in state.net.outputs else name for name in node.outputs]
    state.made.add_node(node, names, outputs)
    for name, made_as in zip(node.outputs, outputs, strict=True):
        if name in state.ranges:
            state.made.set_scale(made_as, Step.for_threshold(state.threshold(name), True).scale)
    made = state.made.resolve(outputs).tensors
    for name, made_as in zip(node.outputs, outputs, strict=True):
        form = made[made_as].format
        if form.quantised:
            state.bytes[name] = made_as, Step(form.scale, form.dtype is DType.INT8)
            state.learn(name, state.bytes[name][1])
        elif made_as != name:
            state.plain[name] = state.layer(site, "TPU_COPY", [made_as], {}, name, beside=True)
        else:
            state.plain[name] = made_as
    return None


def _at_hand(state: Rewriting, name: str) -> NetTensorInfo:
    """An input as the layer would read it if nobody converted anything."""
    info = state.info(name)
    if not state.is_bytes(name):
        return info
    _, step = state.given(name)
    return replace(info, dtype=step.dtype, store_mode=StoreMode.N4, scale=step.scale)
