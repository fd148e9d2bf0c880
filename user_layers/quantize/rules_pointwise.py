"""Layers that work element by element: sums and products of two tensors, functions of one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from firmware_sim.wire import DType
from user_layers.graph import BINARY_ADD, BINARY_MAX, BINARY_MIN, BINARY_MUL, BINARY_SUB
from user_layers.net.functions import UNARY
from user_layers.quantize.functions import of_all
from user_layers.quantize.gates import gated
from user_layers.quantize.rewrite import Rewriting, rule
from user_layers.quantize.scales import Step, multiplier, product_step, sum_of
from user_layers.quantize.sites import Site

_NOTHING = 2.0**-20  # a mean square beside the other one's that is no part of a sum
_GATES = (UNARY["HARD_SIGMOID"], UNARY["HARD_SWISH"])


@rule("TPU_BINARY")
def pair(state: Rewriting, site: Site) -> str | None:
    """Sums, differences, products, maxima and minima."""
    op = site.values["binary_op"]
    if op not in (BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_MAX, BINARY_MIN):
        return "no 8-bit layer does it"
    node = site.node
    if not any(state.is_bytes(name) for name in node.inputs):
        return "its inputs are not in 8 bits"
    if any(state.info(name).data is not None for name in node.inputs):
        return "a constant operand"
    out = state.info(site.output).shape
    if not all(_fits(state.info(name).shape, out) for name in node.inputs):
        return "operands of other shapes"
    if missing := state.missing(*node.inputs, site.output):
        return missing
    like = next((name for name in node.inputs if name in state.second), None)
    tokens = like is not None or any(_turned(state, name) for name in node.inputs)
    if tokens and any(name in state.kept or state.info(name).shape != out for name in node.inputs):
        return "its other operand is in fp32"
    if tokens and not all(state.is_bytes(name) for name in node.inputs):
        return "its other operand is not in 8 bits"
    if like is not None:
        operands = [state.as_second(node, name) for name in node.inputs]
    else:
        operands = [state.as_bytes(node, name) for name in node.inputs]
    (a, step_a), (b, step_b) = operands
    values = {"binary_op": op, "multiplier_a": 1, "multiplier_b": 1, "rshift": 0, "relu": int(site.relu)}
    if op in (BINARY_MAX, BINARY_MIN):
        signed = step_a.signed or step_b.signed
        step, _ = state.wanted(site.output, signed)
        a, b = (
            state.rescaled(site, name, own, step, what)
            for name, own, what in ((a, step_a, "a"), (b, step_b, "b"))
        )
    elif op == BINARY_MUL:
        signed = (step_a.signed or step_b.signed) and not site.relu
        step, rshift = product_step(step_a, step_b, state.threshold(site.output), signed)
        values["rshift"] = rshift
    else:
        signed = (step_a.signed or step_b.signed or op == BINARY_SUB) and not site.relu
        wanted, free = state.wanted(site.output, signed, site.limit)
        sizes = (state.power(node.inputs[0]), state.power(node.inputs[1]))
        if min(sizes) < max(sizes) * _NOTHING:  # the other operand goes on as it is, without rounding again
            wanted, free = Step((step_a if sizes[0] > sizes[1] else step_b).scale, signed), False
        found = sum_of(step_a, step_b, wanted, free=free, sizes=sizes)
        step = Step(found.scale, signed)
        a, b = (
            state.rescaled(site, name, own, replace(own, scale=found.finer.get(what, own.scale)), what)
            for name, own, what in ((a, step_a, "a"), (b, step_b, "b"))
        )
        values |= {
            "multiplier_a": found.multiplier_a,
            "multiplier_b": found.multiplier_b,
            "rshift": found.rshift,
        }
    name = state.result(site, step, like=like)
    made = {**values, "dtype": int(step.dtype), "scale": step.scale}
    state.layer(site, "TPU_ELTWISE_INT8", [a, b], made, name)
    return None


def _turned(state: Rewriting, name: str) -> bool:
    """Whether a tensor is tokens exchanged with their channels."""
    maker = state.net.producer.get(name)
    turns = maker is not None and state.net.nodes[maker].op.op == "TPU_TURN"
    return turns and len(state.info(name).shape) == 3


def _fits(one: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether an operand has the result's shape, or one number to each channel."""
    return one == out or (len(one) == len(out) == 4 and one == (*out[:2], 1, 1))


@rule("TPU_UNARY", "TPU_CONST_BINARY")
def function(state: Rewriting, site: Site) -> str | None:
    """Any function of one number, by its 256 values; relu by one command."""
    node = site.node
    source = node.inputs[0]
    if not state.is_bytes(source):
        return "its input is not in 8 bits"
    if missing := state.missing(site.output):
        return missing
    name, given = state.given(source)
    if site.op == "TPU_UNARY" and site.values["unary_op"] == UNARY["RELU"]:
        step, _ = state.wanted(site.output, False)
        m, k = multiplier(given.scale / step.scale)
        values = {"multiplier": m, "rshift": k, "dtype": int(step.dtype), "scale": step.scale}
        state.layer(site, "TPU_REQUANTIZE", [name], values, state.result(site, step, like=source))
        return None
    if site.op == "TPU_UNARY" and site.values["unary_op"] == UNARY["LEAKY_RELU"] and given.signed:
        slope = float(site.values["a"])
        if 0.0 < slope < 1.0:
            m, k = multiplier(slope)
            shape = (1,) * len(state.shape_given(source))
            table = state.constant(site, "slope", np.full(shape, m, np.int8))
            made = state.result(site, given, like=source)
            state.layer(site, "TPU_PRELU_INT8", [name, table], {"rshift": k}, made)
            return None
    if site.op == "TPU_UNARY" and site.values["unary_op"] in _GATES and gated(state, site):
        return None
    one = state.range_of(site.output)
    step, _ = state.wanted(site.output, one.signed if one is not None else True)
    results = of_all(state.graph.toolkit, node, inputs_of(given))
    if not np.all(np.isfinite(results)):
        return "not finite for some integer"
    low = -128 if step.signed else 0
    # Half away from zero, as the vendor's tables are.
    steps = results.astype(np.float64) / step.scale
    entries = np.clip(np.sign(steps) * np.floor(np.abs(steps) + 0.5), low, step.largest)
    table = state.constant(site, "table", entries.astype(step.dtype.numpy_name))
    values = {"dtype": int(step.dtype), "scale": step.scale}
    state.layer(site, "TPU_LOOKUP", [name, table], values, state.result(site, step, like=source))
    return None


def inputs_of(step: Step) -> npt.NDArray[np.float32]:
    """The value of each byte, 0 to 255, in fp32."""
    bytes_ = np.arange(256, dtype=np.uint8)
    integers = bytes_.view(np.int8) if step.dtype is DType.INT8 else bytes_
    found: npt.NDArray[np.float32] = integers.astype(np.float32) * np.float32(step.scale)
    return found
