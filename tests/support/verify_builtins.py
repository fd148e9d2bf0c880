"""Built-in layers for `verify`: no golden but the global function, which the tests of the layers hold against
numpy and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpulayer.testing import Case, Const, Input
from user_layers.verify.target import Target

NEAR: dict[str, Any] = {"atol": 1e-4, "rtol": 1e-4}  # other sums of the same products
_ONE = {"dilation_h": 1, "dilation_w": 1}


def _conv(rng: np.random.Generator, groups: bool = False) -> Case:
    kernel_h, kernel_w, step_h, step_w = (int(n) for n in rng.integers(1, 4, 4))
    pads = {f"pad_{side}": int(rng.integers(2)) for side in ("top", "left", "bottom", "right")}
    batch, rows, columns = (int(rng.integers(1, 4)), int(rng.integers(4, 24)), int(rng.integers(4, 24)))
    channels = int(rng.choice((1, 3, 16, 63, 64, 65)))
    made = channels if groups else int(rng.choice((1, 8, 64, 65)))
    kernel = {"kernel_h": kernel_h, "kernel_w": kernel_w, "stride_h": step_h, "stride_w": step_w}
    param: dict[str, Any] = {"groups": channels if groups else 1, **kernel, **pads, **_ONE}
    weights = (made, 1 if groups else channels, kernel_h, kernel_w)
    x = (batch, channels, rows, columns)
    return Case(x, Const(weights), Const((made,)), param=param, smaller=[], **NEAR)


def _pool(rng: np.random.Generator) -> Case:
    kernel_h, kernel_w, step_h, step_w = (int(n) for n in rng.integers(1, 4, 4))
    shape = (
        int(rng.integers(1, 4)),
        int(rng.choice((1, 3, 64, 65))),
        *(int(n) for n in rng.integers(3, 24, 2)),
    )
    kernel = {"kernel_h": kernel_h, "kernel_w": kernel_w, "stride_h": step_h, "stride_w": step_w, **_ONE}
    return Case(shape, param={"mode": int(rng.integers(2)), **kernel}, **NEAR)


def _pad(rng: np.random.Generator) -> Case:
    """A constant, mirrored, or the edge, around extents that may be smaller than the pads."""
    before, after = ([0, 0, *(int(n) for n in rng.integers(0, 6, 2))] for _ in range(2))
    shape = (int(rng.integers(1, 4)), int(rng.choice((1, 3, 65))), *(int(n) for n in rng.integers(1, 16, 2)))
    return Case(shape, param={"mode": int(rng.integers(3)), "before": before, "after": after, "value": 1.5})


def targets() -> list[Target]:
    """Each with a local function, and some without."""
    plain = Case((2, 65, 9, 11))
    unit = Input((2, 65, 9, 11), low=0.5, high=2.0)
    binary = [Case((2, 65, 9, 11), (2, 65, 9, 11), param={"binary_op": k}, **NEAR) for k in range(3)]
    return [
        Target(
            "const_binary",
            "TPU_CONST_BINARY",
            tuple(Case(unit, param={"value": 1.5, "binary_op": k}, **NEAR) for k in range(4)),
        ),
        Target(
            "binary", "TPU_BINARY", (*binary, Case((2, 65, 9, 11), (1, 65, 1, 1), param={"binary_op": 0}))
        ),
        Target("unary", "TPU_UNARY", tuple(Case((2, 65, 9, 11), param={"unary_op": k}) for k in (0, 1, 2))),
        Target("softmax", "TPU_SOFTMAX", (Case((2, 65, 9, 11), param={"axis": 1}, **NEAR),)),
        Target(
            "scale_shift",
            "TPU_SCALE_SHIFT",
            (Case((2, 65, 9, 11), Const((65,)), Const((65,)), param={"axis": 1}),),
        ),
        Target("upsample", "TPU_UPSAMPLE", (Case((2, 65, 9, 11), param={"scale_h": 2, "scale_w": 3}),)),
        Target(
            "pad",
            "TPU_PAD",
            (Case((2, 65, 9, 11), param={"before": [0, 0, 1, 2], "after": [0, 0, 2, 1]}), plain),
            random_case=_pad,
        ),
        Target(
            "where",
            "TPU_WHERE",
            (Case((2, 65, 9, 11), (2, 65, 9, 11), (2, 65, 9, 11)),),
        ),
        Target(
            "transpose", "TPU_TRANSPOSE", (Case((2, 65, 9, 11), param={"dims": 4, "order": [0, 2, 3, 1]}),)
        ),
        Target("conv", "TPU_CONV", (_conv(np.random.default_rng(0)),), random_case=_conv),
        Target(
            "depthwise",
            "TPU_CONV",
            (_conv(np.random.default_rng(0), True),),
            random_case=lambda rng: _conv(rng, True),
        ),
        Target("pool", "TPU_POOL", (_pool(np.random.default_rng(0)),), random_case=_pool),
        Target("norm", "TPU_NORM", (Case((2, 65, 9, 11), param={"axis": 1, "epsilon": 1e-5}, **NEAR),)),
        Target("matmul", "TPU_MATMUL", (Case((2, 9, 33), (2, 33, 17), param={"alpha": 1.0}, **NEAR),)),
        Target("reduce", "TPU_REDUCE", (Case((2, 65, 9, 11), param={"axes_num": 1, "axes": [2]}, **NEAR),)),
    ]
