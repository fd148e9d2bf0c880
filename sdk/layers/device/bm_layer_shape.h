/* Shapes as the layers' shape functions ask about them. */
#ifndef BM_LAYER_SHAPE_H
#define BM_LAYER_SHAPE_H

#include "bmcompiler_tpulayer_device.h"
#include <stdbool.h>

/* Product of the extents [from, to). */
static inline unsigned long long layer_elements(const int *shape, int from, int to) {
    unsigned long long product = 1;
    for (int d = from; d < to; d++) product *= (unsigned long long)shape[d];
    return product;
}

static inline bool layer_all_fp32(const tpu_tensor_t *tensors, int count) {
    for (int i = 0; i < count; i++)
        if (tensors[i].dtype != DTYPE_FP32) return false;
    return true;
}

/* A negative axis counts from the end; -1 when there is none such. */
static inline int layer_axis(int axis, int dims) {
    if (axis < 0) axis += dims;
    return axis < 0 || axis >= dims ? -1 : axis;
}

/* An output of the input's shape and type: each piece of the input gives the same piece of the output. */
static inline void layer_same_shape(tpu_tensor_t *out, const tpu_tensor_t *in) {
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = in->dims;
    for (unsigned int d = 0; d < in->dims; d++) {
        out->shape[d] = in->shape[d];
        out->slice_shape[d] = in->slice_shape[d];
        out->processed[d] = in->processed[d];
        out->slice_pad[d] = 0;
    }
}

#endif
