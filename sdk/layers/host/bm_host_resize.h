// TPU_RESIZE: how the compiler may treat it.
#ifndef BM_HOST_RESIZE_H
#define BM_HOST_RESIZE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_RESIZE)
class ResizeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "RESIZE"; }
    virtual bool force_use_global_layer() const override { return true; }
    // The indices are read by the controller, the weights stay where they are.
    virtual TENSOR_TYPE_T input_type(int in_idx) const override { return in_idx == 1 ? BMNET_NEURON_SHAPE : BMNET_NEURON; }
};

#endif
