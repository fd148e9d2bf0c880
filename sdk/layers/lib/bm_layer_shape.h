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

/* An output of the input's shape and type: each tile of the input gives the same tile of the output. */
void bm_layer_same_shape(tpu_tensor_t *out, const tpu_tensor_t *in);

#endif
