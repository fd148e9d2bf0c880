#include "bm_host_norm.h"

#include "../lib/bm_layer_reduce_bytes.h"

// Partial results of reductions, one number for all that is normalized together, and one for each channel.
u64 NormDescriptor::get_global_buffer_size() const {
    const tpu_norm_param_t *p = param<tpu_norm_param_t>();
    const std::vector<int> &shape = layer()->inputs[0].shape;
    // With groups: at most one row per channel.
    int axis = p->groups != 0 ? 2 : p->axis < 0 ? p->axis + (int)shape.size() : p->axis;
    bm_size_t rows = 1;
    for (int d = 0; d < axis && d < (int)shape.size(); d++) rows *= (bm_size_t)shape[(std::size_t)d];
    return BM_REDUCE_BYTES + 8 * rows;
}
