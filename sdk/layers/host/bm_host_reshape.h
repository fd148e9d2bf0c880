// TPU_RESHAPE: how the compiler may treat it.
#ifndef BM_HOST_RESHAPE_H
#define BM_HOST_RESHAPE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_RESHAPE)
class ReshapeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "RESHAPE"; }
    bool force_use_global_layer() override { return true; }
    // The same bytes: the output can live in the input's memory.
    bool just_reshape() override { return true; }
    bool is_share_mem_layer() override { return true; }
};

#endif
