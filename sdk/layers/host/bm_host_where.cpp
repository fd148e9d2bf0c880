#include "bm_host_where.h"

#include "bm_host_elementwise.h"

// The condition and the values are 32-bit words; each is read before the result is written there.
bool WhereDescriptor::can_inplace(DATA_TYPE_T) { return true; }

bool WhereDescriptor::force_use_global_layer() { return !bm_broadcasts_locally(layer(), false); }

bm_size_t WhereDescriptor::get_local_buffer_size(const std::vector<int> &split_shape) {
    return 2 * bm_piece_bytes(split_shape);
}

std::vector<int> WhereDescriptor::prepared_shape(int in_idx) {
    return bm_reshaped(layer().inputs.at(static_cast<std::size_t>(in_idx)), bm_broadcast_shape(layer(), in_idx));
}

void WhereDescriptor::prepare(int in_idx, const void *constant, void *prepared) {
    bm_keep_elements(layer().inputs[static_cast<std::size_t>(in_idx)], constant, prepared);
}

bool WhereDescriptor::accepts_larger_pieces() { return bm_all_of_one_shape(layer()); }
