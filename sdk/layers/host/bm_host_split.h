// TPU_SPLIT: how the compiler may treat it.
#ifndef BM_HOST_SPLIT_H
#define BM_HOST_SPLIT_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_SPLIT)
class SplitDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "SPLIT"; }
    virtual bool force_use_global_layer() const override { return true; }

  protected:
    virtual bool keeps_batches() const override { return !is_first(param<tpu_split_param_t>()->axis); }
};

#endif
