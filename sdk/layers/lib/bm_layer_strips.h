/* Pictures of one batch in all four slots of a word: slot k of 4N holds rows k * rows and on, a strip of them. What works
 * element by element, or on windows within a row, does to strips what it does to four pictures; a window of several rows
 * needs the neighbours' rows beside them (TPU_STRIPS_HALO). Rows behind the picture's last one hold anything.
 */
#ifndef BM_LAYER_STRIPS_H
#define BM_LAYER_STRIPS_H

#include "bm_layer_local.h"
#include "bm_layer_packed.h"
#include "bm_layer_words.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define BM_STRIPS_ROWS 8192 /* the most of a picture: a column of input and output fits four times into a lane */

/* Words [1, c, rows, w] in local memory, aligned: rows from `first` on of a tensor, whose others are not there. */
typedef struct {
    local_addr_t addr;
    dim4 shape;
    int first;
} bm_strips;

/* y of x, which has all of its rows; work: as much local memory as y takes. */
typedef void (*bm_strips_function)(const void *param, const bm_strips *y, const bm_strips *x, local_addr_t work);

static inline int bm_strips_within(int value, int most) { return value < 0 ? 0 : smaller(value, most); }

/* So many rows of y from `to` on are made of as many of x from `from` on; rows that are not in y are left out. x may
 * be y. */
void bm_strips_shift(const bm_strips *y, int to, const bm_strips *x, int from, int rows, int places);
void bm_strips_and(const bm_strips *y, int to, const bm_strips *x, int from, int rows, unsigned int mask);
void bm_strips_or(const bm_strips *y, int to, const bm_strips *x, int from, int rows); /* to what they are */
void bm_strips_or_word(const bm_strips *y, int to, int rows, unsigned int word);
void bm_strips_set(const bm_strips *y, int to, int rows, unsigned int word);

/* Checks what all of these layers ask of their input, which has so many batches, and fills in the output but for its
 * height and batches. */
int bm_strips_shape(tpu_tensor_t *out, const tpu_tensor_t *in, int batches, int out_batches, long long rows);

/* The global and the local function. */
void bm_strips_whole(const void *param, const tpu_tensor_t *out, const tpu_tensor_t *in, bm_strips_function function);
void bm_strips_tile(const void *param, const tpu_tensor_t *out, const tpu_tensor_t *in, u64 buffer_offset,
                    bm_strips_function function);

#endif
