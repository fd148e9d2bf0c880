/* The local memory that attention between tiles needs beside them; for the kernel and its descriptor. */
#ifndef BM_LAYER_ATTEND_BYTES_H
#define BM_LAYER_ATTEND_BYTES_H

#include "bm1684_chip.h"

#define BM_ATTEND_WORDS 8192 /* of a lane, for scores of the queries that are computed at a time */

static inline int bm_attend_line(int words) { return (words + CHIP_ALIGN_WORDS - 1) / CHIP_ALIGN_WORDS * CHIP_ALIGN_WORDS; }

/* Slots of queries at a time. */
static inline int bm_attend_slots(int queries, int keys) {
    const int all = (queries + CHIP_NPU_NUM - 1) / CHIP_NPU_NUM, fit = BM_ATTEND_WORDS / bm_attend_line(keys);
    return fit < 1 ? 1 : fit < all ? fit : all;
}

/* Channels from the beginning of a slot to the end of a head of this size, at most; heads follow one another, so they
 * begin at multiples of what size has of the number of lanes. */
static inline int bm_attend_reach(int size) {
    const int step = size & -size;
    return step < CHIP_NPU_NUM ? CHIP_NPU_NUM - step + size : size;
}

#endif
