// TPU_DEQUANTIZE: how the compiler may treat it.
#ifndef BM_HOST_DEQUANTIZE_H
#define BM_HOST_DEQUANTIZE_H

#include <string>

#include "bm_host_elementwise.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_DEQUANTIZE)
class DequantizeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "DEQUANTIZE"; }
    virtual DATA_TYPE_T input_dtype(int in_idx) const override {
        return layer()->inputs[static_cast<std::size_t>(in_idx)].dtype;
    }
    // A copy of the integers that the conversion may change.
    virtual u32 get_local_buffer_size(const int *tile) const override {
        const int words[4] = {(tile[0] + 3) / 4, tile[1], tile[2], tile[3]};
        return bm_local_bytes(bm_tile_bytes(words));
    }
};

#endif
