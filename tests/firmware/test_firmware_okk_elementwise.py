"""Special functions, conversions and packed arithmetic of okk.h: their rules, and what they compute.

That the descriptors are the vendor's is tested in test_firmware_okk.py. Here a call is refused where it
breaks a rule of the API, and the sequences of several instructions run on the emulator against numpy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firmware_sim import wire
from firmware_sim.isa.layout import BD
from tests.support import firmware_harness as fh

DST, SRC0, SRC1, WORK, WORK_HIGH, WORK_LOW = (k * 0x10000 for k in range(6))  # a bank each
FIXED = "okk_bdc_fixed_point_packed_"
U16, S8, U8_S8 = 0, 31, 9 | 4 | 16  # op_types: all u16, all s8, u8 op s8 to s8

ints = npt.NDArray[Any]


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, executes=True)


# ---- rules ----

PAIR = {"dst": DST, "src": SRC0, "shape": [1, 64, 4, 5]}
SEQUENCE = {"dst": DST, "src": SRC0, "work": WORK, "shape": [1, 64, 4, 5]}
TUNABLE = {**SEQUENCE, "num_series": 8}
CONVERT = {**SEQUENCE, "is_signed": True, "is_aligned_layout": True}
ONE = {"dst": DST, "src": SRC0, "C": 1, "shape": [1, 64, 4, 5], "dst_stride": None, "src_stride": None}
SUM_C = {**ONE, "op_type": S8, "rshift": 0}
MAC_C = {**ONE, "old_signed": True, "op_type": S8, "lshift": 0, "rshift": 0}
EXTREMUM_C = {**ONE, "op_type": S8}
SPLIT_LOW = {**SEQUENCE, "dst_stride": None, "src_stride": None, "work_stride": None}
PARTS = {
    "dst": DST,
    "high": SRC0,
    "low": WORK,
    "src1": SRC1,
    "shape": [1, 64, 4, 5],
    "s0": None,
    "s1": None,
    "s2": None,
    "s3": None,
    "mul_type": 7,
    "rshift": 0,
}
S16_U8 = {
    "dst": DST,
    "src0": SRC0,
    "src1": SRC1,
    "work": WORK,
    "high": WORK_HIGH,
    "low": WORK_LOW,
    "shape": [1, 64, 4, 5],
    **{f"s{i}": None for i in range(6)},
    "rshift": 0,
}


@pytest.mark.parametrize(
    ("function", "args", "text"),
    [
        ("okk_bdc_rsqrt", {**PAIR, "shape": [1, 64, 1, 70000]}, "70000 in bd.res0_w is over its limit 65535"),
        ("okk_bdc_rsqrt", {**PAIR, "shape": None}, "shape is NULL"),
        ("okk_bdc_lookup_exp", {**PAIR, "src": 4}, "source address 0x4 is not a multiple of 128"),
        ("okk_bdc_lookup_exp", {**PAIR, "shape": [1, 4096, 1, 1]}, "4096 in bd.res0_c is over its limit"),
        ("okk_bdc_taylor_exp", {**PAIR, "num_series": 0}, "num_series 0 is outside 1..64"),
        ("okk_bdc_tanh", {**SEQUENCE, "work": WORK + 4}, "work address 0x30004 is not a multiple of 128"),
        (
            "okk_bdc_4N_int8_to_fp32",
            {**CONVERT, "shape": [2**31 - 1, 1, 1, 1]},
            "which is over the 32 MiB of local",
        ),
        ("okk_bdc_int8_to_fp32", {**CONVERT, "shape": [1, 1, 65535, 65535]}, "65535 x 65535 pixels"),
        (
            "okk_bdc_fp32_to_4N_int8",
            {**SEQUENCE, "shape": [40000, 1, 1, 1], "is_signed": True},
            "80000 in bd.res0_n is over its limit 65535",
        ),
        (FIXED + "add_C", {**SUM_C, "shape": [1, 1, 70000, 1]}, "70000 in bd.res0_h is over its limit 65535"),
        (FIXED + "add_C", {**SUM_C, "rshift": 32}, "rshift 32 is outside 0..31"),
        (FIXED + "add_C", {**SUM_C, "rshift": -1}, "rshift -1 is outside 0..31"),
        (FIXED + "mul_C", {**SUM_C, "op_type": U16}, "the sources of a product are 8-bit; op_type 0 is not"),
        (FIXED + "max_C", {**EXTREMUM_C, "op_type": U8_S8}, "both sources are signed or both unsigned here"),
        (
            FIXED + "min_C",
            {**EXTREMUM_C, "dst_stride": [1 << 19, 1, 1, 1]},
            "524288 in bd.res0_n_str is over",
        ),
        (
            FIXED + "16bit_split_low_8bit",
            {**SPLIT_LOW, "shape": [70000, 1, 1, 1]},
            "70000 in bd.res0_n is over",
        ),
        (FIXED + "16bit_mul_8bit", {**PARTS, "src1": 2}, "source 1 address 0x2 is not a multiple of 4"),
        (FIXED + "s16_mul_u8_to_s16", {**S16_U8, "rshift": 32}, "rshift 32 is outside 0..31"),
    ],
)
def test_broken_rules_are_refused(
    firmware: fh.Harness, function: str, args: dict[str, Any], text: str
) -> None:
    reply = firmware.okk(function, args)
    assert reply.status == wire.Status.ASSERT
    assert reply.text.startswith(f"{function}: ")
    assert text in reply.text
    assert not firmware.batches


def test_the_product_that_the_chip_lacks_says_so(firmware: fh.Harness) -> None:
    reply = firmware.okk(FIXED + "16bit_mul_8bit", {**PARTS, "mul_type": 5})
    assert reply.status == 0
    assert not firmware.bd
    assert "nothing is issued" in reply.warnings and "s16_mul_u8_to_s16" in reply.warnings


# ---- what they compute: tensors [n, c, pixels] that start on NPU 0 ----


def put(firmware: fh.Harness, offset: int, words: ints, channel: int) -> None:
    """Words [n, c, pixels] to local memory, `channel` words from batch to batch."""
    local = firmware.local.reshape(64, -1).view(np.uint32)
    for n, batch in enumerate(np.ascontiguousarray(words).view(np.uint32)):
        start = offset // 4 + n * channel
        local[: len(batch), start : start + batch.shape[1]] = batch


def get(firmware: fh.Harness, offset: int, shape: tuple[int, int, int], channel: int) -> ints:
    local = firmware.local.reshape(64, -1).view(np.uint32)
    n, c, pixels = shape
    starts = [offset // 4 + i * channel for i in range(n)]
    return np.stack([local[:c, s : s + pixels] for s in starts])


def pack(values: ints, dtype: str) -> npt.NDArray[np.uint32]:
    """[n, c, pixels] with 4 (8-bit) or 2 (16-bit) batches to a word, the missing ones 0."""
    n, c, pixels = values.shape
    per_word = 4 // np.dtype(dtype).itemsize
    full = np.zeros((-(-n // per_word) * per_word, c, pixels), dtype)
    full[:n] = values
    groups = full.reshape(-1, per_word, c, pixels).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(groups).view(np.uint32)[..., 0]


def unpack(words: ints, dtype: str, n: int) -> ints:
    elements: ints = np.ascontiguousarray(words)[..., None].view(dtype)
    batches: ints = elements.transpose(0, 3, 1, 2).reshape(-1, *words.shape[1:])
    return batches[:n].astype(np.int64)


def aligned(pixels: int) -> int:
    return -(-pixels // 32) * 32


def groups_of(n: int, per_word: int) -> int:
    return -(-n // per_word)


SIZES = st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(1, 40))
SEEDS = st.integers(0, 2**32 - 1)


@given(SIZES, SEEDS, st.booleans(), st.booleans())
def test_4n_bytes_become_numbers(
    firmware: fh.Harness, size: tuple[int, int, int], seed: int, signed: bool, is_aligned: bool
) -> None:
    n, c, pixels = size
    dtype = "int8" if signed else "uint8"
    x = np.random.default_rng(seed).integers(-128 if signed else 0, 128 if signed else 256, size)
    channel = aligned(pixels) if is_aligned else pixels
    put(firmware, SRC0, pack(x, dtype), channel)
    args = {"dst": DST, "src": SRC0, "work": WORK, "shape": [n, c, pixels, 1], "s": signed, "a": is_aligned}
    assert firmware.okk("okk_bdc_4N_int8_to_fp32", args).status == 0
    assert (get(firmware, DST, size, channel).view(np.float32) == x).all()


@given(SIZES, SEEDS, st.booleans(), st.booleans())
def test_bytes_in_rows_become_numbers(
    firmware: fh.Harness, size: tuple[int, int, int], seed: int, signed: bool, is_aligned: bool
) -> None:
    n, c, pixels = size
    low, dtype = (-128, "int8") if signed else (0, "uint8")
    x = np.random.default_rng(seed).integers(low, low + 256, (n, c, -(-pixels // 4) * 4))
    words = np.ascontiguousarray(x.astype(dtype)).view(np.uint32)
    put(firmware, SRC0, words, aligned(words.shape[2]) if is_aligned else words.shape[2])
    args = {"dst": DST, "src": SRC0, "work": WORK, "shape": [n, c, 1, pixels], "s": signed, "a": is_aligned}
    assert firmware.okk("okk_bdc_int8_to_fp32", args).status == 0
    channel = aligned(pixels) if is_aligned else pixels
    assert (get(firmware, DST, size, channel).view(np.float32) == x[..., :pixels]).all()


@given(SIZES, SEEDS, st.booleans())
def test_numbers_become_4n_bytes(
    firmware: fh.Harness, size: tuple[int, int, int], seed: int, signed: bool
) -> None:
    n, c, pixels = size
    x = np.random.default_rng(seed).uniform(-300, 300, size).astype(np.float32)
    put(firmware, SRC0, x, aligned(pixels))
    args = {"dst": DST, "src": SRC0, "work": WORK, "shape": [n, c, 1, pixels], "signed": signed}
    assert firmware.okk("okk_bdc_fp32_to_4N_int8", args).status == 0
    words = get(firmware, DST, (groups_of(n, 4), c, pixels), aligned(pixels))
    got = unpack(words, "int8" if signed else "uint8", n)
    assert (got == np.trunc(np.clip(x, -128, 127) if signed else np.clip(x, 0, 255))).all()


def _half_up(value: ints, rshift: int) -> ints:
    return (value + ((1 << rshift) >> 1)) >> rshift


@pytest.mark.parametrize(
    ("mul_type", "a_type", "b_type"), [(7, "int16", "int8"), (6, "uint16", "int8"), (0, "uint16", "uint8")]
)
@given(size=SIZES, seed=SEEDS, rshift=st.integers(0, 20))
def test_products_of_split_elements(
    firmware: fh.Harness,
    mul_type: int,
    a_type: str,
    b_type: str,
    size: tuple[int, int, int],
    seed: int,
    rshift: int,
) -> None:
    n, c, pixels = size
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, size) for t in (a_type, b_type))
    put(firmware, SRC0, pack(a, a_type), aligned(pixels))
    put(firmware, SRC1, pack(b, b_type), aligned(pixels))
    shape = [n, c, 1, pixels]
    high = {"dst": WORK_HIGH, "src": SRC0, "shape": shape, "s0": None, "s1": None}
    assert firmware.okk(FIXED + "16bit_split_high_8bit", high).status == 0
    low = {"dst": WORK_LOW, "src": SRC0, "work": WORK, "shape": shape, "s0": None, "s1": None, "s2": None}
    assert firmware.okk(FIXED + "16bit_split_low_8bit", low).status == 0
    args = {
        **PARTS,
        "high": WORK_HIGH,
        "low": WORK_LOW,
        "shape": shape,
        "mul_type": mul_type,
        "rshift": rshift,
    }
    assert firmware.okk(FIXED + "16bit_mul_8bit", args).status == 0
    result = "uint16" if mul_type == 0 else "int16"
    got = unpack(get(firmware, DST, (groups_of(n, 2), c, pixels), aligned(pixels)), result, n)
    limits = np.iinfo(result)
    assert (got == np.clip(_half_up(a * b, rshift), limits.min, limits.max)).all()


@given(SIZES, SEEDS, st.integers(0, 20))
def test_signed_times_unsigned(
    firmware: fh.Harness, size: tuple[int, int, int], seed: int, rshift: int
) -> None:
    """The magnitude is multiplied, rounded and cut at 32767, then gets its sign back."""
    n, c, pixels = size
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-(1 << 15), 1 << 15, size), rng.integers(0, 256, size)
    put(firmware, SRC0, pack(a, "int16"), aligned(pixels))
    put(firmware, SRC1, pack(b, "uint8"), aligned(pixels))
    args = {**S16_U8, "shape": [n, c, 1, pixels], "rshift": rshift}
    assert firmware.okk(FIXED + "s16_mul_u8_to_s16", args).status == 0
    got = unpack(get(firmware, DST, (groups_of(n, 2), c, pixels), aligned(pixels)), "int16", n)
    magnitude = np.minimum(_half_up(np.minimum(abs(a), 0x7FFF) * b, rshift), 0x7FFF)
    assert (got == np.sign(a) * magnitude).all()


@pytest.mark.parametrize(
    ("name", "reference", "limit"),
    [
        ("exp", np.exp, 80),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 80),
        ("tanh", np.tanh, 20),
    ],
)
@example(size=(3, 3, 17), seed=219384)  # -78.00004
@given(size=SIZES, seed=SEEDS)
def test_sequences_approximate_their_functions(
    firmware: fh.Harness, name: str, reference: Any, limit: int, size: tuple[int, int, int], seed: int
) -> None:
    n, c, pixels = size
    x = np.random.default_rng(seed).uniform(-limit, limit, size).astype(np.float32)
    put(firmware, SRC0, x, aligned(pixels))
    args = {"dst": DST, "src": SRC0, "work": WORK, "shape": [n, c, 1, pixels]}
    assert firmware.okk(f"okk_bdc_{name}", args).status == 0
    got = get(firmware, DST, size, aligned(pixels)).view(np.float32)
    # e^x is e^n + e^n * (e^f - 1): where the product has no normal number, that of a small f is lost.
    least = float(np.finfo(np.float32).tiny)
    np.testing.assert_allclose(
        got, reference(x.astype(np.float64)), rtol=1e-5, atol=1e-6 if name == "tanh" else least
    )


def test_a_single_pixel_takes_no_mask(firmware: fh.Harness) -> None:
    """The first byte of a word is masked as it is taken; what comes of the others is masked at the end."""
    args = {"dst": 0, "src": 0x4000, "work": 0x8000, "shape": [1, 3, 1, 1], "signed": False, "aligned": True}
    assert firmware.okk("okk_bdc_int8_to_fp32", args).status == 0
    assert [BD.decode(d)["tsk_eu_typ"] for d in firmware.bd] == [19, 7, 8, 3, 0]
    assert firmware.okk("okk_bdc_int8_to_fp32", {**args, "shape": [1, 3, 1, 2]}).status == 0
    assert [BD.decode(d)["tsk_eu_typ"] for d in firmware.bd] == [19, 7, 6, 7, 8, 3, 0]
