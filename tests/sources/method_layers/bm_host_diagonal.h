#ifndef BM_HOST_DIAGONAL_H
#define BM_HOST_DIAGONAL_H
#include "bmcompiler_tpulayer_host.hpp"
#include "bmtpu.h"

__BM_DESC__(TPU_DIAGONAL)
class DiagonalDescriptor : public bmcompiler::LayerDescriptor {
    const tpu_diagonal_param_t *p() const { return param<tpu_diagonal_param_t>(); }
    bool slides() const { return p()->slides || p()->both; }

  public:
    virtual std::string get_name() const override { return "DIAGONAL"; }
    virtual bool can_split_local_h_w() const override { return !p()->whole; }
    virtual bool force_use_global_layer() const override { return p()->global; }
    virtual bool is_backslice_optimize_support_layer() const override { return p()->both; }
    virtual int backward_hidx(int h) const override { return p()->slides ? h : h * p()->stride - 1; }
    virtual int backward_widx(int w) const override { return w * p()->stride - 1; }
    virtual int backward_hslice(int n) const override {
        return p()->slides ? n : (n - 1) * p()->stride + 2 + (p()->lies ? p()->stride : 0);
    }
    virtual int backward_kh(int k) const override { return slides() ? (k - 1) * p()->stride + 2 : k; }
    virtual int backward_stride_h(int s) const override { return slides() ? s * p()->stride : s; }
    virtual int backward_up_pad_h(int n) const override { return slides() ? n * p()->stride + 1 : n; }
    virtual int backward_wslice(int n) const override { return (n - 1) * p()->stride + 2; }
};
#endif
