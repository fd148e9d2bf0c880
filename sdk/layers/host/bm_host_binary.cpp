#include "bm_host_binary.h"

#include "../device/bm_layer_binary_ops.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"

// Every operation reads its operands before it writes where one of them lies.
bool BinaryDescriptor::can_inplace(DATA_TYPE_T dtype) { return dtype == DTYPE_FP32; }

bool BinaryDescriptor::force_use_global_layer() { return !bm_broadcasts_locally(layer(), true); }

bm_size_t BinaryDescriptor::get_local_buffer_size(const std::vector<int> &split_shape) {
    const int buffers = bm_binary_work(param<tpu_binary_param_t>()->binary_op);
    return static_cast<bm_size_t>(buffers) * bm_piece_bytes(split_shape) + bm_spread_bytes(layer(), split_shape);
}

std::vector<int> BinaryDescriptor::prepared_shape(int in_idx) {
    return bm_reshaped(layer().inputs.at(static_cast<std::size_t>(in_idx)), bm_broadcast_shape(layer(), in_idx));
}

void BinaryDescriptor::prepare(int in_idx, const void *constant, void *prepared) {
    bm_keep_elements(layer().inputs[static_cast<std::size_t>(in_idx)], constant, prepared);
}

bool BinaryDescriptor::accepts_larger_pieces() { return bm_all_of_one_shape(layer()); }
