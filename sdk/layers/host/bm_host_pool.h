// TPU_POOL: how the compiler may treat it.
#ifndef BM_HOST_POOL_H
#define BM_HOST_POOL_H

#include <string>
#include <vector>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_POOL)
class PoolDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "POOL"; }
    virtual bool force_use_global_layer() const override;
    virtual u32 get_local_buffer_size(const int *split_shape) const override;
    virtual int backward_hidx(int out_hidx) const override;
    virtual int backward_hslice(int out_hslice) const override;
    virtual int backward_widx(int out_widx) const override;
    virtual int backward_wslice(int out_wslice) const override;

  private:
    const tpu_pool_param_t *p() const { return param<tpu_pool_param_t>(); }
    bool whole() const { return p()->whole != 0; }
    int kernel_h() const { return whole() ? layer()->inputs[0].shape[2] : p()->kernel_h; }
    int kernel_w() const { return whole() ? width() : p()->kernel_w; }
    int width() const { return layer()->inputs[0].shape.size() == 4 ? layer()->inputs[0].shape[3] : 1; }
    int stride_h() const { return whole() ? 1 : p()->stride_h; }
    int stride_w() const { return whole() ? 1 : p()->stride_w; }
};

#endif
