"""ONNX operations that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from user_layers.net.functions import BINARY, unary_param
from user_layers.onnx.fuse import AFFINE
from user_layers.onnx.lower import Lowering, Unsupported, converts
from user_layers.onnx.model import Node

_PLAIN = {
    "Relu": "RELU",
    "Sigmoid": "SIGMOID",
    "Tanh": "TANH",
    "Exp": "EXP",
    "Log": "LOG",
    "Sqrt": "SQRT",
    "Abs": "ABS",
    "Neg": "NEG",
    "Reciprocal": "RECIPROCAL",
    "HardSwish": "HARD_SWISH",
    "Softplus": "SOFTPLUS",
    "Softsign": "SOFTSIGN",
    "Erf": "ERF",
    "Sign": "SIGN",
    "Floor": "FLOOR",
    "Ceil": "CEIL",
    "Round": "ROUND",
    "Mish": "MISH",
    "Sin": "SIN",
    "Cos": "COS",
}
_BINARIES = {"Add": "ADD", "Sub": "SUB", "Mul": "MUL", "Div": "DIV", "Pow": "POW", "PRelu": "PRELU"}


def unary(to: Lowering, node: Node, name: str, a: float = 0.0, b: float = 0.0) -> None:
    """The node's first output as TPU_UNARY of its first input; name: a key of UNARY, a and b: its parameters.

    Raises Unsupported unless the input is float32.
    """
    to.need_float(node.inputs[0])
    to.each("TPU_UNARY", node, node.inputs[:1], unary_param(name, a, b))


def binary(to: Lowering, left: str, right: str, name: str) -> tuple[list[str], dict[str, int]]:
    """Inputs and parameters of TPU_BINARY for two tensors of the graph."""
    return [left, right], {"binary_op": BINARY[name]}


@converts(*_PLAIN)
def plain(to: Lowering, node: Node) -> None:
    """Functions without attributes."""
    unary(to, node, _PLAIN[node.op])


def _with(name: str, *defaults: tuple[str, float]) -> Callable[[Lowering, Node], None]:
    """A function with attributes as its parameters."""

    def convert(to: Lowering, node: Node) -> None:
        values = [float(node.attributes.get(key, default)) for key, default in defaults]
        unary(to, node, name, *values)

    return convert


converts("LeakyRelu")(_with("LEAKY_RELU", ("alpha", 0.01)))
converts("Elu")(_with("ELU", ("alpha", 1.0)))
converts("Celu")(_with("CELU", ("alpha", 1.0)))
converts("Selu")(_with("SELU", ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)))
converts("HardSigmoid")(_with("HARD_SIGMOID", ("alpha", 0.2), ("beta", 0.5)))
converts("ThresholdedRelu")(_with("THRESHOLDED_RELU", ("alpha", 1.0)))
converts("Swish")(_with("SWISH", ("alpha", 1.0)))
converts("OrZero")(_with("OR_ZERO"))


@converts("Gelu")
def gelu(to: Lowering, node: Node) -> None:
    """By erf, or by tanh where the attribute `approximate` says so."""
    unary(to, node, "GELU_TANH" if node.attributes.get("approximate", "none") == "tanh" else "GELU")


@converts("Clip")
def clip(to: Lowering, node: Node) -> None:
    """Constant limits are parameters of one layer; where one is computed, each takes a layer."""
    limits = []
    computed = [name for name in node.inputs[1:] if name and to.constant(name) is None]
    if computed:
        _clip_by_tensors(to, node)
        return
    for attribute, index, default in (("min", 1, -math.inf), ("max", 2, math.inf)):
        value = to.option(node, attribute, index)
        limits.append(default if value is None or not value.size else float(value.reshape(-1)[0]))
    unary(to, node, "CLIP", *limits)


def _clip_by_tensors(to: Lowering, node: Node) -> None:
    """Limits that are computed: the larger of it and the lower one, the smaller of that and the upper one."""
    to.need_float(*node.inputs)
    steps = [(n, kind) for n, kind in zip(node.inputs[1:], ("MAX", "MIN"), strict=False) if n]
    tensor = to.tensor(node.inputs[0])
    for name, kind in steps[:-1]:
        tensor = to.between("TPU_BINARY", node, *binary(to, tensor, to.tensor(name), kind))
    name, kind = steps[-1]
    to.simple("TPU_BINARY", node, *binary(to, tensor, to.tensor(name), kind))


@converts(*_BINARIES)
def two(to: Lowering, node: Node) -> None:
    """Arithmetic of two float32 operands, which broadcast in the layer."""
    to.need_float(*node.inputs)
    if node.op == "Pow" and _power(to, node):
        return
    if to.in_planes(*node.inputs):
        to.each("TPU_BINARY", node, node.inputs, {"binary_op": BINARY[_BINARIES[node.op]]})
        return
    to.simple("TPU_BINARY", node, *binary(to, *_pair(to, node), _BINARIES[node.op]))


_POWERS: Mapping[float, tuple[str, ...]] = {
    2: ("SQUARE",),
    3: ("SQUARE", "TIMES"),
    4: ("SQUARE", "SQUARE"),
    0.5: ("SQRT",),
    -0.5: ("SQRT", "RECIPROCAL"),
    -1: ("RECIPROCAL",),
    -2: ("RECIPROCAL", "SQUARE"),  # a square of little is 0 before its reciprocal is too large
}
"""What makes a power with this exponent, one function after the other; TIMES: multiplied by the base. Any
other is e^(b log x), which takes several times as long as these."""


def _power(to: Lowering, node: Node) -> bool:
    """Layers for a power with one constant exponent, where these do it."""
    base, exponent = node.inputs[0], to.constant(node.inputs[1])
    if exponent is None or exponent.size != 1 or exponent.ndim > len(to.shape(base)):
        return False
    if to.constant(base) is not None or "axis" in node.attributes:
        return False
    steps = _POWERS.get(float(exponent.reshape(-1)[0]))
    if steps is None:
        return False
    planes = to.in_planes(base)
    x = now = to.planes(base) if planes else to.tensor(base)
    for i, step in enumerate(steps):
        if step == "TIMES":
            op, given, param = "TPU_BINARY", [now, x], {"binary_op": BINARY["MUL"]}
        else:
            op, given, param = "TPU_UNARY", [now], unary_param(step)
        if i < len(steps) - 1:
            now = to.between(op, node, given, param)
        elif planes:
            to.plane_by_plane(op, node, given, param)
        else:
            to.simple(op, node, given, param)
    return True


def _pair(to: Lowering, node: Node) -> tuple[str, str]:
    """The operands; before opset 7 the second one could begin at a named axis of the first."""
    left, right = (to.tensor(name) for name in node.inputs)
    axis = node.attributes.get("axis", 1 if node.op == "PRelu" else None)
    shape = to.shape(node.inputs[1])
    if to.model.opset >= 7 or axis is None or not shape:
        return left, right
    rank = len(to.shape(node.inputs[0]))
    full = [*shape, *[1] * (rank - int(axis) % rank - len(shape))]
    param = {"dims": len(full), "shape": [*full, *[0] * (8 - len(full))]}
    return left, to.between("TPU_RESHAPE", node, [right], param) if len(full) > len(shape) else right


@converts("Mod")
def modulus(to: Lowering, node: Node) -> None:
    """The result has the divisor's sign, with `fmod` the dividend's."""
    to.need_float(*node.inputs)
    names = [to.tensor(name) for name in node.inputs]
    kind = "FMOD" if node.attributes.get("fmod", 0) else "MOD"
    to.simple("TPU_BINARY", node, *binary(to, names[0], names[1], kind))


@converts("Sum", "Mean", "Max", "Min")
def several(to: Lowering, node: Node) -> None:
    """A chain over the inputs; Mean then multiplies by 1 / n."""
    to.need_float(*node.inputs)
    names = [to.tensor(name) for name in node.inputs]
    kind = {"Max": "MAX", "Min": "MIN"}.get(node.op, "ADD")
    if len(names) == 1:
        to.simple("TPU_COPY", node, names, {"reserved": 0})
        return
    so_far = names[0]
    for name in names[1:-1]:
        so_far = to.between("TPU_BINARY", node, *binary(to, so_far, name, kind))
    if node.op != "Mean":
        to.simple("TPU_BINARY", node, *binary(to, so_far, names[-1], kind))
        return
    total = to.between("TPU_BINARY", node, *binary(to, so_far, names[-1], kind))
    share = to.add_const(np.array([1 / len(names)], np.float32), f"{node.outputs[0]}:share")
    to.simple("TPU_BINARY", node, *binary(to, total, share, "MUL"))


@converts(AFFINE)
def channel_affine(to: Lowering, node: Node) -> None:
    """A factor and a summand for each channel; see fuse.py."""
    param = {"axis": 1, "relu": 0}
    rest = [to.tensor(name) for name in node.inputs[1:]]
    if to.in_planes(node.inputs[0]):
        to.plane_by_plane("TPU_SCALE_SHIFT", node, [to.planes(node.inputs[0]), *rest], param)
        return
    to.simple("TPU_SCALE_SHIFT", node, [to.tensor(node.inputs[0]), *rest], param)


_TESTS = {
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_OR_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_OR_EQUAL",
    "And": "AND",
    "Or": "OR",
    "Xor": "XOR",
}


@converts(*_TESTS)
def test(to: Lowering, node: Node) -> None:
    """Truth values are 1.0 and 0.0."""
    if node.op not in ("And", "Or", "Xor"):
        to.need_float(*node.inputs)
    to.simple("TPU_BINARY", node, *binary(to, *_pair(to, node), _TESTS[node.op]))


@converts("Not", "IsNaN", "IsInf")
def single_test(to: Lowering, node: Node) -> None:
    """Truth values as 1.0 and 0.0; a and b of IsInf: whether -inf, whether inf counts."""
    kind = {"Not": "NOT", "IsNaN": "IS_NAN", "IsInf": "IS_INF"}[node.op]
    signs = [float(node.attributes.get(f"detect_{sign}", 1)) for sign in ("negative", "positive")]
    param = unary_param(kind, signs[0], signs[1])
    to.simple("TPU_UNARY", node, [to.tensor(node.inputs[0])], param)


@converts("Where")
def where(to: Lowering, node: Node) -> None:
    """Any types that the device holds; the condition is float32, 1.0 or 0.0."""
    to.simple("TPU_WHERE", node, [to.tensor(name) for name in node.inputs], {"reserved": 0})


@converts("Cast")
def cast(to: Lowering, node: Node) -> None:
    """Between what the device holds: float32, float16 (at the edge of a net), int32 (also for int64), truth
    values as float32; bytes to any of them."""
    source, wanted = (to.model.value(name).dtype for name in (node.inputs[0], node.outputs[0]))
    codes = {"float32": 0, "float16": 1, "int32": 6, "int64": 6, "bool": 0}
    held = {np.dtype(name): code for name, code in codes.items()}
    if source is not None and source.name in ("int8", "uint8") and wanted in held and wanted != np.bool_:
        held[source] = 2 if source == np.int8 else 3
    if source is None or wanted is None or source not in held or wanted not in held:
        raise Unsupported(f"from {source} to {wanted}")
    if wanted == np.float16 and node.proto is not None:  # not at the edge of a net that computes in float32
        raise Unsupported("to float16, of which the TPU has no NaN and nothing under 2^-14")
    names = [to.tensor(node.inputs[0])]
    if wanted == np.bool_ and source != np.bool_:
        if held[source] != 0:
            names = [to.between("TPU_CAST", node, names, {"to": 0})]
        zero = to.add_const(np.zeros(1, np.float32), f"{node.outputs[0]}:zero")
        equal = to.between("TPU_BINARY", node, *binary(to, names[0], zero, "EQUAL"))
        to.simple("TPU_UNARY", node, [equal], unary_param("NOT"))
    elif held[source] == held[wanted]:
        to.simple("TPU_COPY", node, names, {"reserved": 0})
    else:
        to.simple("TPU_CAST", node, names, {"to": held[wanted]})
