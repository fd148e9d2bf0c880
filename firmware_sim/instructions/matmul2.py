"""The fixed product of two 256 x 256 8-bit matrices (tsk_typ 4).

Rows of opd0 and of the result lie four to a lane, 256 bytes each. Column j of opd1 lies on lanes
2 * (j % 32) and the next one, half of its 256 elements on each, at 128 * (j // 32). A result byte is the
sum of the two low bytes of the exact sum.
"""

from __future__ import annotations

import numpy as np

from firmware_sim import chip
from firmware_sim.instructions import sums
from firmware_sim.instructions.dense import Dense
from firmware_sim.instructions.elementwise import check_aligned
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import local_offset
from firmware_sim.isa.codes import Task
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.isa.timing import Cycles
from firmware_sim.memory import Memory

_SIZE = 256
_HALF = 128
_MACS = 64 * 128 * 8  # 8-bit multiplications per cycle of all lanes


def _rows(row: Row, name: str, access: Access) -> Tensor:
    """Bytes as [1, lane, row of the lane, element]."""
    offset = local_offset(row[f"{name}_addr"], name) % chip.LOCAL_BYTES
    shape = (1, chip.NPU_NUM, _SIZE // chip.NPU_NUM, _SIZE)
    return Tensor(name, access, Space.LOCAL, offset, shape, (0, 0, _SIZE, 1), 1)


def _columns(row: Row) -> Tensor:
    """Bytes as [1, lane, j // 32, half of a column]."""
    offset = local_offset(row["opd1_addr"], "opd1") % chip.LOCAL_BYTES
    shape = (1, chip.NPU_NUM, _SIZE // 32, _HALF)
    return Tensor("opd1", Access.READ, Space.LOCAL, offset, shape, (0, 0, _HALF, 1), 1)


def _operands(row: Row) -> tuple[Tensor, Tensor, Tensor]:
    return _rows(row, "res0", Access.WRITE), _rows(row, "opd0", Access.READ), _columns(row)


def _bind(row: Row, memory: Memory) -> Run:
    operands = _operands(row)
    for tensor in operands:
        check_aligned(tensor, chip.ALIGN_BYTES)
    kinds = [np.int8 if row[f"opt_{name}_sign"] else np.uint8 for name in ("opd0", "opd1")]
    target = Dense(memory, operands[0], np.uint8)
    left, right = (Dense(memory, t, kind) for t, kind in zip(operands[1:], kinds, strict=True))

    def run() -> None:
        a = left.load().reshape(_SIZE, _SIZE)
        # [lane pair, half, j // 32, k] -> [half, k, j // 32, lane pair]
        b = right.load().reshape(32, 2, 8, _HALF).transpose(1, 3, 2, 0).reshape(_SIZE, _SIZE)
        total = sums.integer_product(a, b, 255 * 255)
        result = ((total & 255) + ((total >> 8) & 255)) & 255
        target.store(result.astype(np.uint8).reshape(operands[0].shape))

    return run


def _cycles(row: Row) -> Cycles:
    """No figure is known: the multiplications at the peak rate of 8-bit convolutions."""
    return Cycles(_SIZE**3 / _MACS, _SIZE**3 / _MACS)


def _all(row: Row) -> tuple[Operand, ...]:
    return _operands(row)


INSTRUCTIONS = (
    Instruction(
        "matmul2",
        Engine.BD,
        {"tsk_typ": frozenset({int(Task.MATMUL2)}), "tsk_eu_typ": frozenset(range(32))},
        "product of two 256 x 256 8-bit matrices, the two low bytes of each sum added",
        Semantics(_all, _cycles, _bind),
    ),
)
