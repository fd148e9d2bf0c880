// TPU_TRANSPOSE: how the compiler may treat it.
#ifndef BM_HOST_TRANSPOSE_H
#define BM_HOST_TRANSPOSE_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_TRANSPOSE)
class TransposeDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "TRANSPOSE"; }
    virtual bool force_use_global_layer() const override { return true; }

  protected:
    virtual bool keeps_batches() const override { return param<tpu_transpose_param_t>()->order[0] == 0; }
};

#endif
