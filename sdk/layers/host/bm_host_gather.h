// TPU_GATHER: how the compiler may treat it.
#ifndef BM_HOST_GATHER_H
#define BM_HOST_GATHER_H

#include <cstddef>
#include <string>

#include "bm_host_movement.h"
#include "bmbuiltin.h"

__BM_DESC__(TPU_GATHER)
class GatherDescriptor : public MovementDescriptor {
  public:
    virtual std::string get_name() const override { return "GATHER"; }
    // The compiler knows that its local function runs on the DMA engine where it takes channels.
    virtual bool force_use_global_layer() const override {
        const std::size_t dims = in(0).shape.size();
        return computed() || p()->scalar != 0 || dims < 2 || dims > 4 || in(1).shape.size() != 1 || is_first(p()->axis) ||
               !in_words(0);
    }
    virtual bool can_split_local_h_w() const override { return is_along(p()->axis, 1); }
    virtual bool must_dynamic_run() const override { return computed(); }
    virtual TENSOR_TYPE_T input_type(int in_idx) const override {
        return in_idx == 1 && !computed() ? BMNET_NEURON_SHAPE : BMNET_NEURON;
    }

  protected:
    virtual bool keeps_batches() const override { return !is_first(p()->axis); }

  private:
    const tpu_gather_param_t *p() const { return param<tpu_gather_param_t>(); }
    // The indices are not constants: the controller reads them when the layer runs
    bool computed() const { return layer()->inputs.size() > 1 && layer()->inputs[1].ttype == BMNET_NEURON; }
};

#endif
