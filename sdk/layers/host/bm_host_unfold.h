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
    // The planes of a volume are batches.
    virtual bool keeps_batches() const override { return param<tpu_unfold_param_t>()->planes == 1; }
};

#endif
