#include "bm_host_where.h"

#include "bm_host_elementwise.h"

// The condition and the values are 32-bit words; each is read before the result is written there.
bool WhereDescriptor::can_inplace(DATA_TYPE_T) const { return true; }

bool WhereDescriptor::force_use_global_layer() const { return !bm_broadcasts_locally(*layer(), false); }

u32 WhereDescriptor::get_local_buffer_size(const int *split_shape) const {
    return bm_local_bytes(2 * bm_tile_bytes(split_shape));
}

std::vector<int> WhereDescriptor::prepared_shape(int in_idx) const {
    return bm_reshaped(layer()->inputs.at(static_cast<std::size_t>(in_idx)), bm_broadcast_shape(*layer(), in_idx));
}

void WhereDescriptor::prepare(int in_idx, const void *constant, void *prepared) const {
    bm_keep_elements(layer()->inputs[static_cast<std::size_t>(in_idx)], constant, prepared);
}

bool WhereDescriptor::accepts_larger_tiles() const { return bm_all_of_one_shape(*layer()); }
