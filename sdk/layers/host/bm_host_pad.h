// TPU_PAD: how the compiler may treat it.
#ifndef BM_HOST_PAD_H
#define BM_HOST_PAD_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_PAD)
class PadDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "PAD"; }
    // In local memory a constant can be put around rows and columns of 32-bit elements, or words.
    virtual bool force_use_global_layer() const override {
        const bmcompiler::GraphTensor &x = layer()->inputs[0];
        if ((x.shape.size() != 3 && x.shape.size() != 4) || p()->mode != 0) return true;
        if (x.store_mode == STORE_MODE_1N && x.dtype != DTYPE_FP32 && x.dtype != DTYPE_INT32 && x.dtype != DTYPE_UINT32)
            return true;
        for (int d = 0; d < 4; d++)
            if (p()->before[d] < 0 || p()->after[d] < 0 || (d < 2 && p()->before[d] + p()->after[d] > 0)) return true;
        return false;
    }
    virtual int backward_hidx(int out_hidx) const override { return out_hidx - p()->before[2]; }
    virtual int backward_widx(int out_widx) const override { return out_widx - p()->before[3]; }

  protected:
    virtual bool keeps_batches() const override { return p()->before[0] == 0 && p()->after[0] == 0; }

  private:
    const tpu_pad_param_t *p() const { return param<tpu_pad_param_t>(); }
};

#endif
