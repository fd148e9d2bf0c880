// TPU_SOFTMAX: how the compiler may treat it.
#ifndef BM_HOST_SOFTMAX_H
#define BM_HOST_SOFTMAX_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SOFTMAX)
class SoftmaxDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "SOFTMAX"; }
    bool force_use_global_layer() override { return true; }
    bm_size_t get_global_buffer_size() override;
};

#endif
