/* Made by `python -m user_layers.codegen.regenerate` from firmware_sim/chip.py and the field tables. Do not edit. */
#ifndef BM1684_CHIP_H
#define BM1684_CHIP_H

#define CHIP_NPU_NUM 64 /* lanes */
#define CHIP_EU_NUM 32 /* fp32 execution units of a lane */
#define CHIP_LOCAL_BYTES 524288 /* local memory of a lane */
#define CHIP_LOCAL_WORDS 131072 /* the same in 32-bit words */
#define CHIP_LOCAL_BANKS 8
#define CHIP_BANK_BYTES 65536
#define CHIP_BANK_WORDS 16384
#define CHIP_ALIGN_BYTES 128 /* a line of local memory */
#define CHIP_ALIGN_WORDS 32
#define CHIP_EXTENT_MAX 65535 /* extent of a dimension in an instruction or a DMA command */
#define CHIP_CHANNELS_MAX 4095 /* channels in an instruction of the tensor unit */
#define CHIP_WINDOW_SIDE_MAX 2047 /* rows or columns of what a window reads, pads included */
#define CHIP_WINDOW_STEP_MAX 15 /* pad, stride and dilation of a window */
#define CHIP_MATRIX_WIDTH_MAX 128 /* columns of a matrix in one channel */
#define CHIP_ID_MAX 65535 /* id of a command; ids start at 1 */
#define CHIP_DESCRIPTOR_BYTES 128
#define CHIP_LOCAL_BASE 0x8000000
#define CHIP_L2_BASE 0x10000000
#define CHIP_L2_BYTES 4194304
#define CHIP_L2_TABLE_OFFSET 0x300000 /* tables of the instructions */
#define CHIP_L2_USER_OFFSET 0xA2000 /* what kernels may use */
#define CHIP_L2_USER_BYTES 2482176
#define CHIP_L2_LOOKUP_START 0x323C00 /* tables for users, as the vendor's firmware reports them */
#define CHIP_L2_LOOKUP_BYTES 902144
#define CHIP_DTCM_BASE 0x2000000
#define CHIP_DTCM_USER_OFFSET 0x20000 /* what kernels may use */
#define CHIP_DTCM_USER_BYTES 390144
#define CHIP_DDR_BASE 0x100000000ull
#define CHIP_DDR_BYTES 12884901888ull
#define CHIP_CLOCK_HZ 550000000

/* The most channels of an instruction in whole rounds of the lanes. */
#define CHIP_CHANNELS_WHOLE (CHIP_CHANNELS_MAX / CHIP_NPU_NUM * CHIP_NPU_NUM)

#endif
