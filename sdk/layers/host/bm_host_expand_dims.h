// TPU_EXPAND_DIMS: how the compiler may treat it.
#ifndef BM_HOST_EXPAND_DIMS_H
#define BM_HOST_EXPAND_DIMS_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_EXPAND_DIMS)
class ExpandDimsDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "EXPAND_DIMS"; }
    virtual bool force_use_global_layer() const override { return true; }
    // The same bytes under another shape: the output can live in the input's memory.
    virtual bool just_reshape() const override { return true; }
    virtual bool is_share_mem_layer() const override { return true; }

  protected:
    virtual bool keeps_batches() const override {
        const int axis = param<tpu_expand_dims_param_t>()->axis;
        return axis != 0 && axis + static_cast<int>(in(0).shape.size()) + 1 != 0;
    }
};

#endif
