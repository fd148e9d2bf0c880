// TPU_COPY: how the compiler may treat it.
#ifndef BM_HOST_COPY_H
#define BM_HOST_COPY_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_COPY)
class CopyDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "COPY"; }
    bool force_use_global_layer() override { return true; }
    // The same bytes: the output can live in the input's memory.
    bool just_reshape() override { return true; }
    bool is_share_mem_layer() override { return true; }
};

#endif
