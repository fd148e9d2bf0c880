// What the descriptors of element-wise layers share.
#ifndef BM_HOST_ELEMENTWISE_H
#define BM_HOST_ELEMENTWISE_H

#include <cstddef>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

// Bytes per NPU of a piece (n, c, h, w) in the aligned layout; missing extents are 1.
inline bm_size_t bm_piece_bytes(const std::vector<int> &piece) {
    auto extent = [&](std::size_t d) { return d < piece.size() ? static_cast<bm_size_t>(piece[d]) : 1; };
    return extent(0) * ((extent(1) + 63) / 64) * ((extent(2) * extent(3) * 4 + 127) / 128 * 128);
}

// Whether inputs can lie in local memory as they are: strides broadcast n, h and w there, but no channel.
inline bool bm_broadcasts_locally(const bmcompiler::GraphNode &node) {
    const std::vector<int> &out = node.outputs[0].shape;
    for (const bmcompiler::GraphTensor &in : node.inputs)
        if (in.shape.size() != out.size() || (out.size() > 1 && in.shape[1] != out[1])) return false;
    return true;
}

#endif
