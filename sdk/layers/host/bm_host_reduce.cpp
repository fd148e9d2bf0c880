#include "bm_host_reduce.h"

#include "../lib/bm_layer_reduce_bytes.h"

// Partial results, what lies between two runs of dimensions, and for the logarithm of a sum of powers the largest
// elements and the powers: each at most as large as the input.
u64 ReduceDescriptor::get_global_buffer_size() const {
    bm_size_t bytes = 4;
    for (int extent : layer()->inputs[0].shape) bytes *= (bm_size_t)extent;
    return BM_REDUCE_BYTES + 4 * bytes;
}
