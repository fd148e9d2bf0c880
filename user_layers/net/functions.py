"""The codes of functions that layers take as parameters, by their names in the layers' C."""

from __future__ import annotations

from typing import Any

# BM_UNARY_... of sdk/layers/lib/bm_layer_unary_ops.h, in its order.
UNARY = {
    name: number
    for number, name in enumerate(
        (
            *("RELU", "LEAKY_RELU", "CLIP", "SIGMOID", "TANH", "EXP", "LOG", "SQRT", "ABS", "NEG"),
            *("RECIPROCAL", "ELU", "SELU", "CELU", "HARD_SIGMOID", "HARD_SWISH", "SOFTPLUS", "SOFTSIGN"),
            *("GELU", "GELU_TANH", "ERF", "SQUARE", "SIGN", "FLOOR", "CEIL", "ROUND", "THRESHOLDED_RELU"),
            *("NOT", "IS_NAN", "IS_INF", "SWISH", "MISH", "SIN", "COS", "OR_ZERO"),
        )
    )
}
# BM_BINARY_... of sdk/layers/lib/bm_layer_binary_ops.h.
BINARY = {"ADD": 0, "SUB": 1, "MUL": 2, "DIV": 3, "MAX": 4, "MIN": 10000} | {
    name: 20000 + i
    for i, name in enumerate(
        (
            *("POW", "MOD", "FMOD", "PRELU", "EQUAL", "GREATER", "GREATER_OR_EQUAL", "LESS"),
            *("LESS_OR_EQUAL", "AND", "OR", "XOR"),
        )
    )
}
# POOL_WHOLE_... of sdk/layers/lib/bm_layer_pool_window.h.
WHOLE_PLANE, WHOLE_COLUMN, WHOLE_ROW = 1, 2, 3


def unary_param(name: str, a: float = 0.0, b: float = 0.0) -> dict[str, Any]:
    """The parameters of a TPU_UNARY; name: a key of UNARY."""
    return {"unary_op": UNARY[name], "a": a, "b": b}
