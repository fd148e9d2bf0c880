// TPU_TOPK: how the compiler may treat it.
#ifndef BM_HOST_TOPK_H
#define BM_HOST_TOPK_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_TOPK)
class TopkDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "TOPK"; }
    virtual bool force_use_global_layer() const override { return true; }
    // Copies of input, numbers and indices in which rows lie together.
    virtual u64 get_global_buffer_size() const override {
        bm_size_t bytes = 4;
        for (int extent : layer()->inputs[0].shape) bytes *= (bm_size_t)extent;
        return 3 * bytes;
    }
};

#endif
