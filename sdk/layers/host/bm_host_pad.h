// TPU_PAD: how the compiler may treat it.
#ifndef BM_HOST_PAD_H
#define BM_HOST_PAD_H

#include <string>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_PAD)
class PadDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "PAD"; }
    virtual bool force_use_global_layer() const override;
    virtual int backward_hidx(int out_hidx) const override { return out_hidx - p()->before[2]; }
    virtual int backward_widx(int out_widx) const override { return out_widx - p()->before[3]; }

  private:
    const tpu_pad_param_t *p() const { return param<tpu_pad_param_t>(); }
};

#endif
