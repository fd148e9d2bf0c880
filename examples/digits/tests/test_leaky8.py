"""TPU_LEAKY8 beside its numpy reference: `tpulayer test leaky8`, or pytest."""

import numpy as np

from tpulayer.testing import Array, Case, Param, check_layer


def golden(inputs: list[Array], param: Param) -> list[Array]:
    """x, or alpha * x to the nearest integer, halves upwards, where that is more."""
    (x,) = inputs
    wide = x.astype(np.int32)
    below = np.floor(wide * param["alpha"] + 0.5).astype(np.int32)
    return [np.maximum(wide, below).astype(x.dtype)]


def quantised(*shape: int, dtype: str = "int8", alpha: float = 0.125) -> Case:
    """Integers whose values are 0.05 times as large; so are those that the layer makes."""
    return Case(shape, dtype=dtype, scale=0.05, out_scale=0.05, param={"alpha": alpha})


# Each runs by itself (opt 0), between other layers (opt 1 and 2), and dynamically.
CASES = [
    quantised(1, 3, 17, 23),
    quantised(5, 65, 5, 7),  # a batch more than share a word, a channel more than the chip has lanes
    quantised(5, 65, 5, 7, dtype="uint8"),
    quantised(1, 65, 190, 211),  # more than local memory holds at once
    quantised(5, 1000, alpha=0.5),
    quantised(2, 5000),  # more channels than the local function takes
    quantised(7),
]


def test_leaky8() -> None:
    check_layer("leaky8", golden, CASES)
