"""The GDMA's shift over channels."""

from __future__ import annotations

import numpy as np
import pytest

from firmware_sim.errors import DeviceError
from firmware_sim.isa.codes import Direction, Special
from firmware_sim.isa.layout import GDMA
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.isa_cases import LANE, LOCAL, NO_COMMANDS, Fields

CHANNELS, WORDS = 66, 3
SRC, DST = 0x1000, 0x2000
ROW = 32  # words of a channel in the aligned layout


@pytest.fixture
def chip() -> Tpu:
    tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
    words = tpu.memory.local.view(np.uint32)
    words[:, : 0x4000 // 4] = 99
    for c in range(CHANNELS):
        at = SRC // 4 + c // 64 * ROW
        words[c % 64, at : at + WORDS] = 1000 + c
    return tpu


def shift(chip: Tpu, lane: int, num: int, to: int, **more: int) -> None:
    fields: Fields = {"special_func": Special.LRN_SHIFT, "direction": Direction.L2L, "cmd_id": 1}
    for side in ("src", "dst"):
        sizes = zip("nchw", (1, CHANNELS, 1, WORDS), strict=True)
        fields.update((f"{side}_{a}size", size) for a, size in sizes)
    fields.update(src_start_addr_l32=LOCAL + SRC, dst_start_addr_l32=LOCAL + lane * LANE + DST)
    fields.update(lrn_shift_num=num, lrn_shift_dir=to)
    fields.update(more)
    words = np.frombuffer(GDMA.encode(**{**GDMA.defaults, **fields}), np.uint32).reshape(1, 32)
    chip.execute(NO_COMMANDS, words)


def channel(chip: Tpu, c: int) -> list[int]:
    """Channel c of a tensor that starts on lane 0 at DST; negative ones lie a row below."""
    at = DST // 4 + c // 64 * ROW
    found: list[int] = chip.memory.local.view(np.uint32)[c % 64, at : at + WORDS].tolist()
    return found


def test_to_the_right_zeros_come_before(chip: Tpu) -> None:
    shift(chip, 1, 2, 1)
    got = [channel(chip, c)[0] for c in (-2, -1, 0, 1, 2, 65, 66, 67)]
    assert got == [99, 0, 0, 1000, 1001, 1064, 1065, 99]


def test_to_the_left_zeros_come_after(chip: Tpu) -> None:
    shift(chip, 0, 3, 0)
    got = [channel(chip, c) for c in (-1, 0, 65, 66, 68, 69)]
    assert got == [[v] * WORDS for v in (99, 1000, 1065, 0, 0, 99)]


def test_accumulating_adds_to_what_is_there_and_leaves_the_other_channels(chip: Tpu) -> None:
    values = chip.memory.local.view(np.float32)
    values[:, SRC // 4 : DST // 4 + 3 * ROW] = 0.5
    for c in range(CHANNELS):
        values[c % 64, SRC // 4 + c // 64 * ROW] = c
    shift(chip, 1, 2, 1, acc_write_enable=1)
    first = [values[c % 64, DST // 4 + c // 64 * ROW] for c in (0, 1, 2, 65, 66, 67)]
    assert first == [0.5, 0.5, 1.5, 64.5, 65.5, 0.5]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dst_start_addr_l32": LOCAL + LANE + SRC}, "src and dst overlap"),
        ({"dst_start_addr_l32": LOCAL, "lrn_shift_dir": 1}, "2 channels before its first one reach out"),
        ({"dst_data_format": 4}, "src has format FP32, dst FP16"),
        (
            {"acc_write_enable": 1, "src_data_format": 1, "dst_data_format": 1},
            "acc_write_enable with INT16: unverified",
        ),
        ({"common_mode": 1}, "a shift over channels with common_mode: unverified"),
        ({"sys_mem_type": 1}, "a shift over channels with sys_mem_type: unverified"),
        ({"src_start_addr_h8": 1, "src_start_addr_l32": 0}, "in DDR, but a copy L2L needs local memory"),
        ({"direction": Direction.S2L}, "unknown GDMA instruction: special_func 2, direction 0"),
    ],
)
def test_what_it_cannot_do_is_refused(fields: Fields, message: str, chip: Tpu) -> None:
    before = chip.memory.local[:, :0x4000].copy()
    with pytest.raises(DeviceError, match=message):
        shift(chip, 0, 2, 0, **fields)
    assert np.array_equal(chip.memory.local[:, :0x4000], before)
