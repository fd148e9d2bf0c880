"""Descriptors whose fields ask for what the chip does not do, or what no source settles: refused by name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.codes import Format, Special
from firmware_sim.isa.footprint import Space
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.golden_vectors import Execution, executions

_NONE = np.zeros((0, 32), np.uint32)
_CASES: dict[str, Execution] = {}
for _case in executions():
    _CASES.setdefault(_case.cls, _case)


@pytest.fixture
def chip() -> Iterator[Tpu]:
    yield Tpu(Memory.create(ddr_bytes=64 << 20))


def _run(chip: Tpu, cls: str, changes: dict[str, int]) -> None:
    """The first descriptor of a golden case with fields changed."""
    case = _CASES[cls]
    for region in case.before:
        chip.memory.flat(region.space)[region.offset : region.offset + len(region.data)] = region.data
    engine, data = case.descriptors[0]
    layout, own, other = (
        (BD, "cmd_id_tpu", "cmd_id_gdma") if engine is Engine.BD else (GDMA, "cmd_id", "eng0_sync_id")
    )
    words = np.frombuffer(layout.encode(**{**layout.decode(data), own: 1, other: 0, **changes}), np.uint32)
    streams = (words.reshape(1, 32), _NONE) if engine is Engine.BD else (_NONE, words.reshape(1, 32))
    chip.execute(*streams)


@pytest.mark.parametrize(
    ("cls", "changes", "message"),
    [
        ("gdma/okk_gdma_32bit_cpy_S2L", {"pio_gdma_enable": 0}, "pio_gdma_enable is 0"),
        ("gdma/bm_atomic_memset_4D", {"pio_gdma_enable": 0}, "pio_gdma_enable is 0"),
        ("gdma/cwtrans f0", {"pio_gdma_enable": 0}, "pio_gdma_enable is 0"),
        ("gdma/filter", {"pio_gdma_enable": 0}, "pio_gdma_enable is 0"),
        ("gdma/okk_gdma_32bit_cpy_L2L", {"special_func": 3}, "a conversion from FP32 to itself"),
        ("gdma/okk_gdma_32bit_matrix_S2L", {"src_wstride": 2}, "src_wstride 2: unverified"),
        ("gdma/okk_gdma_32bit_matrix_L2S", {"dst_wstride": 0}, "dst_wstride 0: unverified"),
        ("gdma/okk_gdma_32bit_matrix_L2S", {"dst_hstride": 1}, "lie 1 elements apart and overlap"),
        ("gdma/cwtrans f0", {"dst_wstride": 2}, "dst_wstride 2: unverified"),
        ("gdma/cwtrans f0", {"dst_cstride": 1}, "lie 1 elements apart"),
        ("okk/bdc_conv2d", {"res_op_x_str": 0}, "res_op_x_str: a stride of zero"),
        ("okk/bdc_conv2d", {"res_op_y_str": 0}, "res_op_y_str: a stride of zero"),
        ("bm/table_lookup", {"opt_opd0_prec": 4}, "opt_opd0_prec 4: unverified"),
        ("bm/conv_quantized", {"short_opd0_str": 1}, "short_opd0_str 1: unverified"),
        ("bm/winograd_quantized", {"short_opd0_str": 2}, "short_opd0_str 2: unverified"),
        ("okk/bdc_conv2d", {"short_opd0_str": 4}, "short_opd0_str 4: unverified"),
        ("bm/winograd_quantized", {"opt_opd1_const": 1}, "constant weights do not exist here"),
        ("bm/md_scalar/op2", {"tsk_lane_num": 0}, "tsk_lane_num switches off lane"),
        (
            "bm/ar_int/op2",
            {"opt_opd0_prec": 0, "res0_n": 5, "opd0_n_str": 524287},
            "its last batches begin at",
        ),
        ("okk/bdc_max", {"opd0_h_str": 0, "res0_h": 2}, "opd0_h_str is 0 with h > 1: unverified"),
        (
            "bm/ar_int/op2",
            {"short_opd1_str": 0, "opd1_w_str": 0, "opt_opd1_const": 0},
            "beside implied strides",
        ),
        ("bm/vc/op2", {"opt_res0_prec": 4}, "unknown BD instruction"),
        ("bm/vc/op8", {"opt_res0_prec": 2}, "unknown BD instruction"),
    ],
)
def test_refused(chip: Tpu, cls: str, changes: dict[str, int], message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        _run(chip, cls, changes)
    assert message in caught.value.message
    assert "command 1" in caught.value.message
    _run(Tpu(chip.memory), cls, {})


_OPERATIONS = {
    "mul": (0, {"888", "88w"}),
    "mac": (1, {"88w"}),
    "add": (2, {a + b + c for a in "8w" for b in "8w" for c in "8w"}),
    "sub": (3, {a + b + c for a in "8w" for b in "8w" for c in "8w"}),
    "max": (4, {"888", "www"}),
    "min": (5, {"888", "www"}),
    "shift": (6, {"www"}),
    "and": (7, {"888", "www"}),
    "or": (8, {"888", "www"}),
    "xor": (9, {"888", "www"}),
    "copy": (19, {"888", "8w8", "w8w", "www"}),
}


@pytest.mark.parametrize("name", _OPERATIONS)
def test_widths_of_packed_operations(chip: Tpu, name: str) -> None:
    """opd0, opd1 and res0, 8 or 16 (w) bits: those whose results the vendor's model settles."""
    eu, known = _OPERATIONS[name]
    plain = {"tsk_eu_typ": eu, "opt_opd0_sign": 1, "opt_opd1_sign": 1, "tsk_opd_num": 1 if eu == 19 else 2}
    plain |= {f"{name}_addr": 0x800_0000 + at for name, at in (("res0", 0), ("opd0", 4096), ("opd1", 8192))}
    plain |= {"opt_opd0_const": 0, "opt_opd1_const": 0}
    taken = set()
    for widths in (a + b + c for a in "8w" for b in "8w" for c in "8w"):
        fields = dict(zip(("opt_opd0_prec", "opt_opd1_prec", "opt_res0_prec"), widths, strict=True))
        try:
            _run(
                Tpu(chip.memory),
                "bm/ar_int/op2",
                {**plain, **{k: 0 if w == "8" else 3 for k, w in fields.items()}},
            )
        except DeviceError as error:
            assert "unverified, no source tells what it does with these widths" in error.message
        else:
            taken.add(widths)
    assert taken == known


@pytest.mark.parametrize(
    ("count", "arithmetic", "result"),
    [
        (-199, 1, 0),  # the low 8 bits are 57: to the left
        (27648, 0, 0xE448),  # the low 8 bits are 0
        (-12292, 0, 0x0E44),  # ... -4
        (200, 1, 0xFFFF),  # ... -56
        (-128, 1, 0xFFFF),
        (127, 0, 0),
        (-256 - 3, 1, 0xFC89),
    ],
)
def test_the_low_8_bits_of_a_packed_shifts_count_count(
    chip: Tpu, count: int, arithmetic: int, result: int
) -> None:
    local = chip.memory.flat(Space.LOCAL)
    local[4096:4100] = np.array([0xE448, 0], np.uint16).view(np.uint8)
    local[8192:8196] = np.array([count, 0], np.int16).view(np.uint8)
    fields = {**BD.defaults, "tsk_typ": 3, "tsk_eu_typ": 6, "cmd_id_tpu": 1, "opt_relu": 0}
    fields |= {"opt_shift_typ": arithmetic, "opt_opd0_sign": arithmetic, "opt_opd1_sign": 1}
    fields |= {f"opt_{name}_prec": 3 for name in ("res0", "opd0", "opd1")}
    fields |= {f"short_{name}_str": 3 for name in ("res0", "opd0", "opd1")}
    fields |= {"res0_addr": 0x800_0000, "opd0_addr": 0x800_1000, "opd1_addr": 0x800_2000}
    chip.execute(np.frombuffer(BD.encode(**fields), np.uint32).reshape(1, 32), _NONE)
    assert local[:2].view(np.uint16)[0] == result


_SPREAD = {f"{name}_{axis}_str": 0 for name in ("res0", "opd0", "opd1") for axis in "nchw"}
_ADD = {"tsk_typ": 3, "tsk_eu_typ": 2, "res0_n": 60000, "res0_c": 4000, "res0_h": 60000, "res0_w": 60000}
_ADD |= {"res0_addr": 0x800_0000, "opd0_addr": 0x800_1000, "opd1_addr": 0x800_2000}
_ADD |= {f"short_{name}_str": 3 for name in ("res0", "opd0", "opd1")}
_SIZES = {f"{side}_{axis}size": 60000 for side in ("src", "dst") for axis in "nchw"}


@pytest.mark.parametrize(
    "changes",
    [
        {"localmem_mask_l32": 1},
        {"acc_write_enable": 1},
        {"src_data_format": Format.FP32, "dst_data_format": Format.FP16, "special_func": Special.FORMAT},
    ],
)
def test_only_plain_copies_may_overlap(chip: Tpu, changes: dict[str, int]) -> None:
    cls = "gdma/okk_gdma_32bit_cpy_L2L"
    fields = GDMA.decode(_CASES[cls].descriptors[0][1])
    near = {"dst_start_addr_l32": fields["src_start_addr_l32"] + 4}
    near |= {f"dst_{axis}size": fields[f"src_{axis}size"] for axis in "nchw"}
    near |= {f"dst_{axis}stride": fields[f"src_{axis}stride"] for axis in "nchw"}
    _run(chip, cls, near)
    chip.restart()
    with pytest.raises(DeviceError, match="only a plain copy between overlapping places is settled"):
        _run(chip, cls, near | changes)


@pytest.mark.parametrize(
    ("engine", "fields"),
    [
        (Engine.BD, {**_ADD, **_SPREAD, "cmd_id_tpu": 1}),
        (Engine.BD, {**_ADD, **_SPREAD, "cmd_id_tpu": 1, "res0_w": 100, "res0_h": 100, "res0_n": 60}),
        (
            Engine.BD,
            {**_ADD, **_SPREAD, "cmd_id_tpu": 1}
            | {f"opt_{name}_prec": 0 for name in ("res0", "opd0", "opd1")},
        ),
        (Engine.GDMA, {**_SIZES, "cmd_id": 1, "stride_enable": 1, "src_start_addr_h8": 1}),
        (Engine.GDMA, {**_SIZES, "cmd_id": 1, "stride_enable": 1, "special_func": 4, "direction": 3}),
    ],
)
def test_results_without_end_are_refused(chip: Tpu, engine: Engine, fields: dict[str, int]) -> None:
    """Strides of 0 let a result of any size fit into memory."""
    layout = BD if engine is Engine.BD else GDMA
    if engine is Engine.GDMA:
        fields = {**fields, "dst_start_addr_l32": 0x800_0000}
    words = np.frombuffer(layout.encode(**{**layout.defaults, **fields}), np.uint32).reshape(1, 32)
    with pytest.raises(DeviceError, match="elements over one another; 33554432 at most"):
        chip.execute(*((words, _NONE) if engine is Engine.BD else (_NONE, words)))
