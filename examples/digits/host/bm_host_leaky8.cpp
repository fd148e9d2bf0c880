#include "bm_host_leaky8.h"

#include "bmtpu.h"  // tpu_leaky8_param_t: param<tpu_leaky8_param_t>() gives the node's parameters

// The name in logs.
std::string Leaky8Descriptor::get_name() const { return "LEAKY8"; }

// Integers with or without a sign, as the net has them; what it has in fp32 becomes int8.
DATA_TYPE_T Leaky8Descriptor::input_dtype(int in_idx) const {
    return layer()->inputs.at(static_cast<std::size_t>(in_idx)).dtype == DTYPE_UINT8 ? DTYPE_UINT8 : DTYPE_INT8;
}

// Instructions on packed integers take at most 4095 channels, and 65535 rows and columns.
bool Leaky8Descriptor::force_use_global_layer() const {
    const std::vector<int> &shape = layer()->inputs[0].shape;
    for (std::size_t d = 1; d < shape.size(); d++)
        if (shape[d] > (d == 1 ? 4095 : 65535)) return true;
    return false;
}
