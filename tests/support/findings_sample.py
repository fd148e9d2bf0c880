"""Findings made by hand, with everything that one can hold."""

from __future__ import annotations

from firmware_sim.checks.finding import Finding, Frame, Issued

LOAD = Frame("/w/device/pipe line.c", 15, "load_row")
ADD = Frame("/w/device/pipe line.c", 20, "add_row")
KERNEL = Frame("/w/device/pipe line.c", 31, "pipeline")
HELPER = Frame("/elsewhere/include/helper.h", 7)

RACE = Finding(
    "hazard.raw",
    "okk_bdc_add reads what GDMA 7 may not have written yet",
    by=Issued("BD", 12, "okk_bdc_add", (ADD, KERNEL)),
    operand="A",
    address="lane 0 +0x1000",
    lanes=tuple(range(32)),
    nbytes=4096,
    other=Issued("GDMA", 7, "okk_gdma_32bit_cpy_S2L", (LOAD, KERNEL)),
    proof="with GDMA first, output y differs first at [0, 3]: 2.0 instead of 1.0",
    count=64,
)
UNWRITTEN = Finding(
    "init.unwritten",
    "okk_bdc_conv2d reads local memory that nothing wrote",
    by=Issued("BD", 3, "okk_bdc_conv2d", (HELPER,), layer="TPU_SCALE", node="conv1", tile="2 of 4", group=1),
    operand="weight",
    tensor="the buffer",
    address="lane 3 +0x40",
    lanes=(3, 8, 9, 10, 63),
    nbytes=4,
    more={"result": "reaches lane 3 of y"},
)
OF_A_NET = Finding(
    "memory.read_only",
    "writes into the input x",
    by=Issued("GDMA", 9, "cpy_L2S", layer="TPU_CROP", node="cut"),
    tensor="x",
    address="ddr +0x200",
    nbytes=64,
)
BARE = Finding("memory.not_written", "y is written in part: 12 of 16 elements", tensor="y", nbytes=16)
ADVICE = Finding(
    "sync.superfluous", "waits for BD 2, which is done", by=Issued("GDMA", 4, "cpy_S2L", (LOAD,))
)
EACH = [RACE, UNWRITTEN, OF_A_NET, BARE, ADVICE]
