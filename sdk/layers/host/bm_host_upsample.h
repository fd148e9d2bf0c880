// TPU_UPSAMPLE: how the compiler may treat it.
#ifndef BM_HOST_UPSAMPLE_H
#define BM_HOST_UPSAMPLE_H

#include <string>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_UPSAMPLE)
class UpsampleDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "UPSAMPLE"; }
    // The last input row is the one below the last output row, wherever the first of them lies.
    int backward_hidx(int out_hidx) override { return out_hidx / p()->scale_h; }
    int backward_hslice(int out_hslice) override { return (out_hslice + p()->scale_h - 2) / p()->scale_h + 1; }
    int backward_widx(int out_widx) override { return out_widx / p()->scale_w; }
    int backward_wslice(int out_wslice) override { return (out_wslice + p()->scale_w - 2) / p()->scale_w + 1; }
    bool accepts_larger_pieces() override { return true; }

  private:
    const tpu_upsample_param_t *p() const { return param<tpu_upsample_param_t>(); }
};

#endif
