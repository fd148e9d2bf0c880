"""A layer beside its numpy reference: what tests/test_NAME.py of a workspace is made of.

    from tpulayer.testing import Array, Case, Param, check_layer

    def golden(inputs: list[Array], param: Param) -> list[Array]:
        return [inputs[0] * np.float32(param["factor"])]

    CASES = [Case((1, 3, 17, 23), param={"factor": 0.5})]

    def test_scale() -> None:
        check_layer("scale", golden, CASES)

`tpulayer test` runs such a file, and so does pytest.
"""

from user_layers.testing.cases import Array, Case, Const, Golden, Input, Param
from user_layers.testing.run import check_layer

__all__ = ["Array", "Case", "Const", "Golden", "Input", "Param", "check_layer"]
