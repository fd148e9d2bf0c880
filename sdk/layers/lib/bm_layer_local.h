/* Sizes and addresses in local memory. */
#ifndef BM_LAYER_LOCAL_H
#define BM_LAYER_LOCAL_H

#include "bm1684_chip.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

static inline int divide_up(int a, int b) { return a / b + (a % b != 0); }
static inline int smaller(int a, int b) { return a < b ? a : b; }
static inline int larger(int a, int b) { return a > b ? a : b; }

/* Channels on each NPU of a tensor that begins on NPU 0. */
static inline int local_slots(int channels) { return divide_up(channels, CHIP_NPU_NUM); }

/* Bytes in whole lines. */
static inline long long local_align(long long bytes) {
    return (bytes + CHIP_ALIGN_BYTES - 1) / CHIP_ALIGN_BYTES * CHIP_ALIGN_BYTES;
}

/* 32-bit words in whole lines. */
static inline int local_line(int words) { return divide_up(words, CHIP_ALIGN_WORDS) * CHIP_ALIGN_WORDS; }

/* Bytes per NPU of an aligned fp32 tensor that begins on NPU 0. */
static inline long long local_bytes(int n, int c, long long h, long long w) {
    return (long long)n * local_slots(c) * local_align(4 * h * w);
}

/* Address of channel `channel` of a tensor that begins on NPU 0 at `start`; slot_bytes: from one channel of an
 * NPU to its next. */
static inline local_addr_t local_channel(local_addr_t start, int channel, int slot_bytes) {
    return start + (local_addr_t)(channel % CHIP_NPU_NUM) * CHIP_LOCAL_BYTES +
           (local_addr_t)(channel / CHIP_NPU_NUM) * (local_addr_t)slot_bytes;
}

/* The extents of a tile, 1 behind its last dimension. */
static inline dim4 local_extents(const tpu_tensor_t *t) {
    int e[4] = {1, 1, 1, 1};
    for (int d = 0; d < (int)t->dims; d++) e[d] = t->slice_shape[d];
    return (dim4){e[0], e[1], e[2], e[3]};
}

#endif
