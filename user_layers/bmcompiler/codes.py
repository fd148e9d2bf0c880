"""Codes of the vendor's bmcompiler_op_code.h (BmReduceType, BmBinaryType, BmActiveType)."""

from __future__ import annotations

from user_layers.graph import BINARY_ADD, BINARY_DIV, BINARY_MAX, BINARY_MIN, BINARY_MUL, BINARY_SUB

__all__ = ["BINARY_ADD", "BINARY_DIV", "BINARY_MAX", "BINARY_MIN", "BINARY_MUL", "BINARY_SUB"]

BINARY_GT = 10001
BINARY_GE = 10002
BINARY_LT = 10003
BINARY_LE = 10004
BINARY_EQ = 10005
BINARY_NE = 10006
BINARY_SQUARED_DIFF = 10007
BINARY_FLOOR_MOD = 10008
BINARY_FLOOR_DIV = 10009

ACTIVE_TANH = 0
ACTIVE_SIGMOID = 1
ACTIVE_RELU = 2
ACTIVE_EXP = 3
ACTIVE_ELU = 4
ACTIVE_SQRT = 5
ACTIVE_SQUARE = 6
ACTIVE_RSQRT = 7
ACTIVE_ABSVAL = 8
ACTIVE_LN = 9
ACTIVE_ROUND = 10
ACTIVE_CEIL = 11
ACTIVE_FLOOR = 12
ACTIVE_SIN = 13
ACTIVE_COS = 14
ACTIVE_IS_FINITE = 15
ACTIVE_MISH = 16
ACTIVE_SWISH = 17
ACTIVE_HSWISH = 18
ACTIVE_SILU = 19

REDUCE_MEAN = 0
REDUCE_SUM = 1
REDUCE_MAX = 2
REDUCE_MIN = 3
REDUCE_PROD = 4
REDUCE_ALL = 5
REDUCE_ANY = 6


def _members(prefix: str) -> dict[str, int]:
    return {name: value for name, value in globals().items() if name.startswith(prefix)}


CODES = {
    "BmReduceType": _members("REDUCE_"),
    "BmBinaryType": _members("BINARY_"),
    "BmActiveType": _members("ACTIVE_"),
}
"""Each enumeration with its members."""


def code_name(enumeration: str, code: int) -> str:
    """The member with this code, for messages: "ACTIVE_SIN", or the number."""
    return next((name for name, value in CODES[enumeration].items() if value == code), str(code))
