// TPU_REDUCE: how the compiler may treat it.
#ifndef BM_HOST_REDUCE_H
#define BM_HOST_REDUCE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_REDUCE)
class ReduceDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "REDUCE"; }
    bool force_use_global_layer() override { return true; }
    bm_size_t get_global_buffer_size() override;
};

#endif
