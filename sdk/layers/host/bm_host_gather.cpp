#include "bm_host_gather.h"

bool GatherDescriptor::computed() const {
    return layer()->inputs.size() > 1 && layer()->inputs[1].ttype == BMNET_NEURON;
}

TENSOR_TYPE_T GatherDescriptor::input_type(int in_idx) const {
    return in_idx == 1 && !computed() ? BMNET_NEURON_SHAPE : BMNET_NEURON;
}
