// TPU_PIXELS: how the compiler may treat it.
#ifndef BM_HOST_PIXELS_H
#define BM_HOST_PIXELS_H

#include <cstddef>
#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_PIXELS)
class PixelsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "PIXELS"; }
    virtual DATA_TYPE_T input_dtype(int in_idx) const override {
        return layer()->inputs[static_cast<std::size_t>(in_idx)].dtype;
    }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
