// TPU_POOL_INT8: how the compiler may treat it.
#ifndef BM_HOST_POOL_INT8_H
#define BM_HOST_POOL_INT8_H

#include <string>

#include "bm_host_pooling.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_POOL_INT8)
class PoolInt8Descriptor : public PoolingDescriptor {
  public:
    virtual std::string get_name() const override { return "POOL_INT8"; }
    virtual DATA_TYPE_T input_dtype(int /*in_idx*/) const override {
        const DATA_TYPE_T dtype = layer()->inputs[0].dtype;
        return dtype == DTYPE_UINT8 ? dtype : DTYPE_INT8;
    }
    // The instructions take no more channels.
    virtual bool force_use_global_layer() const override {
        return PoolingDescriptor::force_use_global_layer() || layer()->inputs[0].shape[1] > CHIP_CHANNELS_MAX;
    }
    // Rows that are pooled along w, or the weights of an average.
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        if (p()->mode == 0) return two_steps((split_shape[0] + 3) / 4, split_shape);
        const bm_size_t slots = (static_cast<bm_size_t>(split_shape[1]) + CHIP_NPU_NUM - 1) / CHIP_NPU_NUM;
        const bm_size_t bytes = slots * static_cast<bm_size_t>(kernel_h()) * static_cast<bm_size_t>(kernel_w());
        const bm_size_t lines = (bytes + CHIP_ALIGN_BYTES - 1) / CHIP_ALIGN_BYTES;
        return window_room(backward_hslice(split_shape[2]), backward_wslice(split_shape[3]),
                           bm_local_bytes(lines * CHIP_ALIGN_BYTES));
    }

  protected:
    virtual pool_window window() const override { return POOL_WINDOW_OF(p()); }

  private:
    const tpu_pool_int8_param_t *p() const { return param<tpu_pool_int8_param_t>(); }
};

#endif
