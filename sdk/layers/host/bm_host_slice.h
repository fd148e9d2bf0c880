// TPU_SLICE: how the compiler may treat it.
#ifndef BM_HOST_SLICE_H
#define BM_HOST_SLICE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SLICE)
class SliceDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SLICE"; }
    virtual bool force_use_global_layer() const override { return true; }
};

#endif
