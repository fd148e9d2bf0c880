// TPU_SOFTMAX: how the compiler may treat it.
#ifndef BM_HOST_SOFTMAX_H
#define BM_HOST_SOFTMAX_H

#include <string>

#include "../lib/bm_layer_reduce_bytes.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_SOFTMAX)
class SoftmaxDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "SOFTMAX"; }
    // In local memory the last of three or four dimensions lies in a lane.
    virtual bool force_use_global_layer() const override {
        const tpu_softmax_param_t *p = param<tpu_softmax_param_t>();
        const int dims = (int)layer()->inputs[0].shape.size();
        return p->log || (dims != 3 && dims != 4) || (p->axis != -1 && p->axis != dims - 1);
    }
    virtual bool can_split_local_h_w() const override { return false; }
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        return bm_local_bytes(2 * bm_tile_bytes(split_shape));
    }
    // For what does not fit into a lane: partial results of reductions, the largest elements, the sums, and the powers
    // where the output cannot hold them.
    virtual u64 get_global_buffer_size() const override {
        bm_size_t bytes = 4;
        for (int extent : layer()->inputs[0].shape) bytes *= (bm_size_t)extent;
        return BM_REDUCE_BYTES + 3 * bytes;
    }
};

#endif
