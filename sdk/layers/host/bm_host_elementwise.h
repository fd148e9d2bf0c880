// What the descriptors of element-wise layers share.
#ifndef BM_HOST_ELEMENTWISE_H
#define BM_HOST_ELEMENTWISE_H

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "bm1684_chip.h"
#include "bm_host_constants.h"
#include "bmcompiler_tpulayer_host.hpp"

// The shape in which the local function gets an input: constants have the dimensions of the largest one.
inline bm_shape bm_operand_shape(const bmcompiler::GraphNode &node, std::size_t i) {
    return bm_is_constant(node.inputs[i]) ? bm_broadcast_shape(node, static_cast<int>(i)) : node.inputs[i].shape;
}

// What get_local_buffer_size returns for so many bytes: more than local memory has stays more.
inline u32 bm_local_bytes(bm_size_t bytes) {
    return static_cast<u32>(std::min<bm_size_t>(bytes, std::numeric_limits<u32>::max()));
}

// Bytes per NPU of a tile (n, c, h, w) in the aligned layout.
inline bm_size_t bm_tile_bytes(const int *tile) {
    auto extent = [&](std::size_t d) { return static_cast<bm_size_t>(tile[d]); };
    const bm_size_t slots = (extent(1) + CHIP_NPU_NUM - 1) / CHIP_NPU_NUM;
    const bm_size_t lines = (extent(2) * extent(3) + CHIP_ALIGN_WORDS - 1) / CHIP_ALIGN_WORDS;
    return extent(0) * slots * lines * CHIP_ALIGN_BYTES;
}

// Whether inputs can lie in local memory as they are: strides broadcast n, h and w there, but no channel. spread: those
// with one channel, or one element, are copied to every lane (bm_spread), if the copying instruction takes their size.
inline bool bm_broadcasts_locally(const bmcompiler::GraphNode &node, bool spread) {
    const std::vector<int> &out = node.outputs[0].shape;
    for (std::size_t i = 0; i < node.inputs.size(); i++) {
        const bm_shape x = bm_operand_shape(node, i);
        const bool single = std::all_of(x.begin(), x.end(), [](int extent) { return extent == 1; });
        const bool small = std::all_of(x.begin(), x.end(), [](int extent) { return extent <= CHIP_WINDOW_SIDE_MAX; });
        if (spread && single) continue;
        if (x.size() != out.size()) return false;
        if (out.size() > 1 && x[1] != out[1] && !(spread && x[1] == 1 && small)) return false;
    }
    return true;
}

// Whether nothing is broadcast: a tile of an input may then have more rows and columns than that of the output.
inline bool bm_all_of_one_shape(const bmcompiler::GraphNode &node) {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const bmcompiler::GraphTensor &in) { return in.shape == node.outputs[0].shape; });
}

// Bytes per NPU of the copies that bm_spread makes for a tile of the output.
inline bm_size_t bm_spread_bytes(const bmcompiler::GraphNode &node, const int *tile) {
    bm_size_t bytes = 0;
    for (std::size_t i = 0; i < node.inputs.size(); i++) {
        const bm_shape x = bm_operand_shape(node, i);
        auto extent = [&](std::size_t d) { return d < x.size() ? x[d] : 1; };
        if (tile[1] == extent(1)) continue;
        int copy[4];
        for (std::size_t d = 0; d < 4; d++) copy[d] = d != 1 && extent(d) == 1 ? 1 : tile[d];
        bytes += bm_tile_bytes(copy);
    }
    return bytes;
}

#endif
