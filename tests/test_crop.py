"""TPU_CROP beside its numpy reference: `tpulayer test crop`, or pytest."""

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


def test_crop() -> None:
    check_layer("crop", golden, CASES)
