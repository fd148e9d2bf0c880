"""The BM1684's numbers, and nowhere else.

Source: the vendor's open memory map (libsophon memmap.h), the kernel API guide, and the vendor's
functional model; see docs/architecture.md, "The chip".
"""

from __future__ import annotations

NPU_NUM = 64
LOCAL_BYTES = 512 * 1024  # per NPU
LOCAL_BANKS = 8
BANK_BYTES = LOCAL_BYTES // LOCAL_BANKS
EU_NUM = 32  # fp32 execution units per NPU
ALIGN_BYTES = 128  # a line of local memory: 32 fp32
WINDOW_SIDE_MAX = 2047  # rows or columns of what a convolution or pool reads, pads included
MATRIX_WIDTH_MAX = 128  # columns of a matrix in one channel

ITCM_BASE = 0x0000_0000
ITCM_BYTES = 512 * 1024
DTCM_BASE = 0x0200_0000
DTCM_BYTES = 512 * 1024
DTCM_USER_OFFSET = 0x2_0000  # what okk_dtcm_start_addr hands to kernels
DTCM_USER_BYTES = 0x5_F400
LOCAL_BASE = 0x0800_0000
L2_BASE = 0x1000_0000
L2_BYTES = 4 * 1024 * 1024
L2_TABLE_OFFSET = 0x30_0000
L2_USER_OFFSET = 0xA_2000
L2_USER_BYTES = L2_TABLE_OFFSET - L2_USER_OFFSET
L2_LOOKUP_START = 0x32_3C00  # what the vendor's firmware reports of the tables for users
L2_LOOKUP_BYTES = 0xD_C400
DDR_BASE = 0x1_0000_0000
DDR_BYTES = 12 << 30
DDR_WINDOW_BYTES = 2 << 30  # what the controller's pointers reach, from DDR's start
STATIC_CONTEXT_OFFSET = 0x510_0000  # DDR offset where static bmodels put their context
STATIC_CONTEXT_START = DDR_BASE + STATIC_CONTEXT_OFFSET

DESCRIPTOR_BYTES = 128
ID_MAX = 0xFFFF  # command ids are 16 bits and start at 1
CLOCK_HZ = 550_000_000

MAX_TENSORS = 16  # inputs, and outputs, of one layer or net (FW_MAX_TENSORS)
MAX_SHAPE_DIMS = 8
