// TPU_NORM: how the compiler may treat it.
#ifndef BM_HOST_NORM_H
#define BM_HOST_NORM_H

#include <string>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_NORM)
class NormDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "NORM"; }
    virtual bool force_use_global_layer() const override { return true; }
    virtual u64 get_global_buffer_size() const override;
};

#endif
