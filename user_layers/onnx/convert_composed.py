"""ONNX operations that become several layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from user_layers.net.functions import BINARY, unary_param
from user_layers.onnx.convert_elementwise import binary
from user_layers.onnx.convert_matrix import REDUCTIONS
from user_layers.onnx.convert_movement import shape_param
from user_layers.onnx.convert_window import planes, pool_param, result, window_of
from user_layers.onnx.lower import Lowering, Unsupported, axis_of, converts
from user_layers.onnx.model import Array, Node

_LEAST = float(np.finfo(np.float32).tiny)


class Steps:
    """Layers one after the other, each named by its result; `last` makes the node's output."""

    def __init__(self, to: Lowering, node: Node) -> None:
        self.to, self.node = to, node

    def two(self, kind: str, left: str, right: str) -> str:
        """A function of two tensors, which broadcast."""
        return self.to.between("TPU_BINARY", self.node, *binary(self.to, left, right, kind))

    def by(self, kind: str, tensor: str, value: float, inversed: int = 0) -> str:
        """tensor kind value; inversed: value kind tensor."""
        param = {"value": value, "binary_op": BINARY[kind], "inversed": inversed}
        return self.to.between("TPU_CONST_BINARY", self.node, [tensor], param)

    def one(self, kind: str, tensor: str) -> str:
        """A function of each element."""
        param = unary_param(kind)
        return self.to.between("TPU_UNARY", self.node, [tensor], param)

    def reduced(self, kind: str, tensor: str, axes: Sequence[int], keep: int = 1) -> str:
        """Over some axes; keep: with extents of 1 in their place."""
        param = {"kind": REDUCTIONS.index(kind), "axes_num": len(axes), "keep_dims": keep}
        fields = {"axes": [*axes, *[0] * (8 - len(axes))]}
        return self.to.between("TPU_REDUCE", self.node, [tensor], {**param, **fields})

    def shaped(self, tensor: str, shape: Sequence[int]) -> str:
        """The same elements under another shape, as TPU_RESHAPE takes it."""
        return self.to.between("TPU_RESHAPE", self.node, [tensor], shape_param(shape))

    def numbers(self, values: Sequence[float] | Array, shape: Sequence[int], what: str) -> str:
        """A constant."""
        array = np.asarray(values, np.float32).reshape(shape)
        return self.to.add_const(array, f"{self.node.outputs[0]}:{what}")

    def last(self, kind: str, left: str, right: str) -> None:
        """The node's first output from two tensors."""
        self.to.simple("TPU_BINARY", self.node, *binary(self.to, left, right, kind))


@converts("Sinh", "Cosh", "Acosh")
def hyperbolic(to: Lowering, node: Node) -> None:
    """cosh x = (e^x + e^-x) / 2, sinh x = tanh x * cosh x, acosh x = log(x + sqrt((x - 1) * (x + 1)))."""
    to.need_float(node.inputs[0])
    do, x = Steps(to, node), to.tensor(node.inputs[0])
    if node.op == "Acosh":
        root = do.one("SQRT", do.two("MUL", do.by("SUB", x, 1.0), do.by("ADD", x, 1.0)))
        param = unary_param("LOG")
        to.simple("TPU_UNARY", node, [do.two("ADD", x, root)], param)
        return
    both = do.two("ADD", do.one("EXP", x), do.one("EXP", do.one("NEG", x)))
    half = {"value": 0.5, "binary_op": BINARY["MUL"], "inversed": 0}
    if node.op == "Cosh":
        to.simple("TPU_CONST_BINARY", node, [both], half)
    else:
        do.last("MUL", to.between("TPU_CONST_BINARY", node, [both], half), do.one("TANH", x))


@converts("Hardmax")
def hardmax(to: Lowering, node: Node) -> None:
    """1 where the first of the largest is: its index compared with all indices."""
    to.need_float(node.inputs[0])
    shape = to.shape(node.inputs[0])
    old = to.model.opset < 13
    axis = axis_of(int(node.attributes.get("axis", 1 if old else -1)), len(shape))
    if old and math.prod(shape[axis + 1 :]) != 1:
        raise Unsupported("several axes as one, as before opset 13")
    do, x = Steps(to, node), to.tensor(node.inputs[0])
    param = {"axis": axis, "keep_dims": 1, "select_last": 0, "smallest": 0}
    index = to.between("TPU_CAST", node, [to.between("TPU_ARG", node, [x], param)], {"to": 0})
    along = [shape[axis] if i == axis else 1 for i in range(len(shape))]
    do.last("EQUAL", index, do.numbers(range(shape[axis]), along, "indices"))


@converts("LpNormalization")
def lp_normalization(to: Lowering, node: Node) -> None:
    """Divided by the norm; where all are 0 they stay 0."""
    to.need_float(node.inputs[0])
    do, x = Steps(to, node), to.tensor(node.inputs[0])
    kind = {1: "L1", 2: "L2"}.get(int(node.attributes.get("p", 2)))
    if kind is None:
        raise Unsupported(f"p = {node.attributes['p']}")
    axis = axis_of(int(node.attributes.get("axis", -1)), len(to.shape(node.inputs[0])))
    do.last("DIV", x, do.by("MAX", do.reduced(kind, x, [axis]), _LEAST))


@converts("LpPool")
def lp_pool(to: Lowering, node: Node) -> None:
    """The root of the sum of powers in each window: an average that counts the pads, times the elements."""
    to.need_float(node.inputs[0])
    kernel = tuple(int(n) for n in node.attributes["kernel_shape"])
    window = window_of(node, to.shape(node.inputs[0])[2:], kernel)
    if any(window.extra):
        raise Unsupported("ceil_mode with windows that are not complete")
    power = float(node.attributes.get("p", 2))
    do = Steps(to, node)
    x = planes(to, node, node.inputs[0])
    raised = do.one("SQUARE", x) if power == 2 else do.by("MAX", do.one("ABS", x), 0.0)
    if power not in (1, 2):
        raised = do.two("POW", raised, do.numbers([power], [1], "power"))
    mean = to.between("TPU_POOL", node, [raised], pool_param(window, average=True, count_pads=True))
    total = do.by("MUL", mean, float(math.prod(kernel)))
    root = {"value": 1.0, "binary_op": BINARY["MUL"], "inversed": 0}
    if power == 1:
        result(to, node, "TPU_CONST_BINARY", [total], root)
    elif power == 2:
        result(to, node, "TPU_UNARY", [total], unary_param("SQRT"))
    else:
        inputs, param = binary(to, total, do.numbers([1 / power], [1], "root"), "POW")
        result(to, node, "TPU_BINARY", inputs, param)


@converts("BatchNormalization")
def batch_normalization(to: Lowering, node: Node) -> None:
    """One whose numbers are computed; fuse.py takes those with constants."""
    to.need_float(*node.inputs)
    if node.attributes.get("training_mode", 0) or any(node.outputs[1:]):
        raise Unsupported("training")
    if not node.attributes.get("spatial", 1) or to.model.opset < 7:
        raise Unsupported("as it was before opset 7, or not spatial")
    do, rank = Steps(to, node), len(to.shape(node.inputs[0]))
    channels = [to.shape(node.inputs[1])[0], *[1] * (rank - 2)]
    scale, shift, mean, variance = (do.shaped(to.tensor(name), channels) for name in node.inputs[1:5])
    deviation = do.one("SQRT", do.by("ADD", variance, float(node.attributes.get("epsilon", 1e-5))))
    centred = do.two("SUB", to.tensor(node.inputs[0]), mean)
    do.last("ADD", do.two("MUL", centred, do.two("DIV", scale, deviation)), shift)


@converts("NegativeLogLikelihoodLoss")
def loss(to: Lowering, node: Node) -> None:
    """What stands at the target's class, found by comparing the target with all classes; the weight of a
    class that is ignored is 0."""
    to.need_float(node.inputs[0])
    do, shape = Steps(to, node), to.shape(node.inputs[0])
    classes, rest = shape[1], [1] * (len(shape) - 2)
    target = to.between("TPU_CAST", node, [to.tensor(node.inputs[1])], {"to": 0})
    target = do.shaped(target, (shape[0], 1, *shape[2:]))
    here = do.two("EQUAL", target, do.numbers(range(classes), [1, classes, *rest], "classes"))
    ignored = node.attributes.get("ignore_index")
    counts = do.numbers([float(i != ignored) for i in range(classes)], [1, classes, *rest], "counted")
    if len(node.inputs) > 2 and node.inputs[2]:
        to.need_float(node.inputs[2])
        given = do.shaped(to.tensor(node.inputs[2]), (1, classes, *rest))
        counts = do.two("MUL", given, counts)
    zero = do.numbers([0.0], [1], "zero")
    chosen = to.between("TPU_WHERE", node, [here, to.tensor(node.inputs[0]), zero], {"reserved": 0})
    losses = do.one("NEG", do.two("MUL", chosen, counts))
    reduction = node.attributes.get("reduction", "mean")
    if reduction == "none":
        fields = {"axes_num": 1, "keep_dims": 0, "axes": [1, *[0] * 7]}
        to.simple("TPU_REDUCE", node, [losses], {"kind": REDUCTIONS.index("Sum"), **fields})
        return
    everything = range(len(shape))
    total = do.reduced("Sum", losses, list(everything))
    if reduction == "mean":
        weight = do.reduced("Sum", do.two("MUL", here, counts), list(everything))
        total = do.two("DIV", total, weight)
    elif reduction != "sum":
        raise Unsupported(f"the reduction {reduction!r}")
    to.simple("TPU_RESHAPE", node, [total], shape_param(()))
