"""A layer beside its numpy reference: what tests/test_NAME.py of a workspace imports.

`Case` is a set of inputs and parameters, `check_layer` runs the cases in every way that a layer can run.
"""

from user_layers.testing import Array, Case, Const, Golden, Input, Param, check_layer

__all__ = ["Array", "Case", "Const", "Golden", "Input", "Param", "check_layer"]
