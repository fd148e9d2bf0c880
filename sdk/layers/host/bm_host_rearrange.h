// TPU_REARRANGE: how the compiler may treat it.
#ifndef BM_HOST_REARRANGE_H
#define BM_HOST_REARRANGE_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_REARRANGE)
class RearrangeDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "REARRANGE"; }
    virtual bool force_use_global_layer() const override { return true; }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override {
        return in_idx == 1 ? BMNET_NEURON_SHAPE : BMNET_NEURON;
    }
};

#endif
