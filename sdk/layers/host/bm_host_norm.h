// TPU_NORM: how the compiler may treat it.
#ifndef BM_HOST_NORM_H
#define BM_HOST_NORM_H

#include <string>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_NORM)
class NormDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "NORM"; }
    bool force_use_global_layer() override { return true; }
    bm_size_t get_global_buffer_size() override;
};

#endif
