"""TPU_ROWS beside its numpy reference."""

import numpy as np

from tpulayer.testing import Array, Case, Param, check_layer


def golden(inputs: list[Array], param: Param) -> list[Array]:
    (x,) = inputs
    step = param["step"] or 1
    rows = (x.shape[2] - 3) // step + 1
    a, b, c = (x[:, :, i : i + (rows - 1) * step + 1 : step] for i in range(3))
    return [((a + b) + c) * np.float32(param["factor"])]


CASES = [Case((1, 3, 17, 23), param={"factor": 0.5}), Case((2, 65, 9, 8), param={"factor": 2.0, "step": 2})]
RANGES = {"factor": (0.1, 4.0), "step": (1, 3)}


def test_rows() -> None:
    check_layer("rows", golden, CASES)
