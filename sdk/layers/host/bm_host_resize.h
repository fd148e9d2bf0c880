// TPU_RESIZE: how the compiler may treat it.
#ifndef BM_HOST_RESIZE_H
#define BM_HOST_RESIZE_H

#include <string>

#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_RESIZE)
class ResizeDescriptor : public bmcompiler::LayerDescriptor {
  public:
    std::string get_name() override { return "RESIZE"; }
    bool force_use_global_layer() override { return true; }
    // The indices are read by the controller, the weights stay where they are.
    TENSOR_TYPE_T input_type(int in_idx) override { return in_idx == 1 ? BMNET_NEURON_SHAPE : BMNET_NEURON; }
};

#endif
