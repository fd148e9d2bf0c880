// TPU_TOPK: how the compiler may treat it.
#ifndef BM_HOST_TOPK_H
#define BM_HOST_TOPK_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_TOPK)
class TopkDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "TOPK"; }
    bool force_use_global_layer() override { return true; }
    bm_size_t get_global_buffer_size() override;
};

#endif
