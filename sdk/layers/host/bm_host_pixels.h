// TPU_PIXELS: how the compiler may treat it.
#ifndef BM_HOST_PIXELS_H
#define BM_HOST_PIXELS_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_PIXELS)
class PixelsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "PIXELS"; }
    virtual DATA_TYPE_T input_dtype(int) const override { return DTYPE_UINT8; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
