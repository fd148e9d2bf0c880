#include "bm_host_conv3d.h"

#include "../lib/bm_layer_volume_room.h"
#include "bm_host_elementwise.h"
#include "bm_host_kernel.h"

// Of depthwise ones, products of some planes that are added to others.
u32 Conv3dDescriptor::get_local_buffer_size(const int *split_shape) const {
    const int plane[4] = {1, split_shape[1], split_shape[2], split_shape[3]};
    const u64 bytes = bm_tile_bytes(plane);
    const int planes = is_depthwise() ? bm_volume_planes(split_shape[0], static_cast<long long>(bytes)) : 0;
    const u32 room = bm_local_bytes(static_cast<u64>(planes) * bytes);
    return window_room(backward_hslice(split_shape[2]), backward_wslice(split_shape[3]), room);
}

// Weights [OC, IC / groups, KD, KH, KW] and a bias of OC numbers.
std::vector<int> Conv3dDescriptor::prepared_shape(int in_idx) const {
    const bmcompiler::GraphTensor &t = layer()->inputs.at(static_cast<std::size_t>(in_idx));
    if (in_idx == 2) return bm_reshaped(t, {1, layer()->inputs[1].shape[0], 1, 1});
    const bm_shape &w = t.shape;
    if (in_idx != 1 || w.size() != 5 || t.dtype != DTYPE_FP32) return {};
    if (w[2] != p()->kernel_d)
        throw std::invalid_argument("weights " + bm_text(w) + " for a kernel of " + std::to_string(p()->kernel_d) + " planes");
    bm_check_kernel(*layer(), p()->groups, p()->kernel_h, p()->kernel_w, w[1] * p()->groups);
    if (is_depthwise()) return {w[2], w[0], w[3], w[4]};
    return {w[2], w[0], bm_kernel_pairs(p()->groups, w[1]), 2 * w[3] * w[4]};
}

void Conv3dDescriptor::prepare(int in_idx, const void *constant, void *prepared) const {
    const bm_shape &w = layer()->inputs[1].shape;
    if (in_idx == 2) return bm_keep_elements(layer()->inputs[2], constant, prepared);
    const float *from = static_cast<const float *>(constant);
    float *to = static_cast<float *>(prepared);
    const std::size_t taps = static_cast<std::size_t>(w[3] * w[4]), depth = static_cast<std::size_t>(w[2]);
    const std::size_t in_c = static_cast<std::size_t>(w[1]);
    const int pairs = bm_kernel_pairs(p()->groups, w[1]);
    for (std::size_t d = 0; d < depth; d++) {
        const auto at = [=](int oc, int ic) {
            const std::size_t kernel = static_cast<std::size_t>(oc) * in_c + static_cast<std::size_t>(ic);
            return from + (kernel * depth + d) * taps;
        };
        if (is_depthwise()) {
            for (int c = 0; c < w[0]; c++) to = std::copy_n(at(c, 0), taps, to);
        } else {
            bm_fill_pairs(to, w[0], w[1], pairs, w[3] * w[4], nullptr, at);
            to += static_cast<std::size_t>(w[0]) * static_cast<std::size_t>(pairs) * taps * 2;
        }
    }
}
