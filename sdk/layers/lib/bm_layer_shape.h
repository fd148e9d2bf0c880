/* Shapes as the layers' shape functions ask about them. */
#ifndef BM_LAYER_SHAPE_H
#define BM_LAYER_SHAPE_H

#include <stdbool.h>

#include "bmcompiler_tpulayer_device.h"

/* Product of the extents [from, to). */
unsigned long long bm_layer_elements(const int *shape, int from, int to);

bool bm_layer_all_fp32(const tpu_tensor_t *tensors, int count);

/* A negative axis counts from the end; -1 when there is none such. */
static inline int bm_layer_axis(int axis, int dims) {
    if (axis < 0) axis += dims;
    return axis < 0 || axis >= dims ? -1 : axis;
}

/* Batches that share a word: 4 in 4N, 2 in 2N. */
static inline int bm_layer_together(const tpu_tensor_t *t) { return 1 << t->store_mode; }

/* Whether moving words is enough: no batch becomes another one, or the tensor has no words of several. Batches may be
 * fewer than those that a net was compiled for. */
static inline bool bm_layer_keeps_batches(const tpu_tensor_t *out, const tpu_tensor_t *in) {
    return bm_layer_together(in) == 1 || out->shape[0] == in->shape[0];
}

/* The tensor as what moves: in 4N and 2N words of 32 bits, each of which is several batches, else its elements. Slots of
 * a last word that are nobody's move along. */
tpu_tensor_t bm_layer_as_words(const tpu_tensor_t *t);

/* An output of the input's shape and type: each tile of the input gives the same tile of the output. */
void bm_layer_same_shape(tpu_tensor_t *out, const tpu_tensor_t *in);

#endif
