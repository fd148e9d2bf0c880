// TPU_CONCAT: how the compiler may treat it.
#ifndef BM_HOST_CONCAT_H
#define BM_HOST_CONCAT_H

#include <algorithm>
#include <string>
#include <vector>

#include "bmbuiltin.h"
#include "bmcompiler_tpulayer_host.hpp"

__BM_DESC__(TPU_CONCAT)
class ConcatDescriptor : public bmcompiler::LayerDescriptor {
  public:
    virtual std::string get_name() const override { return "CONCAT"; }
    virtual bool force_use_global_layer() const override { return true; }
    // No more than one index before the axis.
    virtual bool is_concat_layer() const override {
        const std::vector<int> &shape = layer()->inputs[0].shape;
        const int axis = param<tpu_concat_param_t>()->axis;
        const int from = axis < 0 ? axis + static_cast<int>(shape.size()) : axis;
        return std::all_of(shape.begin(), shape.begin() + from, [](int extent) { return extent == 1; });
    }
};

#endif
