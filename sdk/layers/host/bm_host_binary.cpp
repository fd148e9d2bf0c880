#include "bm_host_binary.h"

#include "../lib/bm_layer_binary_ops.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"

// Every operation reads its operands before it writes where one of them lies.
bool BinaryDescriptor::can_inplace(DATA_TYPE_T dtype) const { return dtype == DTYPE_FP32; }

bool BinaryDescriptor::force_use_global_layer() const { return !bm_broadcasts_locally(*layer(), true); }

u32 BinaryDescriptor::get_local_buffer_size(const int *split_shape) const {
    const int buffers = bm_binary_work(param<tpu_binary_param_t>()->binary_op);
    return bm_local_bytes(static_cast<bm_size_t>(buffers) * bm_tile_bytes(split_shape) + bm_spread_bytes(*layer(), split_shape));
}

std::vector<int> BinaryDescriptor::prepared_shape(int in_idx) const {
    return bm_reshaped(layer()->inputs.at(static_cast<std::size_t>(in_idx)), bm_broadcast_shape(*layer(), in_idx));
}

void BinaryDescriptor::prepare(int in_idx, const void *constant, void *prepared) const {
    bm_keep_elements(layer()->inputs[static_cast<std::size_t>(in_idx)], constant, prepared);
}

bool BinaryDescriptor::accepts_larger_tiles() const { return bm_all_of_one_shape(*layer()); }
