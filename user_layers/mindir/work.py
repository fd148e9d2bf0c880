"""How much an operation multiplies: what tells an operation that matters from one that does not."""

from __future__ import annotations

import math

from user_layers.spelling.foreign import ForeignModel, Operation


def macs(model: ForeignModel, operation: Operation) -> int:
    """Multiplications with an addition each of a convolution or a product of matrices, by the model's shapes;
    0 for all else, and where a shape is not known."""
    shapes = [model.tensors[name].shape for name in operation.inputs if name is not None]
    made = model.tensors[operation.outputs[0]].shape
    if len(shapes) < 2 or min((n for shape in (made, *shapes[:2]) for n in shape), default=-1) < 0:
        return 0
    x, weights = shapes[:2]
    if operation.kind == "Conv2DFusion":  # weights [out, h, w, in / group]
        return math.prod(made) * math.prod(weights[1:])
    if operation.kind == "Conv2dTransposeFusion":  # weights [in, h, w, out / group]
        return math.prod(x) * math.prod(weights[1:])
    if operation.kind == "FullConnection":
        return math.prod(made) * weights[-1]
    if operation.kind == "MatMulFusion" and x and made:
        return math.prod(made) * (x[-2] if operation.attributes.get("transpose_a") and len(x) > 1 else x[-1])
    return 0
