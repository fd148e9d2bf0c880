"""The GDMA's transform of 3x3 kernels into winograd tiles."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import DeviceError
from firmware_sim.isa.codes import Direction, Format, Special
from firmware_sim.isa.layout import GDMA
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.examples import examples
from tests.support.isa_cases import LOCAL, NO_COMMANDS, Fields

I8 = npt.NDArray[np.int8]
_HALF = Fraction(1, 2)
_G = ((1, 0, 0), (_HALF, _HALF, _HALF), (_HALF, -_HALF, _HALF), (0, 0, 1))
AT = 0x1000


@pytest.fixture(scope="module")
def chip() -> Tpu:
    return Tpu(Memory.create(ddr_bytes=1 << 20))


def transform(chip: Tpu, kernels: I8, **more: int) -> I8:
    """kernels [channels, count, 9] -> [channels, count, 16]; up to 64 channels."""
    channels, count, _ = kernels.shape
    chip.memory.ddr[: kernels.size] = kernels.view(np.uint8).reshape(-1)
    fields: Fields = {"special_func": Special.WINOGRAD, "direction": Direction.S2L, "cmd_id": 1}
    fields.update(src_data_format=Format.INT8, dst_data_format=Format.INT8)
    fields.update(src_nsize=1, src_csize=channels, src_hsize=1, src_wsize=9 * count)
    fields.update(dst_nsize=1, dst_csize=channels, dst_hsize=1, dst_wsize=16 * count)
    fields.update(src_start_addr_h8=1, dst_start_addr_l32=LOCAL + AT)
    fields.update(more)
    chip.restart()
    words = np.frombuffer(GDMA.encode(**{**GDMA.defaults, **fields}), np.uint32).reshape(1, 32)
    chip.execute(NO_COMMANDS, words)
    tiles: I8 = chip.memory.local[:channels, AT : AT + 16 * count].copy().view(np.int8)
    return tiles.reshape(channels, count, 16)


def half_up(x: Fraction) -> int:
    return (x + _HALF).__floor__()


def widened(g: int, slope0: int, slope1: int, x: int) -> int:
    """Two lines: from 0 with slope0 / 8 up to x, then to 512 at 128 with slope1 / 8."""
    size = abs(g)
    line = Fraction(slope0 * size, 8) if size <= x else 512 - Fraction(slope1 * (128 - size), 8)
    return min(max(half_up(line if g >= 0 else -line), -512), 511)


def tile(kernel: list[int], slope0: int, slope1: int, x: int, coef: int) -> list[int]:
    y = [widened(g, slope0, slope1, x) for g in kernel]
    out = []
    for left in _G:
        for right in _G:
            total = sum(left[i] * right[j] * y[3 * i + j] for i in range(3) for j in range(3))
            out.append(min(max(half_up(Fraction(total) * Fraction(coef, 32)), -128), 127))
    return out


@given(
    seed=st.integers(0, 9999),
    slope0=st.integers(0, 63),
    slope1=st.integers(0, 511),
    x=st.integers(0, 255),
    coef=st.integers(0, 31),
    wide=st.booleans(),
)
@examples(60)
def test_equals_the_formula(
    seed: int, slope0: int, slope1: int, x: int, coef: int, wide: bool, chip: Tpu
) -> None:
    low, high = (-128, 128) if wide else (-9, 10)
    kernels = np.random.default_rng(seed).integers(low, high, (3, 2, 9)).astype(np.int8)
    got = transform(
        chip,
        kernels,
        src_hshift=slope0 << 16 | 0xC00000,  # the two bits above slope0 do not count
        constant_value=slope1 | 0x200,
        src_wshift=x,
        dst_hshift=coef | 0xE0,
    )
    want = [[tile(k.tolist(), slope0, slope1, x, coef) for k in row] for row in kernels]
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"src_data_format": 0}, "src: format FP32"),
        ({"dst_wsize": 18}, r"src: shape \[1, 1, 1, 18\], dst: shape \[1, 1, 1, 18\]"),
        ({"src_hsize": 2, "dst_hsize": 2}, "n and h are 1"),
        ({"stride_enable": 1, "src_wstride": 2}, "src: a column stride of 2"),
        ({"acc_write_enable": 1}, "with acc_write_enable: unverified"),
    ],
)
def test_what_it_cannot_do_is_refused(fields: Fields, message: str, chip: Tpu) -> None:
    with pytest.raises(DeviceError, match=message):
        transform(chip, np.zeros((1, 2, 9), np.int8), **fields)
