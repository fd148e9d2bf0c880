// TPU_SLICE: how the compiler may treat it.
#ifndef BM_HOST_SLICE_H
#define BM_HOST_SLICE_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_SLICE)
class SliceDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "SLICE"; }
    virtual bool force_use_global_layer() const override { return true; }

  protected:
    virtual bool keeps_batches() const override {
        const tpu_slice_param_t *p = param<tpu_slice_param_t>();
        for (int i = 0; i < p->count && i < MAX_SHAPE_DIMS; i++)
            if (is_first(p->axes[i]) && (p->starts[i] != 0 || p->steps[i] != 1 || p->ends[i] < in(0).shape[0]))
                return false;
        return true;
    }
};

#endif
