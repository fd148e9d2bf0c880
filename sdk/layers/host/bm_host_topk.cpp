#include "bm_host_topk.h"

// Copies of input, numbers and indices in which rows lie together.
u64 TopkDescriptor::get_global_buffer_size() const {
    bm_size_t bytes = 4;
    for (int extent : layer()->inputs[0].shape) bytes *= (bm_size_t)extent;
    return 3 * bytes;
}
