#include "bm_host_scale_shift.h"

#include "bm_host_constants.h"

// In local memory the numbers lie one to a channel, the second of three or four dimensions.
bool ScaleShiftDescriptor::force_use_global_layer() const {
    const auto &inputs = layer()->inputs;
    if (!has_channels()) return true;
    for (std::size_t i = 1; i < inputs.size(); i++)
        if (!bm_is_constant(inputs[i]) && inputs[i].shape != bm_shape{1, inputs[0].shape[1], 1, 1}) return true;
    return false;
}

std::vector<int> ScaleShiftDescriptor::prepared_shape(int in_idx) const {
    const auto &inputs = layer()->inputs;
    if (in_idx == 0 || !has_channels()) return {};
    if (in_idx == 1 && joined()) return {2, inputs[0].shape[1], 1, 1};
    return bm_reshaped(inputs.at(static_cast<std::size_t>(in_idx)), {1, inputs[0].shape[1], 1, 1});
}

int ScaleShiftDescriptor::prepared_with(int in_idx) const { return in_idx == 2 && joined() ? 1 : in_idx; }

void ScaleShiftDescriptor::prepare(int in_idx, const void *constant, void *prepared) const {
    const auto &inputs = layer()->inputs;
    bm_keep_elements(inputs[static_cast<std::size_t>(in_idx)], constant, prepared);
    if (in_idx == 1 && joined())
        bm_keep_elements(inputs[2], inputs[2].data, static_cast<float *>(prepared) + inputs[0].shape[1]);
}

// Whether scale and shift are constants for such channels.
bool ScaleShiftDescriptor::joined() const {
    const auto &inputs = layer()->inputs;
    if (!has_channels() || inputs.size() != 3) return false;
    for (std::size_t i = 1; i < 3; i++)
        if (!bm_is_constant(inputs[i]) || inputs[i].dtype != DTYPE_FP32 ||
            bm_elements(inputs[i].shape) != static_cast<std::size_t>(inputs[0].shape[1]))
            return false;
    return true;
}

bool ScaleShiftDescriptor::has_channels() const {
    const int axis = param<tpu_scale_shift_param_t>()->axis, dims = static_cast<int>(layer()->inputs[0].shape.size());
    return (dims == 3 || dims == 4) && (axis == 1 || axis == 1 - dims);
}
