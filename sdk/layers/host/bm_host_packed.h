// What the descriptors of element-wise layers on 8-bit integers in 4N share.
#ifndef BM_HOST_PACKED_H
#define BM_HOST_PACKED_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bm1684_chip.h"
#include "bm_host_elementwise.h"
#include "bmcompiler_tpulayer_host.hpp"

// Inputs of 8 bits as they are; where the net has fp32 with a scale, int8.
class PackedDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual DATA_TYPE_T input_dtype(int in_idx) const override { return is_bytes(in(in_idx)) ? in(in_idx).dtype : DTYPE_INT8; }
    // The instructions take no more channels.
    virtual bool force_use_global_layer() const override {
        const std::vector<int> &shape = in(0).shape;
        return shape.size() > 1 && shape[1] > CHIP_CHANNELS_MAX;
    }
    virtual bool accepts_larger_tiles() const override { return bm_all_of_one_shape(*layer()); }

  protected:
    const bmcompiler::GraphTensor &in(int in_idx) const { return layer()->inputs.at(static_cast<std::size_t>(in_idx)); }

    static bool is_bytes(const bmcompiler::GraphTensor &t) { return t.dtype == DTYPE_INT8 || t.dtype == DTYPE_UINT8; }

    // Bytes per NPU of the words of a tile.
    static bm_size_t word_bytes(const int *tile) {
        const int words[4] = {(tile[0] + 3) / 4, tile[1], tile[2], tile[3]};
        return bm_tile_bytes(words);
    }
};

#endif
