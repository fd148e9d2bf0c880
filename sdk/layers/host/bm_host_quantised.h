// What the descriptors of layers on 8-bit integers share.
#ifndef BM_HOST_QUANTISED_H
#define BM_HOST_QUANTISED_H

#include "bmcompiler_tpulayer_host.hpp"

// The type in which a layer for int8 and uint8 takes an input: its own; what is not in 8 bits becomes int8.
inline DATA_TYPE_T bm_bytes_of(const bmcompiler::GraphNode &node, int in_idx) {
    const DATA_TYPE_T own = node.inputs.at(static_cast<std::size_t>(in_idx)).dtype;
    return own == DTYPE_UINT8 ? DTYPE_UINT8 : DTYPE_INT8;
}

#endif
