"""ONNX matrix products, softmax and reductions."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from firmware_sim.chip import NPU_NUM, WINDOW_SIDE_MAX
from firmware_sim.isa.layout import CHANNELS_MAX
from user_layers.net.functions import BINARY, WHOLE_COLUMN, WHOLE_PLANE, WHOLE_ROW, unary_param
from user_layers.onnx.attention import ATTENTION
from user_layers.onnx.channels import CHANNEL_NORM, ONE_BY_ONE
from user_layers.onnx.convert_elementwise import binary
from user_layers.onnx.convert_movement import shape_param
from user_layers.onnx.convert_window import ONE_TAP, whole
from user_layers.onnx.einsum import terms_of
from user_layers.onnx.fuse import AFFINE
from user_layers.onnx.lower import Lowering, Unsupported, converts, reshape_param
from user_layers.onnx.model import ARITHMETIC, Array, Node
from user_layers.onnx.patterns.match import square_of


@converts("MatMul")
def matmul(to: Lowering, node: Node) -> None:
    """One layer, which broadcasts over the leading dimensions; of two vectors the first becomes a row. A
    factor and a third input (bias.py) go into it."""
    to.need_float(*node.inputs)
    names = [to.tensor(name) for name in node.inputs]
    param = {"trans_a": 0, "trans_b": 0, "alpha": float(node.attributes.get("alpha", 1.0))}
    if (joined := _one_row_for_many(to, node)) is not None:
        row = to.between("TPU_RESHAPE", node, names[:1], shape_param(joined.left))
        columns = to.add_const(joined.right, f"{node.inputs[1]}:columns")
        made = to.between("TPU_MATMUL", node, [row, columns], param)
        to.simple("TPU_RESHAPE", node, [made], shape_param(to.shape(node.outputs[0])))
        return
    if to.shape(node.outputs[0]):
        to.simple("TPU_MATMUL", node, names, param)
        return
    row = to.between("TPU_RESHAPE", node, names[:1], shape_param((1, *to.shape(node.inputs[0]))))
    to.simple("TPU_MATMUL", node, [row, names[1]], param)  # two vectors


@dataclass(frozen=True)
class _Joined:
    """Operands of a product with more columns in fewer batches."""

    left: tuple[int, ...]
    right: Array


def _one_row_for_many(to: Lowering, node: Node) -> _Joined | None:
    """A row that several constant matrices follow (one for each class of a capsule, say): their columns are
    those of one matrix."""
    left, right = to.shape(node.inputs[0]), to.constant(node.inputs[1])
    if right is None or len(node.inputs) > 2 or min(len(left), right.ndim) < 2 or left[-2] != 1:
        return None
    ahead = max(len(left), right.ndim) - 2
    rows = (*(1,) * (ahead + 2 - len(left)), *left)
    matrices = right.reshape(*(1,) * (ahead + 2 - right.ndim), *right.shape)
    kept = ahead  # batches that the row has one of its own for, or that are not many
    while kept and rows[kept - 1] == 1:
        kept -= 1
    many = math.prod(matrices.shape[kept:ahead])
    if many == 1:
        return None
    k, n = right.shape[-2:]
    columns = np.moveaxis(matrices.reshape(*matrices.shape[:kept], many, k, n), kept, kept + 1)
    return _Joined((*rows[:kept], 1, k), columns.reshape(*columns.shape[:-2], many * n))


@converts("Einsum")
def einsum(to: Lowering, node: Node) -> None:
    """What einsum.py writes in other operations is none any more: the reason of the others."""
    terms_of(to.model, node)


@converts(ATTENTION)
def attention(to: Lowering, node: Node) -> None:
    """One layer for what attention.py found."""
    to.simple("TPU_ATTENTION", node, [to.tensor(name) for name in node.inputs], node.attributes)


@converts("Gemm")
def gemm(to: Lowering, node: Node) -> None:
    """alpha * A' * B' + beta * C."""
    to.need_float(*node.inputs)
    alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    sides = [to.tensor(name) for name in node.inputs[:2]]
    turned = {"trans_a": node.attributes.get("transA", 0), "trans_b": node.attributes.get("transB", 0)}
    param: dict[str, float] = {"alpha": alpha, **{name: int(value) for name, value in turned.items()}}
    if alpha == 0:
        raise Unsupported("alpha is 0")
    added = node.inputs[2] if len(node.inputs) > 2 else ""
    if not added or beta == 0:
        to.simple("TPU_MATMUL", node, sides, param)
        return
    columns = to.shape(node.outputs[0])[1]
    values = to.constant(added)
    if values is None or values.size not in (1, columns) or values.shape[-1:] not in ((columns,), (1,), ()):
        product, summand = to.between("TPU_MATMUL", node, sides, param), to.tensor(added)
        if beta != 1:
            factor = {"value": beta, "binary_op": BINARY["MUL"], "inversed": 0}
            summand = to.between("TPU_CONST_BINARY", node, [summand], factor)
        to.simple("TPU_BINARY", node, *binary(to, product, summand, "ADD"))
        return
    bias = np.broadcast_to(values.reshape(-1) * np.float32(beta), (columns,)).astype(np.float32)
    to.simple("TPU_MATMUL", node, [*sides, to.add_const(bias, f"{added}:bias")], param)


@converts("Softmax", "LogSoftmax")
def softmax(to: Lowering, node: Node) -> None:
    """Along one axis; before opset 13 over all dimensions from the axis on together."""
    to.need_float(node.inputs[0])
    old = to.model.opset < 13  # then everything from the axis on is one dimension
    param = {"axis": int(node.attributes.get("axis", 1 if old else -1)), "flatten": int(old)}
    param["log"] = int(node.op == "LogSoftmax")
    to.simple("TPU_SOFTMAX", node, [to.tensor(node.inputs[0])], param)


REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@converts(*(f"Reduce{name}" for name in REDUCTIONS))
def reduce(to: Lowering, node: Node) -> None:
    """TPU_REDUCE; what is made of sums or maxima of whole planes, columns or rows is a pool, a sum over the
    channels that a convolution makes is one, too, and both have local versions; a reduction over no axes is
    a copy."""
    to.need_float(node.inputs[0])
    axes = _axes(to, node)
    if axes is None:
        to.simple("TPU_COPY", node, [to.tensor(node.inputs[0])], {"reserved": 0})
        return
    keep = int(node.attributes.get("keepdims", 1)) or not to.shape(node.outputs[0])
    before = len(to.graph.nodes)
    local = _local(to, node, axes)
    if local is not None:
        squares = _squares(to, node)
        op, inputs, fields = local
        if keep:
            to.simple(op, node, inputs, fields)
        else:
            kept, rank = to.between(op, node, inputs, fields), len(to.shape(node.inputs[0]))
            along = {axis % rank for axis in axes}
            left = (-2 - d for d in range(rank) if d not in along)  # TPU_RESHAPE's word for what comes
            to.simple("TPU_RESHAPE", node, [kept], reshape_param(*left))
        if squares:  # of small numbers nothing is left in 8 bits beside those of large ones
            made = (name for one in to.graph.nodes[before:] for name in one.outputs)
            to.graph.statistics.update(made, inputs[:1])
        return
    padded = [*axes, *[0] * (8 - len(axes))]
    param: dict[str, object] = {"axes_num": len(axes), "axes": padded, "keep_dims": int(keep)}
    kind = REDUCTIONS.index(node.op.removeprefix("Reduce"))
    one(to, node, "TPU_REDUCE", [to.tensor(node.inputs[0])], {"kind": kind, **param})


def _squares(to: Lowering, node: Node) -> bool:
    """Whether a reduction sums squares."""
    maker = to.model.makers.get(node.inputs[0])
    made = maker is not None and square_of(maker, to.model.constants) is not None
    return made or node.op in ("ReduceSumSquare", "ReduceL2")


def _local(to: Lowering, node: Node, axes: list[int]) -> tuple[str, list[str], dict[str, Any]] | None:
    """The last layer of what does the same and has a local version, with all dimensions."""
    rank = len(to.shape(node.inputs[0]))
    if rank not in (3, 4):
        return None
    along = {axis % rank for axis in axes}
    if node.op in _PLANES and along == set(range(2, rank)):
        # Of three dimensions the last one may also be rows of tokens.
        return _planes(to, node, WHOLE_PLANE) if rank == 4 or _keeps_channels(to, node.inputs[0]) else None
    if node.op in _LINES and rank == 4 and along in ({2}, {3}) and _fills_lanes(to, node):
        return _planes(to, node, WHOLE_COLUMN if along == {2} else WHOLE_ROW)
    if node.op in _CHANNELS and rank == 4 and along == {1} and _keeps_channels(to, node.inputs[0]):
        return _channels(to, node)
    return None


_PLANES = ("ReduceMean", "ReduceMax", "ReduceSum", "ReduceSumSquare", "ReduceL2")
_LINES = ("ReduceMean", "ReduceMax")  # a sum would be told the compiled extent
_CHANNELS = ("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2")


def _keeps_channels(to: Lowering, name: str) -> bool:
    """Whether a convolution with constant weights says how many channels a value has, in every run."""
    for _ in range(_STEPS):
        node = to.model.makers.get(name)
        if node is None or not node.is_known or to.shape(name)[1] > CHANNELS_MAX:
            return False
        if node.is_a("Conv"):
            return node.inputs[1] in to.model.constants
        rank, channels = len(to.shape(name)), to.shape(name)[1]
        read = node.inputs[:1] if node.op in _KEEPING else node.inputs if node.op in _OF_TWO else ()
        wide = [n for n in read if n not in to.model.constants and len(to.shape(n)) == rank]
        wide = [n for n in wide if to.shape(n)[1] == channels]
        if not wide:
            return False
        name = wide[0]
    return False


_STEPS = 16
_OF_TWO = frozenset((*ARITHMETIC, "Pow"))
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
_KEEPING = frozenset((*ONE_BY_ONE, *_POOLS, *_PLANES, AFFINE, CHANNEL_NORM))


def _channels(to: Lowering, node: Node) -> tuple[str, list[str], dict[str, Any]]:
    """The sum of all channels: a convolution that makes one."""
    count, values = to.shape(node.inputs[0])[1], to.tensor(node.inputs[0])
    each = np.float32(1 / count if node.op == "ReduceMean" else 1)
    weights = to.add_const(np.full((1, count, 1, 1), each), f"{node.outputs[0]}:ones")
    if node.op in ("ReduceSumSquare", "ReduceL2"):
        values = to.between("TPU_UNARY", node, [values], unary_param("SQUARE"))
    param = {"groups": 1, **ONE_TAP.fields()}
    if node.op == "ReduceL2":
        total = to.between("TPU_CONV", node, [values, weights], param)
        return "TPU_UNARY", [total], unary_param("SQRT")
    return "TPU_CONV", [values, weights], param


def _fills_lanes(to: Lowering, node: Node) -> bool:
    """Whether channels are enough for a pool, which has one in each lane, where a reduction fills all; and
    the planes so small that it is not slower in DDR, where averages alone are reductions."""
    _, c, h, w = to.shape(node.inputs[0])
    return c >= NPU_NUM // 2 and max(h, w) <= (WINDOW_SIDE_MAX if node.op == "ReduceMean" else _MAXIMA)


_MAXIMA = 128  # rows and columns


def _planes(to: Lowering, node: Node, of: int) -> tuple[str, list[str], dict[str, Any]]:
    """The last layer for whole planes, or for columns or rows of _LINES, all dimensions kept."""
    planes = to.tensor(node.inputs[0])
    if node.op in ("ReduceMean", "ReduceMax"):
        return "TPU_POOL", [planes], whole(node.op == "ReduceMean", of)
    if node.op != "ReduceSum":
        planes = to.between("TPU_BINARY", node, *binary(to, planes, planes, "MUL"))
    mean = to.between("TPU_POOL", node, [planes], whole(average=True))
    count = float(math.prod(to.shape(node.inputs[0])[2:]))
    times = {"value": count, "binary_op": BINARY["MUL"], "inversed": 0}
    if node.op == "ReduceL2":
        total = to.between("TPU_CONST_BINARY", node, [mean], times)
        return "TPU_UNARY", [total], unary_param("SQRT")
    return "TPU_CONST_BINARY", [mean], times


def one(to: Lowering, node: Node, op: str, inputs: list[str], param: dict[str, object]) -> None:
    """A layer whose result, where the node's has no dimensions, becomes (1,)."""
    if to.shape(node.outputs[0]) or to.shape(node.inputs[0]) in ((), (1,)):
        to.simple(op, node, inputs, param)
        return
    to.simple("TPU_RESHAPE", node, [to.between(op, node, inputs, param)], shape_param(()))


def _axes(to: Lowering, node: Node) -> list[int] | None:
    """The axes of a reduction ([]: all); None where it does nothing. Axes that are computed show in the
    extents, where only one choice makes these; an axis of extent 1 makes no difference beside others."""
    if (
        "axes" in node.attributes
        or len(node.inputs) < 2
        or not node.inputs[1]
        or to.constant(node.inputs[1]) is not None
    ):
        axes = to.option(node, "axes", 1)
        if axes is not None and axes.size:
            return [int(axis) for axis in axes.reshape(-1)]
        return None if node.attributes.get("noop_with_empty_axes", 0) else []
    before, after = to.shape(node.inputs[0]), to.shape(node.outputs[0])
    large = [i for i, extent in enumerate(before) if extent > 1]
    if node.attributes.get("keepdims", 1):
        choices = [tuple(i for i in large if after[i] == 1)]
    else:
        left = tuple(n for n in after if n > 1)
        choices = [
            chosen
            for count in range(len(large) + 1)
            for chosen in itertools.combinations(large, count)
            if tuple(before[i] for i in large if i not in chosen) == left
        ]
    if len(choices) != 1 or not choices[0]:
        raise Unsupported(f"its input {node.inputs[1]!r} is computed; it must be a constant")
    lost = [i for i, extent in enumerate(before) if extent == 1]
    if not node.attributes.get("keepdims", 1):
        rest = len(before) - len(after) - len(choices[0])
        return sorted([*choices[0], *lost[:rest]])
    return list(choices[0])


@converts("ArgMax", "ArgMin")
def arg(to: Lowering, node: Node) -> None:
    """Indices, which are int32 on the device."""
    to.need_float(node.inputs[0])
    param: dict[str, object] = {
        "axis": int(node.attributes.get("axis", 0)),
        "keep_dims": int(bool(node.attributes.get("keepdims", 1)) or not to.shape(node.outputs[0])),
        "select_last": int(node.attributes.get("select_last_index", 0)),
        "smallest": int(node.op == "ArgMin"),
    }
    one(to, node, "TPU_ARG", [to.tensor(node.inputs[0])], param)


@converts("TopK")
def top_k(to: Lowering, node: Node) -> None:
    """One layer for both outputs, indices as int32; k is read off the output's shape."""
    to.need_float(node.inputs[0])
    axis = int(node.attributes.get("axis", -1))
    param = {"axis": axis, "k": to.shape(node.outputs[0] or node.outputs[1])[axis]}
    param["smallest"] = 1 - int(node.attributes.get("largest", 1))
    outputs = [to.output(node, 0), to.output(node, 1)]
    to.layer("TPU_TOPK", node, [to.tensor(node.inputs[0])], param, outputs)
