"""What kinds of operations do to the ranges of what they read, and to integers that stand for numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

WITHIN: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("Sigmoid", "HardSigmoid", "Softmax"), (0.0, 1.0)),
    **dict.fromkeys(("Tanh", "Erf", "Sin", "Cos"), (-1.0, 1.0)),
    **dict.fromkeys(("Relu", "Abs", "Exp", "Sqrt", "Softplus"), (0.0, math.inf)),
}
"""Between what the results of some operations lie, whatever they read."""
KEEPING = (
    *("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Reshape", "Flatten", "Transpose"),
    *("Concat", "Identity", "Squeeze", "Unsqueeze", "Slice", "Resize", "DequantizeLinear", "QuantizeLinear"),
    *("Where", "Expand", "Gather", "ReduceMean", "ReduceMax", "ReduceMin"),
)
"""Operations whose results lie between the ends of their inputs."""
POSITIVE = ("Add", "Mul", "Div", "Reciprocal", "ReduceSum", "ReduceSumSquare", "ReduceL2", "Pow")
"""Operations that make nothing below 0 of numbers that are not."""
MOVING = (
    *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity", "Max", "MaxPool"),
    *("Min", "Pad", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose"),
    *("Unsqueeze", "Where"),
)
"""Operations that mean the same for integers as for what they stand for. Interpolating Resize rounds."""
TURNING = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Those whose results have all that is in their first input."""
