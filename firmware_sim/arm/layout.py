"""Where things are for the controller: the Python side of sdk/arm/fw_arm.h (a test compares the two)."""

from __future__ import annotations

import numpy as np

WINDOW = 0x8000_0000  # DDR as the controller sees it
GDMA_REGS = 0x5800_0000
BD_REGS = 0x5800_1000
NEWEST = 0x5800_F000
ACTIVITY = 0x5800_F040
LINK = 0x5800_F400

CODE_BYTES = 0x100_0000
RING = WINDOW + 0x100_0000
LOG = WINDOW + 0x101_0000
MESSAGES = WINDOW + 0x110_0000
MESSAGES_BYTES = 0xF0_0000
BD_ARENA = WINDOW + 0x200_0000
GDMA_ARENA = WINDOW + 0x280_0000
ARGUMENTS = WINDOW + 0x500_0000
ARGUMENTS_BYTES = 0xF_F000
GUARD_BYTES = 0x1000
SITES = WINDOW + 0x300_0000
SCRATCH = WINDOW + 0x320_0000
SCRATCH_BYTES = 0x100_0000

RING_MAGIC = 0x474E5246
RING_SLOTS = 16
HEADER_TCM = 0x40
HEADER_BYTES = 64
CALL, RUN_GROUP = 6, 0x100  # reasons: FW_FLUSH_CALL, and the link's own

LINK_NONE, LINK_IDLE, LINK_RUN, LINK_LOG, LINK_FAULT = range(5)

_U32, _I32 = "<u4", "<i4"

ENGINE_DTYPE = np.dtype(
    [(name, _U32) for name in ("addr_l32", "addr_h8", "count", "start", "done_id", "status")]
)
LINK_DTYPE = np.dtype(
    [
        (name, _U32)
        for name in (
            "command",
            "reason",
            "filtered",
            "log_bytes",
            "fault",
            "fault_pc",
            "fault_status",
            "fault_address",
            "fault_lr",
            "fault_sp",
            "code_end",
            "own_start",
            "own_end",
            "aside",
        )
    ]
)
SLOT_DTYPE = np.dtype(
    [
        ("request", _U32),
        ("request_bytes", _U32),
        ("reply", _U32),
        ("reply_capacity", _U32),
        ("reply_bytes", _U32),
        ("reserved", _U32, (3,)),
    ]
)
RING_DTYPE = np.dtype(
    [
        ("magic", _U32),
        ("slots", _U32),
        ("head", _U32),
        ("tail", _U32),
        ("boot_status", _I32),
        ("reserved", _U32, (3,)),
        ("slot", SLOT_DTYPE, (RING_SLOTS,)),
    ]
)
