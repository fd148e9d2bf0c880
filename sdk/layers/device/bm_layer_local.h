/* Sizes and addresses in local memory. */
#ifndef BM_LAYER_LOCAL_H
#define BM_LAYER_LOCAL_H

#include "okk.h"

#define LOCAL_LANES 64           /* NPUs of the chip */
#define LOCAL_BYTES (512 * 1024) /* of local memory per NPU */
#define LOCAL_ALIGN 128          /* bytes */
#define LOCAL_CHANNELS 4032      /* most channels of one instruction, in whole rounds of lanes */

static inline int divide_up(int a, int b) { return a / b + (a % b != 0); }
static inline int smaller(int a, int b) { return a < b ? a : b; }
static inline int larger(int a, int b) { return a > b ? a : b; }

/* Channels on each NPU of a tensor that begins on NPU 0. */
static inline int local_slots(int channels) { return divide_up(channels, LOCAL_LANES); }

static inline long long local_align(long long bytes) { return (bytes + LOCAL_ALIGN - 1) / LOCAL_ALIGN * LOCAL_ALIGN; }

/* Bytes per NPU of an aligned fp32 tensor that begins on NPU 0. */
static inline long long local_bytes(int n, int c, long long h, long long w) {
    return (long long)n * local_slots(c) * local_align(4 * h * w);
}

/* Address of channel `channel` of a tensor that begins on NPU 0 at `start`; slot_bytes: from one channel of an
 * NPU to its next. */
static inline local_addr_t local_channel(local_addr_t start, int channel, int slot_bytes) {
    return start + (local_addr_t)(channel % LOCAL_LANES) * LOCAL_BYTES +
           (local_addr_t)(channel / LOCAL_LANES) * (local_addr_t)slot_bytes;
}

#endif
