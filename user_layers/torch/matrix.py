"""How ATen's products of matrices and reductions are spelled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from user_layers.spelling.speller import Unspelled
from user_layers.torch.call import Call, aten, fixed
from user_layers.torch.program import is_free

_REDUCTIONS = {
    "mean": "ReduceMean",
    "mean.dim": "ReduceMean",
    "sum": "ReduceSum",
    "sum.dim_IntList": "ReduceSum",
    "amax": "ReduceMax",
    "amin": "ReduceMin",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "prod.dim_int": "ReduceProd",
    "logsumexp": "ReduceLogSumExp",
}

_LONGEST = 2048  # elements that are summed up by a matrix of 16 MB

# ---- products ----


@aten("linear")
def _linear(c: Call) -> str:
    bias = [c.x(2)] if c.has(2) else []
    if c.rank(1) != 2:
        made = c.one("MatMul", c.x(), c.x(1))
        return c.one("Add", made, bias[0]) if bias else made
    if c.rank() == 2:
        return c.one("Gemm", c.x(), c.x(1), *bias, transB=1)
    known = c.to.constant(c.op.inputs[1])
    weight = c.const(np.ascontiguousarray(known.T), known.dtype) if known is not None else None
    made = c.one("MatMul", c.x(), weight or c.one("Transpose", c.x(1), perm=[1, 0]))
    return c.one("Add", made, bias[0]) if bias else made


@aten("addmm")
def _addmm(c: Call) -> str:
    alpha, beta = float(c.get("alpha", 1)), float(c.get("beta", 1))
    return c.one("Gemm", c.x(1), c.x(2), c.x(0), alpha=alpha, beta=beta)


@aten("mm", "bmm", "matmul", "mv", "dot")
def _matmul(c: Call) -> str:
    return c.one("MatMul", c.x(), c.x(1))


@aten("baddbmm")
def _baddbmm(c: Call) -> str:
    made = c.one("MatMul", c.x(1), c.x(2))
    alpha, beta = c.get("alpha", 1), c.get("beta", 1)
    if alpha != 1:
        made = c.one("Mul", made, c.const(alpha))
    return c.one("Add", c.x() if beta == 1 else c.one("Mul", c.x(), c.const(beta)), made)


@aten("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu")
def _attention(c: Call) -> list[str | None]:
    if c.get("dropout_p"):
        raise Unspelled("it drops elements at random: export the module in eval()")
    if c.get("enable_gqa"):
        raise Unspelled("its heads share keys and values (enable_gqa)")
    query, key = c.shape(), c.shape(1)
    rank = len(query)
    scale = float(c.get("scale", 1 / math.sqrt(fixed(query[-1:])[0])))
    turned = c.one("Transpose", c.x(1), perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = c.one("MatMul", c.one("Mul", c.x(), c.const(scale)), turned)
    if c.get("is_causal"):
        shape = fixed((query[-2], key[-2]))
        scores = c.one("Add", scores, c.const(np.where(np.tril(np.ones(shape, bool)), 0, -np.inf)))
    if not c.has(3):
        weights = c.one("Softmax", scores, axis=rank - 1)
    elif _leaves_something(c):
        weights = c.one("Softmax", _masked(c, scores), axis=rank - 1)
    else:
        weights = _safe(c, _masked(c, scores), rank - 1)
    return [c.one("MatMul", weights, c.x(2)), *[None] * (len(c.op.outputs) - 1)]


def _masked(c: Call, scores: str) -> str:
    if c.dtype(3) == np.bool_:
        return c.one("Where", c.x(3), scores, c.const(-np.inf))
    return c.one("Add", scores, c.x(3, c.out_dtype))


def _leaves_something(c: Call) -> bool:
    """Whether the mask of an attention is known, and has something in each row."""
    mask = c.to.constant(c.name(3))
    if mask is None:
        return False
    return bool((mask if mask.dtype == np.bool_ else mask > -np.inf).any(-1).all())


def _safe(c: Call, scores: str, axis: int) -> str:
    """Softmax with zeros where all scores are minus infinity."""
    lowest = c.const(np.finfo(c.out_dtype).min)
    there = c.one("GreaterOrEqual", c.one("ReduceMax", scores, c.ints([axis]), keepdims=1), lowest)
    return c.one("Where", there, c.one("Softmax", scores, axis=axis), c.const(0))


@aten("_safe_softmax")
def _safe_softmax(c: Call) -> str:
    return _safe(c, c.x(0, c.out_dtype), c.axis())


@aten("_softmax", "softmax.int", "_log_softmax", "log_softmax.int")
def _softmax(c: Call) -> str:
    op = "LogSoftmax" if "log" in c.op.kind else "Softmax"
    if not c.rank():
        raise Unspelled("it has no dimension")
    return c.one(op, c.x(0, c.out_dtype), axis=c.axis())


# ---- reductions ----


def _reduction(op: str) -> Any:
    def spelled(c: Call) -> str:
        keep = int(bool(c.get("keepdim")))
        if not c.rank():
            return c.one("Identity", c.x(0, c.out_dtype))
        if op == "ReduceMean" and _is_plane(c):
            made = c.one("GlobalAveragePool", c.x(0, c.out_dtype))
            return made if keep else c.one("Squeeze", made, c.ints([2, 3]))
        return c.one(op, c.x(0, c.out_dtype), c.ints(c.axes()), keepdims=keep)

    return spelled


def _is_plane(c: Call) -> bool:
    """Whether a mean is that of whole planes, which has an 8-bit layer."""
    return c.rank() == 4 and sorted(c.axes()) == [2, 3] and not is_free(c.shape()[2:])


for _name, _op in _REDUCTIONS.items():
    aten(_name)(_reduction(_op))


@aten("max.dim", "min.dim")
def _extreme(c: Call) -> list[str | None]:
    which = "Max" if "max" in c.op.kind else "Min"
    axis, keep = c.axis(), int(bool(c.get("keepdim")))
    value = c.one(f"Reduce{which}", c.x(), c.ints([axis]), keepdims=keep)
    return [value, c.one(f"Arg{which}", c.x(), axis=axis, keepdims=keep)]


@aten("argmax", "argmin")
def _arg(c: Call) -> str:
    op = "ArgMax" if "argmax" in c.op.kind else "ArgMin"
    keep = int(bool(c.get("keepdim")))
    if c.get("dim") is not None:
        return c.one(op, c.x(), axis=c.axis(), keepdims=keep)
    found = c.one(op, c.reshaped(c.x(), [-1]), axis=0, keepdims=0)
    return c.reshaped(found, c.out_shape)


@aten("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def _any(c: Call) -> str:
    op = "ReduceMax" if "any" in c.op.kind else "ReduceMin"
    held = c.cast(c.x(0, np.dtype(np.bool_)), np.dtype(np.float32))
    found = c.one(op, held, c.ints(c.axes()), keepdims=int(bool(c.get("keepdim"))))
    return c.cast(found, c.out_dtype)


@aten("var.correction", "var.dim", "std.correction", "std.dim", "var_mean.correction")
def _variance(c: Call) -> list[str | None]:
    axes, keep = c.axes(), int(bool(c.get("keepdim")))
    count = int(np.prod(fixed([c.shape()[axis] for axis in axes])))
    less = float(c.get("correction", 1 if c.get("unbiased", True) else 0))
    if count <= less:
        raise Unspelled("it divides by zero")
    value, where = c.x(), c.ints(axes)
    mean = c.one("ReduceMean", value, where, keepdims=1)
    away = c.one("Sub", value, mean)
    total = c.one("ReduceSum", c.one("Mul", away, away), where, keepdims=keep)
    made = c.one("Mul", total, c.const(1 / (count - less)))
    if "std" in c.op.kind:
        made = c.one("Sqrt", made)
    return [made, *([c.one("ReduceMean", value, where, keepdims=keep)] if len(c.op.outputs) > 1 else [])]


@aten("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar")
def _norm(c: Call) -> str:
    power = float(c.get("ord", c.get("p", 2)))
    axes, keep = c.ints(c.axes()), int(bool(c.get("keepdim")))
    if power in (1, 2):
        return c.one(f"ReduceL{power:g}", c.x(), axes, keepdims=keep)
    if power == math.inf:
        return c.one("ReduceMax", c.one("Abs", c.x()), axes, keepdims=keep)
    raise Unspelled(f"its power is {power:g}")


@aten("topk")
def _topk(c: Call) -> list[str | None]:
    found = c.to.node(
        "TopK",
        [c.x(), c.ints([int(c.get("k"))])],
        {
            "axis": c.axis(default=-1),
            "largest": int(bool(c.get("largest", True))),
            "sorted": int(bool(c.get("sorted", True))),
        },
        outputs=2,
    )
    return list(found)


@aten("cumsum")
def _cumsum(c: Call) -> str:
    """A product with a triangular matrix, along the last axis, where that is not too large."""
    axis, rank, value = c.axis(), c.rank(), c.x(0, c.out_dtype)
    extent = c.shape()[axis] if rank else 1
    if c.out_dtype.kind != "f" or not rank or extent > _LONGEST or is_free(extent):
        return c.one("CumSum", value, c.ints(axis))
    matrix = c.const(np.triu(np.ones((extent, extent), np.float32)))
    if axis == rank - 1:
        return c.one("MatMul", value, matrix)
    order = [a for a in range(rank) if a != axis] + [axis]
    made = c.one("MatMul", c.one("Transpose", value, perm=order), matrix)
    return c.one("Transpose", made, perm=[order.index(a) for a in range(rank)])
