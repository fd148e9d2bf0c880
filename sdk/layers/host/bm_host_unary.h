// TPU_UNARY: how the compiler may treat it.
#ifndef BM_HOST_UNARY_H
#define BM_HOST_UNARY_H

#include <string>
#include <vector>

#include "../lib/bm_layer_unary_ops.h"
#include "bm_host_elementwise.h"
#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_UNARY)
class UnaryDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "UNARY"; }
    // Every function has read an element by the time that it writes there.
    virtual bool can_inplace(DATA_TYPE_T dtype) const override { return dtype == DTYPE_FP32; }
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        const int buffers = bm_unary_work(param<tpu_unary_param_t>()->unary_op);
        return bm_local_bytes(static_cast<bm_size_t>(buffers) * bm_tile_bytes(split_shape));
    }
};

#endif
