#include "bm_host_scale_shift.h"

// In local memory the numbers lie one to a channel of four dimensions.
bool ScaleShiftDescriptor::force_use_global_layer() {
    const auto &inputs = layer().inputs;
    const int axis = param<tpu_scale_shift_param_t>()->axis;
    if (inputs[0].shape.size() != 4 || (axis != 1 && axis != -3)) return true;
    for (std::size_t i = 1; i < inputs.size(); i++)
        if (inputs[i].shape != std::vector<int>{1, inputs[0].shape[1], 1, 1}) return true;
    return false;
}
