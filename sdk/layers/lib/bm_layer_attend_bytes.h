/* The local memory that attention between tiles needs beside them; for the kernels and their descriptors. */
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

/* Attention in bytes: slots of queries at a time, and words of a lane: scores (or a part of the product), powers, of
 * which there are two, the product, one of 16 bits, weights in bytes, queries of a head that begins within a slot. */
typedef struct {
    int slots, scores, powers, product, wide, bytes, all;
} bm_attend_room;

static inline bm_attend_room bm_attend_room_of(int queries, int keys, int size, int value) {
    const int slots = bm_attend_slots(queries, keys), widest = keys > value ? keys : value;
    const int begun = slots * bm_attend_line((CHIP_NPU_NUM + size) / 4);
    bm_attend_room r = {slots, slots * bm_attend_line(widest), slots * bm_attend_line(keys), slots * bm_attend_line(value),
                        slots * 2 * bm_attend_line((widest + 3) / 4), slots * bm_attend_line((keys + 3) / 4), 0};
    r.all = r.scores + 2 * r.powers + r.product + r.wide + r.bytes + begun;
    return r;
}

#endif
