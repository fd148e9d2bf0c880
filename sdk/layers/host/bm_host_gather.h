// TPU_GATHER: how the compiler may treat it.
#ifndef BM_HOST_GATHER_H
#define BM_HOST_GATHER_H

#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_GATHER)
class GatherDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "GATHER"; }
    virtual bool force_use_global_layer() const override { return true; }
    virtual bool must_dynamic_run() const override { return computed(); }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override {
        return in_idx == 1 && !computed() ? BMNET_NEURON_SHAPE : BMNET_NEURON;
    }

  protected:
    virtual bool keeps_batches() const override { return !is_first(param<tpu_gather_param_t>()->axis); }

  private:
    // The indices are not constants: the controller reads them when the layer runs
    bool computed() const { return layer()->inputs.size() > 1 && layer()->inputs[1].ttype == BMNET_NEURON; }
};

#endif
