"""Records of commands: the bytes that the operands say; sequences in an order that holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.checks import records
from firmware_sim.checks.records import READS, WRITES, Runs, merged, record_of
from firmware_sim.checks.sequence import BD, GDMA
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.example import example, row_of
from firmware_sim.instructions.instruction import Engine, Instruction
from firmware_sim.instructions.table import TABLE
from firmware_sim.isa.footprint import Space, Tensor
from firmware_sim.isa.layout import BD as BD_LAYOUT
from tests.support.check_batches import command, sequence_of, words

KNOWN = [row for row in TABLE if row.semantics is not None]


def bytes_of(tensor: Tensor) -> list[int]:
    first = tensor.indices().reshape(-1) * tensor.itemsize
    found: list[int] = np.unique(first[:, None] + np.arange(tensor.itemsize)).tolist()
    return found


def bytes_in(blocks: list[Runs]) -> list[int]:
    found: list[int] = np.unique(np.concatenate([block.places() for block in blocks])).tolist()
    return found


@pytest.mark.parametrize("instruction", KNOWN, ids=lambda row: row.name)
def test_blocks_are_the_bytes_of_the_operands(instruction: Instruction) -> None:
    row = row_of(instruction.engine, example(instruction))
    record = record_of(instruction.engine, row)
    for k, operand in enumerate(record.operands):
        blocks = [block for block in record.blocks if block.operand == k]
        if not isinstance(operand, Tensor):
            assert not blocks
            continue
        assert bytes_in(blocks) == bytes_of(operand)
        assert {block.space for block in blocks} == {operand.space}
        access = {block.access for block in blocks}
        assert len(access) == 1 and access <= {READS, WRITES, READS | WRITES}


@given(
    st.integers(0, 1000),
    st.sampled_from([1, 2, 4]),
    st.lists(st.tuples(st.integers(1, 5), st.integers(-9, 9)), max_size=4),
)
def test_runs_that_touch_are_one(start: int, size: int, axes: list[tuple[int, int]]) -> None:
    axes = [(count, stride * size) for count, stride in axes]
    plain = {0}
    for count, stride in axes:
        plain = {at + i * stride for at in plain for i in range(count)}
    wanted = {start + 200 + at + i for at in plain for i in range(size)}
    first, run, dims = merged(start + 200, size, axes)
    block = Runs(0, READS, Space.DDR, 0, first, run, tuple(dims))
    assert set(block.places().tolist()) == wanted
    assert block.end == max(wanted) + 1 and all(stride > run for _, stride in dims)


def test_shifted_indices_are_exact() -> None:
    at = chip.LOCAL_BASE
    fields = {
        "res0_addr": at + 0x8000,
        "opd0_h_shift": 1,
        "short_opd0_str": 3,
        "opd0_h_str": 16,
        "opd0_w_str": 1,
    }
    data = command("ar.copy", 1, 0, **fields)
    record = record_of(Engine.BD, BD_LAYOUT.columns(words([data])).row(0))
    [operand] = [o for o in record.operands if isinstance(o, Tensor) and o.name == "opd0"]
    blocks = [b for b in record.blocks if record.operands[b.operand] is operand]
    assert bytes_in(blocks) == bytes_of(operand)
    assert not any(block.maybe for block in blocks)


def test_of_many_shifted_runs_the_whole_reach_stands_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MOST_RUNS", 0)
    data = command("ar.copy", 1, 0, opd0_h_shift=1, short_opd0_str=3, opd0_h_str=16, opd0_w_str=1)
    record = record_of(Engine.BD, BD_LAYOUT.columns(words([data])).row(0))
    assert [b.maybe for b in record.blocks if b.access == READS] == [True]


def test_a_mask_leaves_lanes_out() -> None:
    low, high = 0x0000_00F0, 0x8000_0000
    sequence = sequence_of([], [command("gdma.fill", 1, 0, localmem_mask_l32=low, localmem_mask_h32=high)])
    [block] = sequence.records[0].blocks
    assert block.lanes == high << 32 | low


def test_what_leaves_its_memory_has_no_record() -> None:
    data = command("ar.copy", 1, 0, opd0_addr=chip.LOCAL_BASE + chip.LOCAL_BYTES - 128)
    with pytest.raises(DeviceError, match="opd0 leaves its memory"):
        record_of(Engine.BD, BD_LAYOUT.columns(words([data])).row(0))


def test_a_sequence_says_what_is_done_before() -> None:
    """GDMA 1; BD 1 waits for it; GDMA 2 for BD 1; BD 2 for nothing more."""
    gdma = [command("gdma.fill", 1, 0), command("gdma.fill", 2, 1)]
    bd = [command("ar.add", 1, 1), command("ar.add", 2, 0)]
    sequence = sequence_of(bd, gdma)
    order = list(zip(sequence.engine.tolist(), sequence.id.tolist(), sequence.after.tolist(), strict=True))
    assert order == [(GDMA, 1, 0), (BD, 1, 1), (BD, 2, 1), (GDMA, 2, 1)]
    assert [one.tolist() for one in sequence.position] == [[1, 2], [0, 3]]
