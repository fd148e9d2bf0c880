"""TPU_DOUBLE beside its numpy reference: `tpulayer test double`, or pytest."""

import numpy as np

from tpulayer.testing import Array, Case, Input, Param, check_layer


def golden(inputs: list[Array], param: Param) -> list[Array]:
    """y = 2 * x. param: the fields of tpu_double_param_t."""
    (x,) = inputs
    return [x * np.float32(2)]


CASES = [
    Case((1, 3, 17, 23)),
    Case((2, 65, 5, 7)),  # a channel more than the chip has lanes
    Case((1, 65, 190, 211)),  # more than local memory holds at once
    Case((5, 1000), smaller=[(1, 999), (5, 1)]),
    Case((7,)),
    Case((2, 3, 2, 5, 2, 3)),
    Case(Input((300, 64, 33), low=-1e38, high=1e38)),
]


def test_double() -> None:
    check_layer("double", golden, CASES)
