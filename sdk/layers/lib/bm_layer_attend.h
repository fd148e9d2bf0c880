/* One head of attention in local memory. */
#ifndef BM_LAYER_ATTEND_H
#define BM_LAYER_ATTEND_H

#include "bm_layer_local.h"

/* Queries, values and the result are rows of lanes, one slot of them after the other; keys are turned: their elements
 * are lanes. Slots are words from one of these to the next. scores, powers and work have a line of keys for each slot
 * of queries, product has a line of values. */
typedef struct {
    int rows, size, keys, value; /* size: an even number */
    int query_slot, key_slot, value_slot, result_slot, mask_slot;
    local_addr_t query, key, values, result, mask;
    bool masked, each; /* each: the mask has a number for each key, not one for all of a query */
    float scale;
    local_addr_t scores, powers, work, product;
    local_addr_t wide, bytes; /* in bytes: room for products of 16 bits, and for weights in bytes */
    int before;               /* elements of a query that are zeros, which bm_attend_begun put there */
    int nobody;               /* and how many of each fourth key, from the last one on, are no keys */
} bm_head;

/* result = softmax(scale * query * key + mask) * values. */
void bm_attend(const bm_head *h);

/* The same in bytes: four of a query's, and four keys, to a word; values count so many units. */
void bm_attend_in_bytes(const bm_head *h, float unit);

/* The same with a result in bytes: integers that stand for multiples of scale. slot: words from one of its slots to the
 * next; factors: with them the result is multiplied before, a row of them in each lane. */
typedef struct {
    float unit, scale;
    bool is_signed;
    int slot;
    bool evened;
    local_addr_t factors;
} bm_bytes_result;
void bm_attend_to_bytes(const bm_head *h, const bm_bytes_result *to);

/* For a head of keys that begins within a slot: its queries at `to`, with zeros before them for the lanes of the heads
 * before, whose keys are numbers. packed: elements to a word. */
void bm_attend_begun(bm_head *h, local_addr_t to, int before, int packed);

#endif
