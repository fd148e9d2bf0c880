#include "bm_host_unary.h"

#include "../lib/bm_layer_unary_ops.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"

// Every function has read an element by the time that it writes there.
bool UnaryDescriptor::can_inplace(DATA_TYPE_T dtype) const { return dtype == DTYPE_FP32; }

u32 UnaryDescriptor::get_local_buffer_size(const int *split_shape) const {
    const int buffers = bm_unary_work(param<tpu_unary_param_t>()->unary_op);
    return bm_local_bytes(static_cast<bm_size_t>(buffers) * bm_piece_bytes(split_shape));
}
