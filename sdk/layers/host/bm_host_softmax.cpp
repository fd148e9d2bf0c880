#include "bm_host_softmax.h"

#include "../lib/bm_layer_reduce_bytes.h"

// For what does not fit into a lane: partial results of reductions, the largest elements, the sums, and the powers
// where the output cannot hold them.
u64 SoftmaxDescriptor::get_global_buffer_size() const {
    bm_size_t bytes = 4;
    for (int extent : layer()->inputs[0].shape) bytes *= (bm_size_t)extent;
    return BM_REDUCE_BYTES + 3 * bytes;
}
