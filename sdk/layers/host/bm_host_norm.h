// TPU_NORM: how the compiler may treat it.
#ifndef BM_HOST_NORM_H
#define BM_HOST_NORM_H

#include <cstddef>
#include <string>
#include <vector>

#include "../lib/bm_layer_reduce_bytes.h"
#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_NORM)
class NormDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "NORM"; }
    virtual bool force_use_global_layer() const override { return true; }
    // Partial results of reductions, one number for all that is normalized together, and one for each channel.
    virtual u64 get_global_buffer_size() const override {
        const tpu_norm_param_t *p = param<tpu_norm_param_t>();
        const std::vector<int> &shape = layer()->inputs[0].shape;
        // With groups: at most one row per channel.
        int axis = p->groups != 0 ? 2 : p->axis < 0 ? p->axis + (int)shape.size() : p->axis;
        bm_size_t rows = 1;
        for (int d = 0; d < axis && d < (int)shape.size(); d++) rows *= (bm_size_t)shape[(std::size_t)d];
        return BM_REDUCE_BYTES + 8 * rows;
    }
};

#endif
