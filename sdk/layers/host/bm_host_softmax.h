// TPU_SOFTMAX: how the compiler may treat it.
#ifndef BM_HOST_SOFTMAX_H
#define BM_HOST_SOFTMAX_H

#include <string>

#include "../lib/bm_layer_reduce_bytes.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SOFTMAX)
class SoftmaxDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SOFTMAX"; }
    virtual bool force_use_global_layer() const override { return true; }
    // For what does not fit into a lane: partial results of reductions, the largest elements, the sums, and the powers
    // where the output cannot hold them.
    virtual u64 get_global_buffer_size() const override {
        bm_size_t bytes = 4;
        for (int extent : layer()->inputs[0].shape) bytes *= (bm_size_t)extent;
        return BM_REDUCE_BYTES + 3 * bytes;
    }
};

#endif
