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
    std::string get_name() override { return "POOL"; }
    bool force_use_global_layer() override;
    bm_size_t get_local_buffer_size(const std::vector<int> &split_shape) override;
    int backward_hidx(int out_hidx) override;
    int backward_hslice(int out_hslice) override;
    int backward_widx(int out_widx) override;
    int backward_wslice(int out_wslice) override;
    int backward_kh() override;
    int backward_stride_h() override;
    int backward_up_pad_h() override;
    int backward_down_pad_h() override;

  private:
    const tpu_pool_param_t *p() const { return param<tpu_pool_param_t>(); }
    bool whole() const { return p()->whole != 0; }
    int kernel_h() const { return whole() ? layer().inputs[0].shape[2] : p()->kernel_h; }
    int kernel_w() const { return whole() ? layer().inputs[0].shape[3] : p()->kernel_w; }
    int stride_h() const { return whole() ? 1 : p()->stride_h; }
    int stride_w() const { return whole() ? 1 : p()->stride_w; }
};

#endif
