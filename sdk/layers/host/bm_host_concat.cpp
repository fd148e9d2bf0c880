#include "bm_host_concat.h"

#include <algorithm>

#include "bmbuiltin.h"

// No more than one index before the axis.
bool ConcatDescriptor::joins_inputs() const {
    const std::vector<int> &shape = layer()->inputs[0].shape;
    const int axis = param<tpu_concat_param_t>()->axis, from = axis < 0 ? axis + static_cast<int>(shape.size()) : axis;
    return std::all_of(shape.begin(), shape.begin() + from, [](int extent) { return extent == 1; });
}
