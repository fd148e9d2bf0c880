"""Random instructions against the element-by-element model, and against their stated footprints."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.instructions.dma_move import ALL_LANES
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.codes import Direction, Eu, Format, Special, Task
from firmware_sim.isa.footprint import Space
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support import isa_cases as cases
from tests.support import isa_cases_fixed as cases_fixed
from tests.support import isa_cases_nn as cases_nn
from tests.support import reference_chip as ref
from tests.support.examples import examples

U8 = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def chip() -> Tpu:
    return Tpu(Memory.create(ddr_bytes=1 << 20))


def word(local: U8, byte: int) -> int:
    lane, within = divmod(byte, ref.LANE_BYTES)
    return int.from_bytes(local[lane, within : within + 4].tobytes(), "little")


def put(local: U8, byte: int, bits: int, size: int = 4) -> None:
    lane, within = divmod(byte, ref.LANE_BYTES)
    local[lane, within : within + size] = np.frombuffer(bits.to_bytes(size, "little"), np.uint8)


def compare(got: U8, want: U8) -> None:
    a, b = got.reshape(-1).view(np.uint32), want.reshape(-1).view(np.uint32)
    differ = np.nonzero((a != b) & ~(np.isnan(a.view(np.float32)) & np.isnan(b.view(np.float32))))[0]
    if len(differ):
        i = int(differ[0])
        lane, byte = divmod(i * 4, got.shape[-1])
        pytest.fail(
            f"{len(differ)} words differ, the first in lane {lane} +0x{byte:x}: {a[i]:#x} != {b[i]:#x}"
        )


# --- tensor arithmetic ---------------------------------------------------------------------------

_AR: dict[int, Callable[..., int]] = {
    Eu.MUL: ref.mul,
    Eu.ADD: ref.add,
    Eu.SUB: ref.sub,
    Eu.MAX: ref.maximum,
    Eu.MIN: ref.minimum,
    Eu.AND: lambda a, b: a & b,
    Eu.OR: lambda a, b: a | b,
    Eu.XOR: lambda a, b: a ^ b,
    Eu.DIV: ref.div,
    Eu.COPY: lambda a, b: a,
}


def _arithmetic(fields: cases.Fields, local: U8) -> None:
    """Reads everything, then writes in n, c, h, w order."""
    f = {**BD.defaults, **{x.name: 0 for x in BD.fields if x.name not in BD.defaults}, **fields}
    shape = (f["res0_n"], f["res0_c"], f["res0_h"], f["res0_w"])

    def place(name: str, at: ref.Dims) -> int:
        start = f[f"{name}_addr"] - cases.LOCAL
        n, c, h, w = (f[f"{name}_{a}_str"] for a in "nchw")
        if f[f"short_{name}_str"]:
            strides = (n, c, h, w)
        elif name == "opd1":  # broadcast where the field is 0
            sizes = tuple(1 if s == 0 else size for s, size in zip((n, 1, h, w), shape, strict=True))
            steps = ref.aligned(start, (sizes[0], sizes[1], sizes[2], sizes[3]), 4)
            strides = (steps[0] * (n != 0), steps[1], steps[2] * (h != 0), steps[3] * (w != 0))
        else:
            strides = ref.aligned(start, shape, 4)
        return ref.local_byte(start, at, strides, 4, (f[f"{name}_h_shift"], f[f"{name}_w_shift"]))

    def load(name: str, at: ref.Dims) -> int:
        return f[f"{name}_addr"] if f[f"opt_{name}_const"] else word(local, place(name, at))

    results = []
    for at in ref.elements(shape):
        target = place("res0", at)
        a, b = load("opd0", at), 0 if f["tsk_eu_typ"] == Eu.COPY else load("opd1", at)
        match f["tsk_eu_typ"]:
            case Eu.MAC:
                r = ref.add(word(local, target), ref.mul(a, b))
            case Eu.SHIFT:
                r = ref.shift(a, b, arithmetic=bool(f["opt_shift_typ"]))
            case Eu.SELECT_GT:
                r = ref.select_greater(a, b, f["opd2_addr"])
            case Eu.SELECT_EQ:
                r = ref.select_equal(a, b, f["opd2_addr"])
            case eu:
                r = _AR[eu](a, b)
        results.append((target, r))
    for target, r in results:
        put(local, target, r)


@given(case=cases.arithmetic())
@examples(60)
def test_arithmetic_equals_the_model(case: cases.Case, chip: Tpu) -> None:
    cases.fill(chip.memory, 1)
    want = chip.memory.local[:, : cases.WINDOW].copy()
    _arithmetic(case[1], want)
    cases.execute(chip, case)
    compare(chip.memory.local[:, : cases.WINDOW], want)


# --- md_scalar, md_linear, md_cmp ----------------------------------------------------------------


def _square(x: int) -> int:
    return ref.mul(x, x)


def _md(fields: cases.Fields, local: U8) -> None:
    f = {x.name: 0 for x in BD.fields} | fields
    shape = (f["res0_n"], f["res0_c"], f["res0_h"], f["res0_w"])

    def place(name: str, at: ref.Dims, per_channel: bool = False) -> int:
        start = f[f"{name}_addr"] - cases.LOCAL
        strides = (0, 1, 0, 0) if per_channel else ref.aligned(start, shape, 4)
        return ref.local_byte(start, at, strides, 4)

    def load(name: str, at: ref.Dims, per_channel: bool = False) -> int:
        return f[f"{name}_addr"] if f[f"opt_{name}_const"] else word(local, place(name, at, per_channel))

    results: list[tuple[int, int]] = []
    task, eu = f["tsk_typ"], f["tsk_eu_typ"]
    for at in ref.elements(shape):
        a, target = load("opd0", at), place("res0", at)
        b = load("opd1", at, per_channel=task == Task.MD_LINEAR)
        old = word(local, target)
        if task == Task.MD_CMP:
            if eu == Eu.CMP:
                results.append((target, ref.maximum(a, b)))
                continue
            if eu == Eu.CMP_SELECT:
                results.append((target, a if ref.greater(a, b) else b))
            chosen = load("opd2" if ref.greater(a, b) else "opd3", at)
            results.append((place("res1", at), chosen))
            continue
        if task == Task.MD_SCALAR:
            r = {Eu.MUL: ref.mul, Eu.ADD: ref.add, Eu.SUB: ref.sub, Eu.DIV: ref.div}[Eu(eu)](a, b)
        elif eu == Eu.MAC:
            r = ref.add(ref.mul(a, load("opd2", at, per_channel=True)), b)
        else:
            r = _square(ref.add(a, b) if eu == Eu.SQUARE_SUM else ref.sub(a, b))
        if f["opt_res_add"] and eu not in (Eu.SQUARE_SUM, Eu.SQUARE_DIFF):
            r = ref.add(r, old)
        results.append((target, r))
    for target, r in results:
        put(local, target, r)


@given(case=cases.md())
@examples(60)
def test_md_units_equal_the_model(case: cases.Case, chip: Tpu) -> None:
    fields = case[1]
    if fields["tsk_typ"] == Task.MD_CMP and fields["res0_addr"] == fields["res1_addr"]:
        fields["res1_addr"] = fields["res0_addr"] + 0x2400
    cases.fill(chip.memory, 2)
    want = chip.memory.local[:, : cases.WINDOW].copy()
    _md(fields, want)
    cases.execute(chip, case)
    compare(chip.memory.local[:, : cases.WINDOW], want)


# --- DMA -----------------------------------------------------------------------------------------


def _to_float(bits: int, kind: Format) -> int:
    if kind is Format.FP32:
        return bits
    if kind is Format.FP16:  # only the exponent is rebased
        return (bits & 0x8000) << 16 | ((bits & 0x7FFF) << 13) + (112 << 23)
    number = bits - 256 if kind is Format.INT8 and bits > 127 else bits
    return int(struct.unpack("<I", struct.pack("<f", number))[0])


def _from_float(bits: int, kind: Format) -> int:
    if kind is Format.FP32:
        return bits
    negative = bool(bits & ref.SIGN)
    if kind is Format.FP16:
        sign = 0x8000 if negative else 0
        if ref.is_nan(bits) or ref.is_inf(bits) or abs(ref.value(bits)) >= 2**16:
            return sign | 0x7C00
        size = abs(ref.value(bits))
        if size < Fraction(1, 2**14):
            return sign
        exponent = next(e for e in range(-14, 16) if size < Fraction(2) ** (e + 1))
        mantissa = int(size / Fraction(2) ** (exponent - 10))  # towards zero
        return sign | (exponent + 15) << 10 | mantissa - 1024
    low, high = (-128, 127) if kind is Format.INT8 else (0, 255)
    if ref.is_nan(bits) or ref.is_inf(bits):
        return (low if negative else high) & 0xFF
    return max(low, min(high, round(ref.value(bits)))) & 0xFF


def _dma(fields: cases.Fields, local: U8, ddr: U8) -> None:
    f = {x.name: 0 for x in GDMA.fields} | GDMA.defaults | fields
    formats = Format(f["src_data_format"]), Format(f["dst_data_format"])
    direction = Direction(f["direction"])
    local_side = {
        "src": direction in (Direction.L2S, Direction.L2L),
        "dst": direction in (Direction.S2L, Direction.L2L),
    }
    mask = f["localmem_mask_h32"] << 32 | f["localmem_mask_l32"]

    def shape(side: str) -> ref.Dims:
        if side == "dst" and f["special_func"] == Special.TRANSPOSE_NC:
            return f["src_csize"], f["src_nsize"], f["dst_hsize"], f["dst_wsize"]
        return f[f"{side}_nsize"], f[f"{side}_csize"], f[f"{side}_hsize"], f[f"{side}_wsize"]

    def place(side: str, at: ref.Dims, size: int) -> int:
        start = f[f"{side}_start_addr_h8"] << 32 | f[f"{side}_start_addr_l32"]
        start -= cases.LOCAL if local_side[side] else cases.DDR
        _, c, h, w = sizes = shape(side)
        strides = f[f"{side}_nstride"], f[f"{side}_cstride"], f[f"{side}_hstride"], f[f"{side}_wstride"]
        if not f["stride_enable"]:
            strides = ref.aligned(start, sizes, size) if local_side[side] else (c * h * w, h * w, w, 1)
        return (ref.local_byte if local_side[side] else ref.system_byte)(start, at, strides, size)

    def load(side: str, byte: int, size: int) -> int:
        lane, within = divmod(byte, ref.LANE_BYTES)
        source = local[lane, within : within + size] if local_side[side] else ddr[byte : byte + size]
        return int.from_bytes(source.tobytes(), "little")

    src_size, dst_size = formats[0].itemsize, formats[1].itemsize
    targets = list(ref.elements(shape("dst")))
    if f["special_func"] == Special.CONSTANT:
        values = [f["constant_value"] & (1 << 8 * dst_size) - 1] * len(targets)
    else:
        order = list(ref.elements(shape("src")))
        if f["special_func"] == Special.TRANSPOSE_NC:
            order = [(n, c, h, w) for c, n, h, w in targets]
        values = [load("src", place("src", at, src_size), src_size) for at in order]
        if f["special_func"] == Special.FORMAT:
            values = [_from_float(_to_float(v, formats[0]), formats[1]) for v in values]
    results = []
    for at, v in zip(targets, values, strict=True):
        byte = place("dst", at, dst_size)
        if local_side["dst"] and not mask >> byte // ref.LANE_BYTES & 1:
            continue
        results.append((byte, ref.add(load("dst", byte, dst_size), v) if f["acc_write_enable"] else v))
    for byte, v in results:
        if local_side["dst"]:
            put(local, byte, v, dst_size)
        else:
            ddr[byte : byte + dst_size] = np.frombuffer(v.to_bytes(dst_size, "little"), np.uint8)


@given(case=cases.dma())
@examples(120)
def test_dma_equals_the_model(case: cases.Case, chip: Tpu) -> None:
    cases.fill(chip.memory, 3)
    want_local, want_ddr = (window.copy() for window in cases.windows(chip.memory))
    _dma(case[1], want_local, want_ddr)
    cases.execute(chip, case)
    local, ddr = cases.windows(chip.memory)
    if case[1].get("acc_write_enable"):  # sums: NaN payloads may differ
        compare(local, want_local)
        compare(ddr, want_ddr)
    else:
        assert np.array_equal(local, want_local)
        assert np.array_equal(ddr, want_ddr)


# --- footprints ----------------------------------------------------------------------------------


@given(
    case=st.one_of(
        cases.arithmetic(),
        cases.md(),
        cases.dma(),
        cases.lrn_shift(),
        cases.dma_winograd(),
        cases_nn.convolution(),
        cases_nn.depthwise(),
        cases_nn.product(),
        cases_nn.correlation(),
        cases_nn.channel_sum(),
        cases_fixed.fixed(),
        cases_fixed.special(),
        cases_fixed.vector(),
    )
)
@examples(100)
def test_footprints_hold(case: cases.Case, chip: Tpu) -> None:
    """Bytes outside `writes` never change; bytes outside `reads` never change what is written."""
    engine = case[0]
    row = (BD if engine is Engine.BD else GDMA).columns(cases.words_of(case)).row(0)
    footprint = lookup(engine, row).footprint(row)
    spaces = (Space.LOCAL, Space.DDR)
    reads = [cases.covered(footprint.reads, space) for space in spaces]
    writes = [cases.covered(footprint.writes, space) for space in spaces]

    before = cases.noise(4)
    cases.fill(chip.memory, 4)
    cases.execute(chip, case)
    after = [window.copy() for window in cases.windows(chip.memory)]
    for old, new, written in zip(before, after, writes, strict=True):
        assert np.array_equal(old[~written], new[~written])

    other = [np.where(r, a, b) for r, a, b in zip(reads, before, cases.noise(5), strict=True)]
    for window, data in zip(cases.windows(chip.memory), other, strict=True):
        window[...] = data
    cases.execute(chip, case)
    for i, window in enumerate(cases.windows(chip.memory)):
        # an upper bound may hold bytes that stay as they were (lanes masked off, shifted indices)
        untouched = (after[i] == before[i]) & (window == other[i])
        assert np.all((window == after[i]) | untouched | ~writes[i])


def test_footprints_are_exact_for_plain_operands(chip: Tpu) -> None:
    """Every byte that a masked-off-nothing copy states as written is written, and no other."""
    fields = {
        "stride_enable": 1,
        "direction": 0,
        "special_func": 0,
        "src_start_addr_h8": 1,
        "dst_start_addr_l32": cases.LOCAL + 62 * cases.LANE + 0x40,
    }
    for side, sizes, strides in (("src", (2, 5, 2, 3), (30, 6, 3, 1)), ("dst", (2, 5, 2, 3), (40, 13, 4, 1))):
        fields.update((f"{side}_{a}size", s) for a, s in zip("nchw", sizes, strict=True))
        fields.update((f"{side}_{a}stride", s) for a, s in zip("nchw", strides, strict=True))
    case: cases.Case = (Engine.GDMA, fields)
    row = GDMA.columns(cases.words_of(case)).row(0)
    writes = cases.covered(lookup(Engine.GDMA, row).footprint(row).writes, Space.LOCAL)
    chip.memory.local[...] = 0
    chip.memory.ddr[: cases.DDR_WINDOW] = 0xFF
    cases.execute(chip, case)
    assert writes.sum() == 2 * 5 * 2 * 3 * 4
    assert np.array_equal(chip.memory.local[:, : cases.WINDOW] == 0xFF, writes)
    assert ALL_LANES == 2**64 - 1
