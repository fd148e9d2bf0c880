// TPU_POOL: how the compiler may treat it.
#ifndef BM_HOST_POOL_H
#define BM_HOST_POOL_H

#include <string>

#include "bm_host_pooling.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_POOL)
class PoolDescriptor : public PoolingDescriptor {
  public:
    virtual std::string get_name() const override { return "POOL"; }
    virtual u32 get_local_buffer_size(const int *split_shape) const override {
        return two_steps(split_shape[0], split_shape);
    }

  protected:
    virtual pool_window window() const override { return POOL_WINDOW_OF(param<tpu_pool_param_t>()); }
};

#endif
