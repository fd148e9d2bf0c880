// TPU_LRN: how the compiler may treat it.
#ifndef BM_HOST_LRN_H
#define BM_HOST_LRN_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_LRN)
class LrnDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "LRN"; }
    bool force_use_global_layer() override { return true; }
};

#endif
