"""The coded values of descriptor fields: task types, arithmetic operations, precisions, DMA codes.

Sources: the kernel API guide, the vendor's functional model (observed), its open runtime.
The C encoder header takes its enums from here.
"""

from __future__ import annotations

import enum


class Task(enum.IntEnum):
    """BD field tsk_typ: which unit of the tensor engine works."""

    CONV = 0
    DEPTHWISE = 1  # and pooling, by tsk_eu_typ
    MATMUL = 2
    ARITHMETIC = 3
    MATMUL2 = 4
    CORRELATION = 5
    TABLE_LOOKUP = 6
    MD_SUM = 7
    MD_SCALAR = 8
    MD_SFU = 9
    MD_LINEAR = 10
    LOCAL_ARRANGE = 11
    DECOMPRESS = 12
    MD_CMP = 13
    VECTOR_CORRELATION = 14
    OTHER_ENGINE = 15  # not the chip's: sort and gather, see firmware_sim.instructions.other_engines


class OtherEngine(enum.IntEnum):
    """BD field tsk_eu_typ of Task.OTHER_ENGINE."""

    SORT = 0
    GATHER = 1


class Eu(enum.IntEnum):
    """BD field tsk_eu_typ: the operation of the execution units."""

    MUL = 0
    MAC = 1
    ADD = 2
    SUB = 3
    MAX = 4
    MIN = 5
    SHIFT = 6
    AND = 7
    OR = 8
    XOR = 9
    SELECT_GT = 10
    SELECT_EQ = 11
    DIV = 12
    TAYLOR = 13
    FP32_TO_INT = 14
    INT_NORMALIZE = 15
    FP32_NORMALIZE = 16
    RSQRT = 17
    ADD_TREE = 18
    COPY = 19
    SQUARE_SUM = 20
    SQUARE_DIFF = 21
    CMP = 22
    SELECT = 23
    CMP_SELECT = 24


class Precision(enum.IntEnum):
    """BD fields opt_*_prec: the type of an operand's elements."""

    INT8 = 0
    FP32 = 2
    INT16 = 3
    INT32 = 4


class Direction(enum.IntEnum):
    """GDMA field direction; S is system memory (DDR, L2), L local memory."""

    S2L = 0
    L2S = 1
    S2S = 2
    L2L = 3


class Special(enum.IntEnum):
    """GDMA field special_func: what the engine does besides copying."""

    COPY = 0
    TRANSPOSE_NC = 1
    LRN_SHIFT = 2
    FORMAT = 3
    CONSTANT = 4
    TRANSPOSE_CW = 5
    WINOGRAD = 6
    FILTER = 7


class Format(enum.IntEnum):
    """GDMA fields src_data_format and dst_data_format."""

    FP32 = 0
    INT16 = 1
    UINT8 = 2
    INT8 = 3
    FP16 = 4

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return (4, 2, 1, 1, 2)[self]


class Stride(enum.IntEnum):
    """BD fields short_*_str: where an operand's strides come from."""

    ALIGNED = 0  # implied by the shape: 128-byte aligned layout
    DEFAULT = 1  # convolution weights: the default order; bias: compact
    COMPACT = 2  # bias
    EXPLICIT = 3  # in the stride fields (the vendor writes 3; any non-zero value acts so in AR)
