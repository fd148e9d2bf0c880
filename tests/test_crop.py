"""TPU_CROP beside its numpy reference: `tpulayer test crop`, or pytest."""

import numpy as np

from tpulayer.testing import Array, Case, Input, Param, check_layer


def golden(inputs: list[Array], param: Param) -> list[Array]:
    """Elements cut off at both ends of every dimension. param: the fields of tpu_crop_param_t."""
    (x,) = inputs
    ends = zip(param["before"], x.shape, param["after"], strict=False)  # the parameters have all 8 dimensions
    return [x[tuple(slice(before, extent - after) for before, extent, after in ends)]]


CASES = [
    Case((64, 40, 40), param={"before": (8, 4, 2), "after": (8, 4, 6)}, smaller=[(64, 33, 21), (17, 9, 9)]),
    Case((1, 3, 17, 23), param={"before": (0, 1, 2, 3), "after": (0, 1, 14, 5)}, smaller=[(1, 3, 17, 9)]),
    Case((2, 65, 5, 7)),  # nothing is cut off
    Case((1, 70, 190, 131), param={"before": (0, 64), "after": (0, 0, 1)}, smaller=[(1, 65, 2, 131)]),
    Case((7,), param={"after": (6,)}, smaller=[]),
    Case((3, 2, 4, 1, 3, 2, 2, 5), param={"before": [1] + 6 * [0] + [2]}, smaller=[(2, 1, 4, 1, 3, 2, 2, 3)]),
    Case(Input((3, 50, 9), "uint8", 0, 255), param={"before": (1, 3, 1)}, smaller=[(2, 4, 9)]),
    Case((9, 11), dtype="int16", param={"before": (1, 3)}, smaller=[(2, 11)]),
    Case((9, 11), dtype="int32", param={"after": (1, 3)}, smaller=[(2, 4)]),
]


def random_case(rng: np.random.Generator) -> Case:
    """What `tpulayer verify` tries: any shape and type, cut off so that something is left."""
    shape = tuple(int(n) for n in rng.integers(1, 40, rng.integers(1, 6)))
    if rng.random() < 0.5:  # what a local function does: rows and columns of four dimensions
        shape = (int(rng.integers(1, 4)), int(rng.choice((1, 3, 64, 65))), *shape[:2])[:4]
    left = [n - int(rng.integers(1, n + 1)) if d > 1 or len(shape) < 4 else 0 for d, n in enumerate(shape)]
    before = [int(rng.integers(n + 1)) for n in left]
    after = [int(rng.integers(n - b + 1)) for n, b in zip(left, before, strict=True)]
    dtype = str(rng.choice(("float32", "float32", "int32", "int16", "uint8")))
    return Case(shape, dtype=dtype, param={"before": before, "after": after})


def test_crop() -> None:
    check_layer("crop", golden, CASES)
