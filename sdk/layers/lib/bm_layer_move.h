/* Moving elements between tensors in DDR: what the layers that only rearrange data share. Elements are of
 * any type; bytes is the size of one: 4, 2 or 1. */
#ifndef BM_LAYER_MOVE_H
#define BM_LAYER_MOVE_H

#include <stdbool.h>

#include "bmcompiler_tpulayer_device.h"

#define BM_MOVE_DIMS 20 /* 8 dimensions, each taken apart into two, and some to spare */

/* A box of elements with the strides of its dimensions, in elements, in both tensors. The order of the
 * dimensions has no meaning. from may be 0 (one element many times) or negative (backwards); to is
 * positive and no element is written twice. One dimension may be read in another order: its element i is
 * the source's element order[i], which from counts. */
typedef struct {
    int dims;
    int extent[BM_MOVE_DIMS];
    long long to[BM_MOVE_DIMS], from[BM_MOVE_DIMS];
    int ordered; /* 1 + that dimension; 0: none */
    const int *order;
} bm_move;

/* One more dimension of the box; as the one with index `at`; without dimension d. */
void bm_move_add(bm_move *m, int extent, long long to, long long from);
void bm_move_insert(bm_move *m, int at, int extent, long long to, long long from);
void bm_move_remove(bm_move *m, int d);

/* The same box with as few dimensions as possible, the one with the smallest steps in the destination last. */
bm_move bm_move_folded(const bm_move *m);

/* Copies the box whose first element is at src to where its first element is to be, dst. The two do not
 * overlap. Large boxes are cut into as many commands as they need. 32-bit
 * elements may go through local memory. */
void bm_move_run(u64 dst, u64 src, const bm_move *box, int bytes);

/* The last `count` elements of dimension `dim`. */
typedef struct {
    int dim, count;
} bm_move_rest;

/* The same for 32-bit elements through local memory, which it may use as it likes, but for the rest, which is left
 * to the caller. m's last dimension has the smallest step in the destination. False, and nothing is done, where
 * copies within DDR are as fast. */
bool bm_move_through_local(u64 dst, u64 src, const bm_move *m, bm_move_rest *rest);

/* Writes value's low bytes to every element of the box; from is not looked at. */
void bm_move_fill(u64 dst, unsigned int value, const bm_move *m, int bytes);

/* count elements one after the other. */
void bm_move_straight(u64 dst, u64 src, int count, int bytes);

/* Matrices [count, rows, columns] of 32-bit elements to [count, columns, rows]. */
void bm_move_turned(u64 dst, u64 src, int count, int rows, int columns);

/* What a layer does that only gives its input another shape: nothing where the output shares its memory, otherwise
 * a copy. */
void bm_move_whole(const tpu_tensor_t *out, const tpu_tensor_t *in);

/* ---- axes that are read by a list of indices ---- */

/* Element i of the list; list is what the caller gave along. */
typedef int (*bm_index_at)(const void *list, int i);

/* That of an array of int. */
int bm_order_at(const void *list, int i);

/* The next part of a list that needs one command: element k of repetition n is
 * at(i) + k * step + n * again, for k under length and n under repeats. */
typedef struct {
    int length, step, repeats, again;
} bm_runs;

/* The runs that begin at element i of a list of count; backwards: steps may be negative. */
bm_runs bm_runs_of(bm_index_at at, const void *list, int i, int count, bool backwards);

#define BM_ORDER_MOST 64 /* indices of a list that may be put into their order in local memory */

/* Copies the planes at(0), at(1), .., at(count - 1) of an axis of the source to the planes 0, 1, .. of the
 * same axis of the destination. m: the other dimensions of a plane; to and from: strides of the axis. Runs
 * with one step, and runs that repeat with one step, are one copy each. */
void bm_move_indexed(u64 dst, u64 src, const bm_move *m, int bytes, long long to, long long from, bm_index_at at,
                     const void *list, int count);

/* ---- tensors ---- */

int bm_element_bytes(int dtype); /* of one element, by DATA_TYPE_T */

/* Elements from one index of dimension d of the tensor to the next. */
long long bm_stride_of(const tpu_tensor_t *t, int d);

/* Format and number of dimensions of an output that has those of the input; its shape is left to the caller. */
void bm_output_like(tpu_tensor_t *out, const tpu_tensor_t *in, int dims);

#endif
