// TPU_EXPAND_DIMS: how the compiler may treat it.
#ifndef BM_HOST_EXPAND_DIMS_H
#define BM_HOST_EXPAND_DIMS_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_EXPAND_DIMS)
class ExpandDimsDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "EXPAND_DIMS"; }
    bool force_use_global_layer() override { return true; }
    // The same bytes under another shape: the output can live in the input's memory.
    bool just_reshape() override { return true; }
    bool is_share_mem_layer() override { return true; }
};

#endif
