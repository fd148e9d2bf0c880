// TPU_PAD: how the compiler may treat it.
#ifndef BM_HOST_PAD_H
#define BM_HOST_PAD_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_PAD)
class PadDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "PAD"; }
    bool force_use_global_layer() override { return true; }
};

#endif
