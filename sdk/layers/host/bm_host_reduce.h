// TPU_REDUCE: how the compiler may treat it.
#ifndef BM_HOST_REDUCE_H
#define BM_HOST_REDUCE_H

#include <string>

#include "../lib/bm_layer_reduce_bytes.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_REDUCE)
class ReduceDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "REDUCE"; }
    virtual bool force_use_global_layer() const override { return true; }
    // Partial results, what lies between two runs of dimensions, and for the logarithm of a sum of powers the largest
    // elements and the powers: each at most as large as the input.
    virtual u64 get_global_buffer_size() const override {
        bm_size_t bytes = 4;
        for (int extent : layer()->inputs[0].shape) bytes *= (bm_size_t)extent;
        return BM_REDUCE_BYTES + 4 * bytes;
    }
};

#endif
