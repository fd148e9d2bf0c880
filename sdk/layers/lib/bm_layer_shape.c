#include "bm_layer_shape.h"

unsigned long long bm_layer_elements(const int *shape, int from, int to) {
    unsigned long long product = 1;
    for (int d = from; d < to; d++) product *= (unsigned long long)shape[d];
    return product;
}

bool bm_layer_all_fp32(const tpu_tensor_t *tensors, int count) {
    for (int i = 0; i < count; i++)
        if (tensors[i].dtype != DTYPE_FP32) return false;
    return true;
}

tpu_tensor_t bm_layer_as_words(const tpu_tensor_t *t) {
    const int together = bm_layer_together(t);
    tpu_tensor_t words = *t;
    if (together == 1) return words;
    words.dtype = DTYPE_INT32;
    words.store_mode = STORE_MODE_1N;
    words.shape[0] = (t->shape[0] + together - 1) / together;
    words.slice_shape[0] = (t->slice_shape[0] + together - 1) / together;
    words.processed[0] = t->processed[0] / together;
    words.elem_num = t->elem_num / t->shape[0] * words.shape[0];
    return words;
}

void bm_layer_same_shape(tpu_tensor_t *out, const tpu_tensor_t *in) {
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
