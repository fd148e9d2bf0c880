"""What a command touches by its data: against executing it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_sim.checks.by_data import by_data, decided
from firmware_sim.checks.records import WRITES, Record, record_of
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import BY_NAME
from firmware_sim.isa.footprint import Space, Tensor
from firmware_sim.memory import Memory
from tests.support.check_batches import row_of


def tensors(record: Record) -> list[Tensor]:
    return [operand for operand in record.operands if isinstance(operand, Tensor)]


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory.create(ddr_bytes=2 << 20)


@settings(max_examples=25)
@given(seed=st.integers(0, 999), length=st.integers(1, 60), precision=st.sampled_from([0, 2, 4]))
def test_a_gather_reads_the_elements_that_its_indices_name(
    memory: Memory, seed: int, length: int, precision: int
) -> None:
    row = row_of("gather", res0_h_str=length, opt_res0_prec=precision)
    record = record_of(Engine.BD, row)
    res0, opd0, opd1 = tensors(record)
    rng = np.random.default_rng(seed)
    l2 = memory.flat(Space.L2)
    l2[:] = rng.integers(0, 256, l2.size, np.uint8)
    size = opd0.itemsize
    l2.view(np.uint32)[opd1.indices()] = rng.integers(0, 500, length, np.uint32)
    now = decided(record, memory)
    assert by_data(record) and now.record is record and now.read is not None
    wanted = l2[now.read.reshape(-1, 1) + np.arange(size)]
    semantics = BY_NAME["gather"].semantics
    assert semantics is not None
    semantics.bind(row, memory)()
    assert np.array_equal(l2[res0.offset : res0.offset + length * size].reshape(-1, size), wanted)


@settings(max_examples=25)
@given(seed=st.integers(0, 999), share=st.sampled_from([0.0, 0.3, 1.0]))
def test_a_masked_copy_writes_what_the_mask_keeps(memory: Memory, seed: int, share: float) -> None:
    row = row_of("gdma.filter")
    record = record_of(Engine.GDMA, row)
    dst, _, mask = tensors(record)
    rng = np.random.default_rng(seed)
    for space in Space:
        flat = memory.flat(space)[: 2 << 20]
        flat[:] = rng.integers(1, 256, flat.size, np.uint8)
    memory.flat(mask.space).view(np.uint32)[mask.indices()] = rng.random(mask.shape) < share
    now = decided(record, memory)
    before = memory.flat(dst.space)[: 2 << 20].copy()
    semantics = BY_NAME["gdma.filter"].semantics
    assert semantics is not None
    semantics.bind(row, memory)()
    written = np.zeros(before.size, bool)
    for block in now.record.blocks:
        if block.access & WRITES:
            assert not block.maybe
            written[block.places()] = True
    kept = 4 * memory.filtered
    assert np.array_equal(np.nonzero(written)[0], dst.offset + np.arange(kept))
    assert np.array_equal(memory.flat(dst.space)[: 2 << 20][~written], before[~written])
