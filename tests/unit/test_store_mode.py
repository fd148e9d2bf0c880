"""Interleaved batches in device memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import ModelError
from firmware_sim.wire import DType, StoreMode
from user_layers.bmodel.model import Tensor
from user_layers.runtime.store_mode import (
    batches_together,
    interleave,
    separate,
    stored_bytes,
    stored_shape,
)


def tensor(shape: tuple[int, ...], dtype: DType, mode: int) -> Tensor:
    return Tensor("x", shape, dtype, mode, addr=0, size=0)


def test_four_batches_share_a_word() -> None:
    x = np.arange(5 * 2 * 3, dtype=np.int8).reshape(5, 2, 3)
    stored = interleave(x, 4)
    # word k of the first group: element k of batches 0, 1, 2, 3; then batch 4 with zeros
    assert stored.reshape(-1, 4)[:2].tolist() == [[0, 6, 12, 18], [1, 7, 13, 19]]
    assert stored.reshape(-1, 4)[6:8].tolist() == [[24, 0, 0, 0], [25, 0, 0, 0]]
    assert stored_bytes(tensor(x.shape, DType.INT8, StoreMode.N4)) == stored.nbytes == 48


@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    kind=st.sampled_from([(DType.UINT8, 4), (DType.INT8, 4), (DType.INT16, 2), (DType.FP32, 1)]),
)
def test_separate_undoes_interleave(shape: tuple[int, ...], kind: tuple[DType, int]) -> None:
    dtype, together = kind
    mode = {1: StoreMode.N1, 2: StoreMode.N2, 4: StoreMode.N4}[together]
    assert batches_together(tensor(shape, dtype, mode)) == together
    x = np.arange(1, 1 + np.prod(shape)).astype(dtype.numpy_name).reshape(shape)
    stored = interleave(x, together)
    assert stored.shape == stored_shape(shape, together)
    assert stored.nbytes == stored_bytes(tensor(shape, dtype, mode))
    assert np.array_equal(separate(stored, shape, together), x)


@pytest.mark.parametrize(
    ("dtype", "mode"), [(DType.FP32, 2), (DType.FP32, 1), (DType.INT8, 1), (DType.INT16, 2), (DType.INT8, 3)]
)
def test_modes_that_a_type_does_not_have(dtype: DType, mode: int) -> None:
    with pytest.raises(ModelError, match=rf"'x', .* is stored in mode {mode}; known are 1N \(0\), 2N \(1\)"):
        stored_bytes(tensor((4, 2), dtype, mode))
