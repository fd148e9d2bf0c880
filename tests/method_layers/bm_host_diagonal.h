#ifndef BM_HOST_DIAGONAL_H
#define BM_HOST_DIAGONAL_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_DIAGONAL)
class DiagonalDescriptor : public bmcompiler::LayerDescriptor {
    const tpu_diagonal_param_t *p() const { return param<tpu_diagonal_param_t>(); }

  public:
    std::string get_name() override { return "DIAGONAL"; }
    bool can_split_local_h_w() override { return !p()->whole; }
    bool force_use_global_layer() override { return p()->global; }
    int backward_hidx(int h) override { return h * p()->stride - 1; }
    int backward_widx(int w) override { return w * p()->stride - 1; }
    int backward_hslice(int n) override { return (n - 1) * p()->stride + 2 + (p()->lies ? p()->stride : 0); }
    int backward_wslice(int n) override { return (n - 1) * p()->stride + 2; }
};
#endif
