"""Where the heads of attention lie in its operands: TPU_ATTENTION's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

QUERY, KEY, VALUE = range(3)
"""Its operands."""


def head_count(values: Mapping[str, Any], operand: int) -> int:
    """Of queries, or of keys and values, which several of queries may share. values: parameters by name."""
    return int(values["heads"]) // (1 if operand == QUERY else max(1, int(values["shared"])))


def head_size(values: Mapping[str, Any], operand: int) -> int:
    """Elements of each."""
    return int(values["value_size" if operand == VALUE else "size"])


def head_channels(values: Mapping[str, Any], operand: int) -> npt.NDArray[np.int64]:
    """Which channels they are in a tensor of three dimensions, [heads, size]."""
    first = values["from"][operand] + np.arange(head_count(values, operand)) * values["step"][operand]
    channels: npt.NDArray[np.int64] = first[:, None] + np.arange(head_size(values, operand))
    return channels
