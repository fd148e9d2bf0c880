// TPU_SPLIT: how the compiler may treat it.
#ifndef BM_HOST_SPLIT_H
#define BM_HOST_SPLIT_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SPLIT)
class SplitDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "SPLIT"; }
    bool force_use_global_layer() override { return true; }
};

#endif
