// Constants that layers prepare for their kernels.
#ifndef BM_HOST_CONSTANTS_H
#define BM_HOST_CONSTANTS_H

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bmcompiler_tpulayer_host.hpp"

using bm_shape = std::vector<int>;

inline bool bm_is_constant(const bmcompiler::GraphTensor &t) { return t.ttype != BMNET_NEURON; }

inline std::size_t bm_elements(const bm_shape &shape) {
    std::size_t count = 1;
    for (const int extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
}

inline std::string bm_text(const bm_shape &shape) {
    std::string text = "[";
    for (const int extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
}

// The same elements in another shape.
inline void bm_keep_elements(const bmcompiler::GraphTensor &t, const void *constant, void *prepared) {
    static const std::size_t sizes[] = {4, 2, 1, 1, 2, 2, 4, 4}; // of DATA_TYPE_T
    std::memcpy(prepared, constant, bm_elements(t.shape) * sizes[t.dtype]);
}

// What prepared_shape says of a constant whose elements stay as they are.
inline bm_shape bm_reshaped(const bmcompiler::GraphTensor &t, const bm_shape &shape) {
    return t.shape == shape || bm_elements(t.shape) != bm_elements(shape) ? bm_shape{} : shape;
}

// An input's shape with as many dimensions as the largest input: what numpy makes of it when it broadcasts.
inline bm_shape bm_broadcast_shape(const bmcompiler::GraphNode &node, int in_idx) {
    std::size_t dims = 0;
    for (const bmcompiler::GraphTensor &t : node.inputs) dims = std::max(dims, t.shape.size());
    bm_shape shape = node.inputs.at(static_cast<std::size_t>(in_idx)).shape;
    if (bm_elements(shape) > 1) shape.insert(shape.begin(), dims - shape.size(), 1);
    return shape;
}

#endif
