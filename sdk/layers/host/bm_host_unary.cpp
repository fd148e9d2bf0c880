#include "bm_host_unary.h"

#include "../device/bm_layer_unary_ops.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"

// Every function has read an element by the time that it writes there.
bool UnaryDescriptor::can_inplace(DATA_TYPE_T dtype) { return dtype == DTYPE_FP32; }

bm_size_t UnaryDescriptor::get_local_buffer_size(const std::vector<int> &split_shape) {
    const int buffers = bm_unary_work(param<tpu_unary_param_t>()->unary_op);
    return static_cast<bm_size_t>(buffers) * bm_piece_bytes(split_shape);
}
