// TPU_EXPAND: how the compiler may treat it.
#ifndef BM_HOST_EXPAND_H
#define BM_HOST_EXPAND_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_EXPAND)
class ExpandDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "EXPAND"; }
    virtual bool force_use_global_layer() const override { return true; }

  protected:
    virtual bool keeps_batches() const override {
        const tpu_expand_param_t *p = param<tpu_expand_param_t>();
        const int dims = static_cast<int>(in(0).shape.size());
        return p->dims < dims || (p->dims == dims && (p->shape[0] == 1 || p->shape[0] == in(0).shape[0]));
    }
};

#endif
