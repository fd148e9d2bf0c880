// TPU_UNFOLD: how the compiler may treat it.
#ifndef BM_HOST_UNFOLD_H
#define BM_HOST_UNFOLD_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

// The compiler knows that its local function takes the input in DDR.
__BM_DESC__(TPU_UNFOLD)
class UnfoldDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "UNFOLD"; }

  protected:
    // The planes of a volume are batches; of one plane pads make several.
    virtual bool keeps_batches() const override {
        const tpu_unfold_param_t *p = param<tpu_unfold_param_t>();
        return p->planes == 1 && p->kernel_d == 1 && p->pad_front + p->pad_back == 0;
    }
};

#endif
