// TPU_QUANTIZE: how the compiler may treat it.
#ifndef BM_HOST_QUANTIZE_H
#define BM_HOST_QUANTIZE_H

#include <string>

#include "bm1684_chip.h"
#include "bm_host_elementwise.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_QUANTIZE)
class QuantizeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "QUANTIZE"; }
    // The converting instructions take no more channels.
    virtual bool force_use_global_layer() const override {
        const std::vector<int> &shape = layer()->inputs[0].shape;
        return shape.size() > 1 && shape[1] > CHIP_CHANNELS_MAX;
    }
    // The values divided by the scale, rounded.
    virtual u32 get_local_buffer_size(const int *tile) const override { return bm_local_bytes(bm_tile_bytes(tile)); }
};

#endif
