// TPU_UPSAMPLE: how the compiler may treat it.
#ifndef BM_HOST_UPSAMPLE_H
#define BM_HOST_UPSAMPLE_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_UPSAMPLE)
class UpsampleDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "UPSAMPLE"; }
    // The last input row is the one below the last output row, wherever the first of them lies.
    virtual int backward_hidx(int out_hidx) const override { return out_hidx / p()->scale_h; }
    virtual int backward_hslice(int out_hslice) const override { return (out_hslice + p()->scale_h - 2) / p()->scale_h + 1; }
    virtual int backward_widx(int out_widx) const override { return out_widx / p()->scale_w; }
    virtual int backward_wslice(int out_wslice) const override { return (out_wslice + p()->scale_w - 2) / p()->scale_w + 1; }
    virtual bool accepts_larger_tiles() const override { return true; }

  private:
    const tpu_upsample_param_t *p() const { return param<tpu_upsample_param_t>(); }
};

#endif
